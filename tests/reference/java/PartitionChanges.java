import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.controller.PartitionChangeBuilder;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

/** A filter: a partition and what is wanted in, the record that Kafka's controller would write out. Fields by tabs. */
public class PartitionChanges {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] f = line.split("\t", -1);
            Uuid[] directories = new Uuid[ints(f[0]).length];
            for (int i = 0; i < directories.length; i++) directories[i] = new Uuid(7, ints(f[0])[i]);
            PartitionRegistration partition = new PartitionRegistration.Builder().setReplicas(ints(f[0]))
                .setDirectories(directories).setIsr(ints(f[1])).setElr(ints(f[2])).setLastKnownElr(ints(f[3]))
                .setAddingReplicas(ints(f[4])).setRemovingReplicas(ints(f[5])).setLeader(Integer.parseInt(f[6]))
                .setLeaderRecoveryState(LeaderRecoveryState.of(Byte.parseByte(f[7]))).setLeaderEpoch(3)
                .setPartitionEpoch(4).build();
            Set<Integer> acceptable = new HashSet<>(list(f[8]));
            PartitionChangeBuilder builder = new PartitionChangeBuilder(partition, Uuid.ONE_UUID, 0,
                acceptable::contains, MetadataVersion.LATEST_PRODUCTION, Integer.parseInt(f[9]), f[10].equals("1"));
            builder.setTargetIsr(list(f[11]));
            if (!f[12].isEmpty()) builder.setUncleanShutdownReplicas(list(f[12]));
            builder.setElection(PartitionChangeBuilder.Election.valueOf(f[13]));
            if (!f[14].isEmpty()) builder.setTargetLeaderRecoveryState(LeaderRecoveryState.of(Byte.parseByte(f[14])));
            builder.setDefaultDirProvider(broker -> new Uuid(7, broker));
            Optional<ApiMessageAndVersion> built = builder.build();
            if (built.isEmpty()) {
                out.append("none\n");
                continue;
            }
            PartitionChangeRecord r = (PartitionChangeRecord) built.get().message();
            out.append(r.leader()).append('|').append(text(r.isr())).append('|').append(text(r.replicas())).append('|')
                .append(text(r.removingReplicas())).append('|').append(text(r.addingReplicas())).append('|')
                .append(r.leaderRecoveryState()).append('|').append(text(r.eligibleLeaderReplicas())).append('|')
                .append(text(r.lastKnownElr())).append('|')
                .append(r.directories() == null ? "null" : String.valueOf(r.directories().size())).append('\n');
        }
        System.out.print(out);
    }

    private static List<Integer> list(String text) {
        List<Integer> found = new ArrayList<>();
        if (!text.isEmpty()) for (String each : text.split(",")) found.add(Integer.parseInt(each));
        return found;
    }

    private static int[] ints(String text) {
        return list(text).stream().mapToInt(Integer::intValue).toArray();
    }

    private static String text(List<Integer> list) {
        return list == null ? "null" : list.toString().replace("[", "").replace("]", "").replace(" ", "");
    }
}
