import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/** A filter: lines with entries and questions in, a line with 0 or 1 per question out. Fields are separated by tabs. */
public class Authorizations {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        StandardAuthorizer authorizer = null;
        Map<Uuid, StandardAcl> acls = new HashMap<>();
        StringBuilder answers = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] f = line.split("\t", -1);
            switch (f[0]) {
                case "new":
                    Map<String, Object> configs = new HashMap<>();
                    configs.put("super.users", f[1]);
                    configs.put("allow.everyone.if.no.acl.found", f[2]);
                    configs.put("node.id", "1");
                    authorizer = new StandardAuthorizer();
                    authorizer.configure(configs);
                    authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), new HashMap<>()));
                    acls = new HashMap<>();
                    break;
                case "acl":
                    acls.put(Uuid.randomUuid(), new StandardAcl(ResourceType.fromCode(code(f[1])), f[2],
                        PatternType.fromCode(code(f[3])), f[4], f[5], AclOperation.fromCode(code(f[6])),
                        AclPermissionType.fromCode(code(f[7]))));
                    break;
                case "loaded":
                    authorizer.loadSnapshot(acls);
                    authorizer.completeInitialLoad();
                    break;
                case "ask":
                    Action action = new Action(AclOperation.fromCode(code(f[3])),
                        new ResourcePattern(ResourceType.fromCode(code(f[4])), f[5], PatternType.LITERAL), 1, false, false);
                    answers.append(bit(authorizer.authorize(context(f[1], f[2]), List.of(action)).get(0)));
                    break;
                case "any":
                    answers.append(bit(authorizer.authorizeByResourceType(context(f[1], f[2]),
                        AclOperation.fromCode(code(f[3])), ResourceType.fromCode(code(f[4])))));
                    break;
                default:
                    throw new IllegalArgumentException(line);
            }
        }
        System.out.println(answers);
    }

    private static byte code(String text) {
        return Byte.parseByte(text);
    }

    private static char bit(AuthorizationResult result) {
        return result == AuthorizationResult.ALLOWED ? '1' : '0';
    }

    private static RequestContext context(String user, String host) throws Exception {
        return new RequestContext(new RequestHeader(ApiKeys.METADATA, (short) 12, "client", 1), "1",
            InetAddress.getByName(host), new KafkaPrincipal("User", user), ListenerName.normalised("PLAINTEXT"),
            SecurityProtocol.PLAINTEXT, ClientInformation.EMPTY, false);
    }
}
