// The four workloads of benchmarks/streams_rivals.py as a user of Kafka Streams would write them.
//
// Takes orders from its standard input, words with blanks between them, and answers each with a line:
//     start WORKLOAD APPLICATION_ID SERVERS INPUT TABLE OUTPUT STATE_DIRECTORY [property=value ...]   -> started
//     stop                                                                                             -> stopped
// One topology runs at a time, each in this same JVM, so that the second one finds it warm.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;

public class Rival {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final Serde<String> STRING = Serdes.String();
    private static final Serde<JsonNode> JSON = Serdes.serdeFrom(
        (topic, node) -> node == null ? null : written(node),
        (topic, data) -> data == null ? null : parsed(data));
    private static final Serde<Mean> MEAN = Serdes.serdeFrom(
        (topic, mean) -> mean == null
            ? null
            : ByteBuffer.allocate(16).putLong(mean.count).putDouble(mean.sum).array(),
        (topic, data) -> data == null
            ? null
            : new Mean(ByteBuffer.wrap(data).getLong(), ByteBuffer.wrap(data, 8, 8).getDouble()));

    private record Mean(long count, double sum) {
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        KafkaStreams running = null;
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("start")) {
                running = started(words);
                System.out.println("started");
            } else {
                running.close(Duration.ofSeconds(30));
                running.cleanUp();
                System.out.println("stopped");
            }
        }
        System.exit(0);
    }

    private static KafkaStreams started(String[] words) throws InterruptedException {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, words[2]);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, words[3]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, words[7]);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        for (int index = 8; index < words.length; index++) {
            String[] pair = words[index].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        KafkaStreams streams = new KafkaStreams(topology(words[1], words[4], words[5], words[6]), settings);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        CountDownLatch ready = new CountDownLatch(1);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING || now.hasCompletedShutdown()) {
                ready.countDown();
            }
        });
        streams.start();
        ready.await();
        return streams;
    }

    private static Topology topology(String workload, String input, String table, String output) {
        StreamsBuilder builder = new StreamsBuilder();
        switch (workload) {
            case "filter" -> filter(builder, input, output);
            case "count" -> count(builder, input, output);
            case "average" -> average(builder, input, output);
            case "join" -> join(builder, input, table, output);
            default -> throw new IllegalArgumentException("no workload " + workload);
        }
        return builder.build();
    }

    private static void filter(StreamsBuilder builder, String input, String output) {
        builder.stream(input, Consumed.with(STRING, JSON))
            .filter((key, value) -> value.get("amount").asDouble() > 25)
            .mapValues(value -> {
                ObjectNode made = MAPPER.createObjectNode();
                made.put("id", value.get("id").asLong());
                made.put("twice", value.get("amount").asDouble() * 2);
                return (JsonNode) made;
            })
            .to(output, Produced.with(STRING, JSON));
    }

    private static void count(StreamsBuilder builder, String input, String output) {
        builder.stream(input, Consumed.with(STRING, Serdes.ByteArray()))
            .groupByKey()
            .count(Materialized.with(STRING, Serdes.Long()))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(output, Produced.with(STRING, STRING));
    }

    private static void average(StreamsBuilder builder, String input, String output) {
        Duration minute = Duration.ofMinutes(1);
        builder.stream(input, Consumed.with(STRING, JSON))
            .groupByKey(Grouped.with(STRING, JSON))
            .windowedBy(TimeWindows.ofSizeWithNoGrace(minute))
            .aggregate(
                () -> new Mean(0, 0),
                (key, value, mean) -> new Mean(mean.count + 1, mean.sum + value.get("amount").asDouble()),
                Materialized.with(STRING, MEAN))
            .toStream()
            .mapValues(mean -> {
                ObjectNode made = MAPPER.createObjectNode();
                made.put("n", mean.count);
                made.put("average", mean.sum / mean.count);
                return (JsonNode) made;
            })
            .to(output, Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, minute.toMillis()), JSON));
    }

    private static void join(StreamsBuilder builder, String input, String table, String output) {
        KTable<String, JsonNode> rows = builder.table(table, Consumed.with(STRING, JSON));
        KStream<String, JsonNode> records = builder.stream(input, Consumed.with(STRING, JSON));
        records
            .join(
                rows,
                (value, row) -> {
                    ObjectNode made = MAPPER.createObjectNode();
                    made.put("id", value.get("id").asLong());
                    made.put("amount", value.get("amount").asDouble());
                    made.put("name", row.get("name").asText());
                    return (JsonNode) made;
                },
                Joined.with(STRING, JSON, JSON))
            .to(output, Produced.with(STRING, JSON));
    }

    private static byte[] written(JsonNode node) {
        try {
            return MAPPER.writeValueAsBytes(node);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static JsonNode parsed(byte[] data) {
        try {
            return MAPPER.readTree(data);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
