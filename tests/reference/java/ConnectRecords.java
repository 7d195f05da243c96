import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.Values;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** A line of JSON in is a question to Connect's own classes, a line of JSON out is the answer. */
public class ConnectRecords {
    static final ObjectMapper MAPPER = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = lines.readLine()) != null) {
            JsonNode question = MAPPER.readTree(line);
            ObjectNode answer = MAPPER.createObjectNode();
            try {
                switch (question.get("do").asText()) {
                    case "transform": transform(question, answer); break;
                    case "predicate": predicate(question, answer); break;
                    case "convert": convert(question, answer); break;
                    case "header": header(question, answer); break;
                }
            } catch (Throwable error) {
                answer.removeAll();
                answer.put("error", error.getClass().getName());
                answer.put("message", error.getMessage());
            }
            System.out.println(MAPPER.writeValueAsString(answer));
        }
    }

    static Map<String, Object> map(JsonNode node) {
        Map<String, Object> found = new HashMap<>();
        if (node != null) node.fields().forEachRemaining(each -> found.put(each.getKey(), each.getValue().asText()));
        return found;
    }

    static JsonConverter json(boolean schemas) {
        JsonConverter converter = new JsonConverter();
        converter.configure(Map.of("schemas.enable", String.valueOf(schemas)), false);
        return converter;
    }

    static byte[] bytes(JsonNode node) {
        return node == null || node.isNull() ? null : Base64.getDecoder().decode(node.asText());
    }

    static String text(byte[] data) {
        return data == null ? null : Base64.getEncoder().encodeToString(data);
    }

    static ConnectRecord<?> record(JsonNode given) {
        JsonConverter converter = json(given.get("schemas").asBoolean());
        SchemaAndValue key = converter.toConnectData("t", bytes(given.get("key")));
        SchemaAndValue value = converter.toConnectData("t", bytes(given.get("value")));
        ConnectHeaders headers = new ConnectHeaders();
        SimpleHeaderConverter simple = new SimpleHeaderConverter();
        for (JsonNode each : given.get("headers"))
            headers.add(each.get(0).asText(), simple.toConnectHeader("t", each.get(0).asText(), each.get(1).asText().getBytes(StandardCharsets.UTF_8)));
        Long time = given.get("timestamp").isNull() ? null : given.get("timestamp").asLong();
        String topic = given.get("topic").asText();
        if (given.get("sink").asBoolean())
            return new SinkRecord(topic, 3, key.schema(), key.value(), value.schema(), value.value(), 42, time, TimestampType.CREATE_TIME, headers);
        return new SourceRecord(null, null, topic, null, key.schema(), key.value(), value.schema(), value.value(), time, headers);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    static void transform(JsonNode question, ObjectNode answer) throws Exception {
        Transformation transformation = (Transformation) Class.forName(question.get("class").asText()).getConstructor().newInstance();
        transformation.configure(map(question.get("settings")));
        ConnectRecord<?> found = (ConnectRecord<?>) transformation.apply(record(question.get("record")));
        if (found == null) {
            answer.put("dropped", true);
            return;
        }
        JsonConverter converter = json(question.get("record").get("schemas").asBoolean());
        answer.put("topic", found.topic());
        answer.put("key", text(converter.fromConnectData("t", found.keySchema(), found.key())));
        answer.put("value", text(converter.fromConnectData("t", found.valueSchema(), found.value())));
        if (found.timestamp() == null) answer.putNull("timestamp"); else answer.put("timestamp", found.timestamp());
        ArrayNode headers = answer.putArray("headers");
        for (Header each : found.headers()) {
            ArrayNode pair = headers.addArray();
            pair.add(each.key());
            pair.add(each.schema() == null ? "null" : each.schema().type().toString());
            pair.add(Values.convertToString(each.schema(), each.value()));
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    static void predicate(JsonNode question, ObjectNode answer) throws Exception {
        Predicate predicate = (Predicate) Class.forName(question.get("class").asText()).getConstructor().newInstance();
        predicate.configure(map(question.get("settings")));
        answer.put("found", predicate.test(record(question.get("record"))));
    }

    static void convert(JsonNode question, ObjectNode answer) throws Exception {
        JsonConverter from = json(true);
        Converter converter = (Converter) Class.forName(question.get("class").asText()).getConstructor().newInstance();
        converter.configure(map(question.get("settings")), question.get("key").asBoolean());
        if (question.get("read").asBoolean()) {
            SchemaAndValue found = converter.toConnectData("t", bytes(question.get("data")));
            answer.put("data", text(from.fromConnectData("t", found.schema(), found.value())));
        } else {
            SchemaAndValue given = from.toConnectData("t", bytes(question.get("data")));
            answer.put("data", text(converter.fromConnectData("t", given.schema(), given.value())));
        }
    }

    static void header(JsonNode question, ObjectNode answer) {
        SchemaAndValue found = Values.parseString(question.get("text").asText());
        answer.put("type", found == null || found.schema() == null ? "null" : found.schema().type().toString());
        answer.put("text", found == null ? "null" : Values.convertToString(found.schema(), found.value()));
    }
}
