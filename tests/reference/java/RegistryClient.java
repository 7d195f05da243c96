import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.avro.AvroSchema;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.avro.AvroSchemaProvider;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.CachedSchemaRegistryClient;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException;
import org.apache.flink.avro.shaded.com.fasterxml.jackson.databind.ObjectMapper;

/** Confluent's Java client against a registry: RegistryClient URL SUBJECT. */
public class RegistryClient {
  public static void main(String[] arguments) throws Exception {
    String subject = arguments[1];
    CachedSchemaRegistryClient client =
        new CachedSchemaRegistryClient(
            List.of(arguments[0]), 100, List.of(new AvroSchemaProvider()), Map.of());
    Map<String, Object> story = new HashMap<>();
    AvroSchema schema =
        new AvroSchema("{\"type\":\"record\",\"name\":\"User\",\"fields\":[{\"name\":\"name\",\"type\":\"string\"}]}");
    int id = client.register(subject, schema);
    client.reset();
    story.put("same", client.getSchemaById(id).canonicalString().equals(schema.canonicalString()));
    story.put("latest", client.getLatestSchemaMetadata(subject).getVersion());
    story.put("version", client.getVersion(subject, schema));
    story.put("versions", client.getAllVersions(subject));
    story.put("subjects", client.getAllSubjectsById(id));
    story.put("level", client.updateCompatibility(subject, "FULL"));
    story.put("compatible", client.testCompatibility(subject, new AvroSchema("\"int\"")));
    story.put("verbose", client.testCompatibilityVerbose(subject, new AvroSchema("\"int\"")).size() > 0);
    story.put("mode", client.getMode());
    try {
      client.register(subject, new AvroSchema("\"int\""));
    } catch (RestClientException e) {
      story.put("refused", List.of(e.getStatus(), e.getErrorCode()));
    }
    story.put("deleted", client.deleteSubject(subject));
    story.put("gone", client.deleteSubject(Map.of(), subject, true));
    System.out.println(new ObjectMapper().writeValueAsString(story));
  }
}
