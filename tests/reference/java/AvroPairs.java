import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.List;
import java.util.Map;
import org.apache.avro.NameValidator;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.avro.AvroSchema;
import org.apache.flink.avro.shaded.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.avro.shaded.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.avro.shaded.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.flink.avro.shaded.com.fasterxml.jackson.databind.node.ObjectNode;

/** A pair of schemas a line, reader and writer; answers with what Confluent's checker and Avro say of them. */
public class AvroPairs {
  public static void main(String[] arguments) throws Exception {
    ObjectMapper mapper = new ObjectMapper();
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
    PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8");
    for (String line; (line = in.readLine()) != null; ) {
      JsonNode pair = mapper.readTree(line);
      ObjectNode answer = mapper.createObjectNode();
      try {
        String reader = pair.get(0).asText();
        String writer = pair.get(1).asText();
        Schema x = parse(reader);
        Schema y = parse(writer);
        answer.put("canonical", x.toString());
        ArrayNode found = answer.putArray("incompatibilities");
        for (SchemaCompatibility.Incompatibility each :
            SchemaCompatibility.checkReaderWriterCompatibility(x, y).getResult().getIncompatibilities()) {
          found.add(each.getType() + "|" + each.getLocation() + "|" + each.getMessage());
        }
        answer.put("confluent", confluent(reader).isBackwardCompatible(confluent(writer)).isEmpty());
      } catch (Exception e) {
        answer.removeAll();
        answer.put("error", String.valueOf(e.getMessage()));
      }
      out.println(mapper.writeValueAsString(answer));
    }
    out.flush();
  }

  private static Schema parse(String text) {
    Schema.Parser parser = new Schema.Parser(NameValidator.STRICT_VALIDATOR);
    parser.setValidateDefaults(true);
    return parser.parse(text);
  }

  private static AvroSchema confluent(String text) {
    return new AvroSchema(text, List.of(), Map.of(), null);
  }
}
