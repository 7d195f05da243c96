// Topologies of Kafka Streams run by its own TopologyTestDriver: what it makes of given records.
//
// A line of JSON on standard input is {"topology": NAME, "records": [[TOPIC, KEY, VALUE, TIMESTAMP], ...]}; the answer is
// a line with [[KEY, VALUE, TIMESTAMP, NUMBER], ...], what was written to the topic "out" and which record brought it
// about. Keys of windows are KEY@START@END. "chain:A,B" are the operators A and B one behind the other, as
// tests/unit/pipelines/streams/chains.py has them.
// Values are text; aggregates are texts joined together, so that order and number of their parts can be seen.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Branched;
import org.apache.kafka.streams.kstream.CogroupedKStream;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.test.TestRecord;

public class Topologies {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final Serde<String> STRING = Serdes.String();
    private static final Serde<Long> LONG = Serdes.Long();
    private static final Consumed<String, String> TEXTS = Consumed.with(STRING, STRING);
    private static final Duration GRACE = Duration.ofMillis(5);
    private static final TimeWindows TUMBLING = TimeWindows.ofSizeAndGrace(Duration.ofMillis(10), GRACE);
    private static final TimeWindows HOPPING = TUMBLING.advanceBy(Duration.ofMillis(4));
    private static final SlidingWindows SLIDING =
        SlidingWindows.ofTimeDifferenceAndGrace(Duration.ofMillis(8), GRACE);
    private static final SessionWindows SESSION =
        SessionWindows.ofInactivityGapAndGrace(Duration.ofMillis(6), GRACE);
    private static final JoinWindows NEAR = JoinWindows.ofTimeDifferenceAndGrace(Duration.ofMillis(9), GRACE)
        .before(Duration.ofMillis(3));
    private static final JoinWindows AT_ONCE = JoinWindows.ofTimeDifferenceAndGrace(Duration.ZERO, GRACE);
    private static final StreamJoined<String, String, String> JOINED = StreamJoined.with(STRING, STRING, STRING);

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonNode asked = MAPPER.readTree(line);
            StreamsBuilder builder = new StreamsBuilder();
            String name = asked.get("topology").asText();
            if (name.startsWith("chain:")) {
                new Chain(builder).build(name.substring("chain:".length()));
            } else {
                build(builder, name);
            }
            System.out.println(MAPPER.writeValueAsString(answer(builder, asked.get("records"))));
        }
        System.exit(0);
    }

    private static List<List<Object>> answer(StreamsBuilder builder, JsonNode records) throws Exception {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "topologies");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
        Path directory = Files.createTempDirectory("barnabas-topologies-");
        settings.put(StreamsConfig.STATE_DIR_CONFIG, directory.toString());
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        List<List<Object>> found = new ArrayList<>();
        try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(), settings, Instant.EPOCH)) {
            var output = driver.createOutputTopic("out", new StringDeserializer(), new StringDeserializer());
            int number = 0;
            for (JsonNode record : records) {
                TestInputTopic<String, String> topic =
                    driver.createInputTopic(record.get(0).asText(), new StringSerializer(), new StringSerializer());
                topic.pipeInput(text(record.get(1)), text(record.get(2)), record.get(3).asLong());
                // Unmatched records of joins are looked for once a second.
                driver.advanceWallClockTime(Duration.ofSeconds(2));
                for (TestRecord<String, String> one : output.readRecordsToList()) {
                    found.add(Arrays.asList(one.key(), one.value(), one.timestamp(), number));
                }
                number++;
            }
        }
        Files.deleteIfExists(directory); // the driver has emptied it
        return found;
    }

    private static String text(JsonNode node) {
        return node.isNull() ? null : node.asText();
    }

    private static void build(StreamsBuilder builder, String name) {
        switch (name) {
            case "filter" -> written(builder.stream("in", TEXTS).filter((key, value) -> !"1".equals(value)));
            case "map" -> written(builder.stream("in", TEXTS).map((key, value) -> KeyValue.pair(value, key)));
            case "flat-map" -> written(builder.stream("in", TEXTS)
                .flatMap((key, value) -> List.of(KeyValue.pair(key, value), KeyValue.pair(value, "again"))));
            case "select-key" -> written(builder.stream("in", TEXTS).selectKey((key, value) -> value + "!"));
            case "branch" -> branch(builder);
            case "merge" -> written(builder.stream("in", TEXTS).merge(builder.stream("other", TEXTS)));
            case "filter-not" -> written(builder.stream("in", TEXTS).filterNot((key, value) -> "1".equals(value)));
            case "map-values" -> written(builder.stream("in", TEXTS).mapValues((key, value) -> key + value));
            case "flat-map-values" -> written(builder.stream("in", TEXTS)
                .flatMapValues(value -> value == null ? List.<String>of() : List.of(value, value + "!")));
            case "peek" -> written(builder.stream("in", TEXTS).peek((key, value) -> { }));
            case "repartition" -> written(builder.stream("in", TEXTS)
                .selectKey((key, value) -> "3".equals(value) ? null : key)
                .repartition(Repartitioned.with(STRING, STRING)));
            case "through" -> {
                builder.stream("in", TEXTS).filter((key, value) -> !"1".equals(value))
                    .to("between", Produced.with(STRING, STRING));
                written(builder.stream("between", TEXTS).mapValues(value -> value + "!"));
            }
            case "several-topics" -> written(builder.stream(List.of("in", "other"), TEXTS));
            case "count" -> shown(grouped(builder).count(Materialized.with(STRING, LONG)).mapValues(String::valueOf));
            case "reduce" -> shown(grouped(builder).reduce(Topologies::together));
            case "aggregate" -> shown(grouped(builder)
                .aggregate(() -> "", (key, value, found) -> found + value, Materialized.with(STRING, STRING)));
            case "aggregate-to-nothing" -> shown(grouped(builder).aggregate(
                () -> "",
                (key, value, found) -> found.length() > 2 ? null : found + value,
                Materialized.with(STRING, STRING)));
            case "regrouped" -> shown(builder.stream("in", TEXTS)
                .groupBy((key, value) -> value, Grouped.with(STRING, STRING))
                .count(Materialized.with(STRING, LONG)).mapValues(String::valueOf));
            case "cogroup" -> shown(cogrouped(builder).aggregate(() -> "", Materialized.with(STRING, STRING)));
            default -> buildMore(builder, name);
        }
    }

    private static void buildMore(StreamsBuilder builder, String name) {
        switch (name) {
            case "tumbling" -> windows(grouped(builder).windowedBy(TUMBLING).reduce(Topologies::together));
            case "hopping" -> windows(grouped(builder).windowedBy(HOPPING).reduce(Topologies::together));
            case "sliding" -> windows(grouped(builder).windowedBy(SLIDING).reduce(Topologies::together));
            case "session" -> windows(grouped(builder).windowedBy(SESSION).reduce(Topologies::together));
            case "tumbling-closed" -> windows(closed(grouped(builder).windowedBy(TUMBLING).reduce(Topologies::together)));
            case "hopping-closed" -> windows(closed(grouped(builder).windowedBy(HOPPING).reduce(Topologies::together)));
            case "sliding-closed" -> windows(closed(grouped(builder).windowedBy(SLIDING).reduce(Topologies::together)));
            case "session-closed" -> windows(closed(grouped(builder).windowedBy(SESSION).reduce(Topologies::together)));
            case "count-limited" -> shown(grouped(builder).count(Materialized.with(STRING, LONG))
                .suppress(Suppressed.untilTimeLimit(Duration.ofMillis(7), Suppressed.BufferConfig.unbounded()))
                .mapValues(String::valueOf));
            case "tumbling-limited" -> windows(grouped(builder).windowedBy(TUMBLING).reduce(Topologies::together)
                .suppress(Suppressed.untilTimeLimit(Duration.ofMillis(3), Suppressed.BufferConfig.unbounded())));
            case "own-time" -> written(timed(builder).mapValues(value -> value + "!"));
            case "tumbling-own-time" ->
                windows(timed(builder).groupByKey().windowedBy(TUMBLING).reduce(Topologies::together));
            case "tumbling-count" -> windows(grouped(builder).windowedBy(TUMBLING).count().mapValues(String::valueOf));
            case "hopping-count" -> windows(grouped(builder).windowedBy(HOPPING).count().mapValues(String::valueOf));
            case "sliding-count" -> windows(grouped(builder).windowedBy(SLIDING).count().mapValues(String::valueOf));
            case "session-count" -> windows(grouped(builder).windowedBy(SESSION).count().mapValues(String::valueOf));
            case "tumbling-aggregate" -> windows(grouped(builder).windowedBy(TUMBLING)
                .aggregate(() -> "=", (key, value, found) -> found + value, Materialized.with(STRING, STRING)));
            case "sliding-aggregate" -> windows(grouped(builder).windowedBy(SLIDING)
                .aggregate(() -> "=", (key, value, found) -> found + value, Materialized.with(STRING, STRING)));
            case "session-aggregate" -> windows(grouped(builder).windowedBy(SESSION).aggregate(
                () -> "=",
                (key, value, found) -> found + value,
                (key, one, other) -> one + other,
                Materialized.with(STRING, STRING)));
            case "tumbling-cogroup" -> windows(cogrouped(builder).windowedBy(TUMBLING)
                .aggregate(() -> "=", Materialized.with(STRING, STRING)));
            case "session-cogroup" -> windows(cogrouped(builder).windowedBy(SESSION)
                .aggregate(() -> "=", (key, one, other) -> one + other, Materialized.with(STRING, STRING)));
            case "tumbling-count-closed" -> windows(
                closed(grouped(builder).windowedBy(TUMBLING).count()).mapValues(String::valueOf));
            case "session-count-closed" -> windows(
                closed(grouped(builder).windowedBy(SESSION).count()).mapValues(String::valueOf));
            case "windows-regrouped" -> shown(grouped(builder).windowedBy(TUMBLING).reduce(Topologies::together)
                .groupBy((key, value) -> KeyValue.pair(key.key(), value), Grouped.with(STRING, STRING))
                .count(Materialized.with(STRING, LONG)).mapValues(String::valueOf));
            case "streams-self" -> {
                KStream<String, String> stream = builder.stream("in", TEXTS);
                written(stream.join(stream, Topologies::pair, NEAR, JOINED));
            }
            case "streams-at-once" -> written(builder.stream("in", TEXTS)
                .outerJoin(builder.stream("other", TEXTS), Topologies::pair, AT_ONCE, JOINED));
            case "streams-rekeyed" -> written(builder.stream("in", TEXTS).selectKey((key, value) -> value)
                .leftJoin(
                    builder.stream("other", TEXTS).selectKey((key, value) -> value), Topologies::pair, NEAR, JOINED));
            case "stream-aggregate" -> written(builder.stream("in", TEXTS).leftJoin(
                builder.stream("other", TEXTS).groupByKey().reduce(Topologies::together), Topologies::pair));
            case "stream-filtered-table" -> written(builder.stream("in", TEXTS).leftJoin(
                builder.table("other", TEXTS).filter((key, value) -> !"1".equals(value)).mapValues(value -> value + "!"),
                Topologies::pair));
            case "streams-inner" -> written(builder.stream("in", TEXTS)
                .join(builder.stream("other", TEXTS), Topologies::pair, NEAR, JOINED));
            case "streams-left" -> written(builder.stream("in", TEXTS)
                .leftJoin(builder.stream("other", TEXTS), Topologies::pair, NEAR, JOINED));
            case "streams-outer" -> written(builder.stream("in", TEXTS)
                .outerJoin(builder.stream("other", TEXTS), Topologies::pair, NEAR, JOINED));
            case "stream-table" -> written(builder.stream("in", TEXTS)
                .join(builder.table("other", TEXTS), Topologies::pair));
            case "stream-table-left" -> written(builder.stream("in", TEXTS)
                .leftJoin(builder.table("other", TEXTS), Topologies::pair));
            case "stream-global" -> written(builder.stream("in", TEXTS)
                .join(builder.globalTable("other", TEXTS), (key, value) -> value, Topologies::pair));
            case "stream-global-left" -> written(builder.stream("in", TEXTS)
                .leftJoin(builder.globalTable("other", TEXTS), (key, value) -> value, Topologies::pair));
            default -> buildTables(builder, name);
        }
    }

    private static void buildTables(StreamsBuilder builder, String name) {
        KTable<String, String> table = builder.table("in", TEXTS);
        switch (name) {
            case "table" -> shown(table);
            case "table-filter" -> shown(table.filter((key, value) -> !"1".equals(value)));
            case "table-map" -> shown(table.mapValues(value -> value + "!"));
            case "table-regrouped" -> shown(table
                .groupBy((key, value) -> KeyValue.pair(value, key), Grouped.with(STRING, STRING))
                .count(Materialized.with(STRING, LONG)).mapValues(String::valueOf));
            case "table-aggregate" -> shown(table
                .groupBy((key, value) -> KeyValue.pair(value, key), Grouped.with(STRING, STRING))
                .aggregate(
                    () -> "",
                    (key, value, found) -> found + value,
                    (key, value, found) -> found.replaceFirst(value, ""),
                    Materialized.with(STRING, STRING)));
            case "table-limited" -> shown(table
                .suppress(Suppressed.untilTimeLimit(Duration.ofMillis(7), Suppressed.BufferConfig.unbounded())));
            case "table-limited-few" -> shown(table.mapValues(value -> value + "!")
                .suppress(Suppressed.untilTimeLimit(Duration.ofMillis(20), Suppressed.BufferConfig.maxRecords(2))));
            case "table-filter-not" -> shown(table.filterNot((key, value) -> "1".equals(value)));
            case "table-reduce" -> shown(table
                .groupBy((key, value) -> KeyValue.pair(value, key), Grouped.with(STRING, STRING))
                .reduce(Topologies::together, (old, gone) -> old.replaceFirst(gone, "")));
            case "table-filter-regrouped" -> shown(table.filter((key, value) -> !"1".equals(value))
                .groupBy((key, value) -> KeyValue.pair(value, key), Grouped.with(STRING, STRING))
                .count(Materialized.with(STRING, LONG)).mapValues(String::valueOf));
            case "tables-chain" -> shown(table.leftJoin(builder.table("other", TEXTS), Topologies::pair)
                .outerJoin(builder.table("third", TEXTS), Topologies::pair));
            case "tables-filtered" -> shown(table.filter((key, value) -> !"1".equals(value))
                .outerJoin(builder.table("other", TEXTS).mapValues(value -> value + "!"), Topologies::pair)
                .filter((key, value) -> !value.contains("2")));
            case "tables-regrouped" -> shown(table.join(builder.table("other", TEXTS), Topologies::pair)
                .groupBy((key, value) -> KeyValue.pair(value, key), Grouped.with(STRING, STRING))
                .count(Materialized.with(STRING, LONG)).mapValues(String::valueOf));
            case "foreign-nobody" -> shown(table.leftJoin(builder.table("other", TEXTS),
                value -> "3".equals(value) ? null : value, Topologies::pair, Materialized.with(STRING, STRING)));
            case "foreign-nobody-inner" -> shown(table.join(builder.table("other", TEXTS),
                value -> "3".equals(value) ? null : value, Topologies::pair, Materialized.with(STRING, STRING)));
            case "foreign-filtered" -> shown(table.filter((key, value) -> !"2".equals(value)).join(
                builder.table("other", TEXTS).filter((key, value) -> !"1".equals(value)),
                value -> value, Topologies::pair, Materialized.with(STRING, STRING)));
            case "tables-inner" -> shown(table.join(builder.table("other", TEXTS), Topologies::pair));
            case "tables-left" -> shown(table.leftJoin(builder.table("other", TEXTS), Topologies::pair));
            case "tables-outer" -> shown(table.outerJoin(builder.table("other", TEXTS), Topologies::pair));
            case "foreign" -> shown(table.join(builder.table("other", TEXTS), value -> value, Topologies::pair,
                Materialized.with(STRING, STRING)));
            case "foreign-left" -> shown(table.leftJoin(builder.table("other", TEXTS), value -> value, Topologies::pair,
                Materialized.with(STRING, STRING)));
            case "to-table" -> shown(builder.stream("other", TEXTS)
                .mapValues(value -> value == null ? null : value + "!").toTable(Materialized.with(STRING, STRING))
                .join(table, Topologies::pair));
            default -> throw new IllegalArgumentException("no topology " + name);
        }
    }

    /** The operators of a chain. Tables that several of them use are one. */
    private static final class Chain {
        private final StreamsBuilder builder;
        private final Map<String, KTable<String, String>> tables = new HashMap<>();
        private int stores = 0;
        private int branches = 0;

        Chain(StreamsBuilder builder) {
            this.builder = builder;
        }

        void build(String names) {
            KStream<String, String> stream = stream("in");
            for (String name : names.split(",")) {
                stream = behind(stream, name);
            }
            written(stream);
        }

        private KStream<String, String> stream(String topic) {
            return builder.stream(topic, TEXTS);
        }

        private KTable<String, String> table(String topic) {
            return tables.computeIfAbsent(topic, name -> builder.table(name, TEXTS));
        }

        private KStream<String, String> behind(KStream<String, String> stream, String name) {
            return switch (name) {
                case "filter" -> stream.filter((key, value) -> value.length() % 4 != 3);
                case "map-values" -> stream.mapValues(value -> brief(value + "v"));
                case "map" -> stream.map((key, value) -> KeyValue.pair(keyOf(value), brief(value + "m")));
                case "select-key" -> stream.selectKey((key, value) -> keyOf(value + "s"));
                case "flat-map-values" -> stream.flatMapValues(value -> List.of(value, brief(value + "f")));
                case "branch" -> {
                    String part = "part-" + branches++;
                    Map<String, KStream<String, String>> parts = stream.split(Named.as(part))
                        .branch((key, value) -> value.length() % 2 == 0, Branched.as("-even"))
                        .defaultBranch(Branched.as("-odd"));
                    yield parts.get(part + "-odd").mapValues(value -> brief(value + "o")).merge(parts.get(part + "-even"));
                }
                case "double" -> {
                    KStream<String, String> first = stream.mapValues(value -> brief(value + "1"));
                    yield stream.filter((key, value) -> !"c".equals(key)).merge(first);
                }
                case "merge" -> stream.merge(stream("other"));
                case "repartition" -> stream.repartition(Repartitioned.with(STRING, STRING));
                case "count" -> grouped(stream).count(Materialized.with(STRING, LONG)).toStream()
                    .mapValues(String::valueOf);
                case "reduce" -> grouped(stream).reduce(Chain::joined).toStream();
                case "tumbling" -> named(grouped(stream).windowedBy(TUMBLING).reduce(Chain::joined));
                case "hopping" -> named(grouped(stream).windowedBy(HOPPING).count().mapValues(String::valueOf));
                case "closed" -> named(
                    closed(grouped(stream).windowedBy(TUMBLING).count()).mapValues(String::valueOf));
                case "hopping-closed" -> named(closed(grouped(stream).windowedBy(HOPPING).reduce(Chain::joined)));
                case "session" -> named(grouped(stream).windowedBy(SESSION).reduce(Chain::joined));
                case "session-closed" -> named(closed(grouped(stream).windowedBy(SESSION).reduce(Chain::joined)));
                case "sliding" -> named(grouped(stream).windowedBy(SLIDING).reduce(Chain::joined));
                case "join" -> stream.join(stream("other"), Chain::both, NEAR, JOINED);
                case "left-join" -> stream.leftJoin(stream("other"), Chain::both, NEAR, JOINED);
                case "outer-join" -> stream.outerJoin(stream("other"), Chain::both, NEAR, JOINED);
                case "join-self" -> stream.join(
                    stream.mapValues(value -> brief(value + "j")), Chain::both, NEAR, JOINED);
                case "join-table" -> stream.join(table("rows"), Chain::both);
                case "left-join-table" -> stream.leftJoin(table("rows"), Chain::both);
                case "join-own-count" -> stream.join(grouped(stream).count(Materialized.with(STRING, LONG)),
                    (value, count) -> brief(value + "#" + count), Joined.with(STRING, STRING, LONG));
                case "to-table" -> there(stream.toTable(Materialized.with(STRING, STRING))
                    .filter((key, value) -> value.length() % 4 != 2).toStream());
                case "join-tables" -> there(stream.toTable(Materialized.with(STRING, STRING))
                    .outerJoin(table("rows"), Chain::both).toStream());
                case "foreign-key" -> there(stream.toTable(Materialized.with(STRING, STRING))
                    .leftJoin(table("names"), Chain::keyOf, Chain::both, Materialized.with(STRING, STRING)).toStream());
                case "regrouped" -> stream.toTable(Materialized.with(STRING, STRING))
                    .groupBy((key, value) -> KeyValue.pair(keyOf(value), value), Grouped.with(STRING, STRING))
                    .count(Materialized.with(STRING, LONG)).toStream().mapValues(String::valueOf);
                case "table-aggregate" -> there(stream.toTable(Materialized.with(STRING, STRING))
                    .groupBy((key, value) -> KeyValue.pair(keyOf(value), value), Grouped.with(STRING, STRING))
                    .aggregate(
                        () -> "=",
                        (key, value, found) -> brief(found + "+" + value),
                        (key, value, found) -> brief(found + "-" + value),
                        Materialized.with(STRING, STRING))
                    .toStream());
                case "limited" -> there(stream.toTable(Materialized.with(STRING, STRING))
                    .suppress(Suppressed.untilTimeLimit(Duration.ofMillis(4), Suppressed.BufferConfig.unbounded()))
                    .toStream());
                case "process" -> {
                    String store = store();
                    yield stream.process(() -> new Last(store), store);
                }
                case "punctuate" -> {
                    String store = store();
                    yield stream.process(() -> new Gathered(store), store);
                }
                default -> throw new IllegalArgumentException("no operator " + name);
            };
        }

        private String store() {
            String name = "processed-" + ++stores;
            builder.addStateStore(
                Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore(name), STRING, STRING));
            return name;
        }

        /** Forwards a value with the one before it, and every third value of a key twice. */
        private static final class Last extends ContextualProcessor<String, String, String, String> {
            private final String name;

            Last(String name) {
                this.name = name;
            }

            @Override
            public void process(Record<String, String> record) {
                KeyValueStore<String, String> store = context().getStateStore(name);
                String held = store.get(record.key());
                int count = held == null ? 0 : Integer.parseInt(held.substring(0, held.indexOf(':')));
                String last = held == null ? "" : held.substring(held.indexOf(':') + 1);
                store.put(record.key(), (count + 1) + ":" + record.value());
                for (int time = 0; time < (count % 3 == 2 ? 2 : 1); time++) {
                    context().forward(record.withValue(brief(last + ">" + record.value())));
                }
            }
        }

        /** Gathers values by key, and forwards them whenever 10 ms of stream time have passed. */
        private static final class Gathered extends ContextualProcessor<String, String, String, String> {
            private final String name;

            Gathered(String name) {
                this.name = name;
            }

            @Override
            public void init(ProcessorContext<String, String> context) {
                super.init(context);
                context.schedule(Duration.ofMillis(10), PunctuationType.STREAM_TIME, this::show);
            }

            @Override
            public void process(Record<String, String> record) {
                KeyValueStore<String, String> store = context().getStateStore(name);
                String held = store.get(record.key());
                store.put(record.key(), brief((held == null ? "" : held) + "." + record.value()));
            }

            private void show(long now) {
                KeyValueStore<String, String> store = context().getStateStore(name);
                List<KeyValue<String, String>> all = new ArrayList<>();
                try (KeyValueIterator<String, String> entries = store.all()) {
                    entries.forEachRemaining(all::add);
                }
                for (KeyValue<String, String> entry : all) {
                    context().forward(new Record<>(entry.key, entry.value, now));
                    store.delete(entry.key);
                }
            }
        }

        private static KGroupedStream<String, String> grouped(KStream<String, String> stream) {
            return stream.groupByKey(Grouped.with(STRING, STRING));
        }

        private static <V> KStream<String, V> there(KStream<String, V> stream) {
            return stream.filter((key, value) -> value != null);
        }

        private static KStream<String, String> named(KTable<? extends Windowed<String>, String> table) {
            return table.toStream().filter((key, value) -> value != null)
                .map((key, value) -> KeyValue.pair(key.key(), brief(value + "@" + key.window().start() % 100)));
        }

        private static String brief(String text) {
            return text.substring(Math.max(0, text.length() - 9));
        }

        private static String keyOf(String value) {
            return "abc".substring(value.length() % 3, value.length() % 3 + 1);
        }

        private static String joined(String old, String now) {
            return brief(old + "+" + now);
        }

        private static String both(String left, String right) {
            return brief("(" + (left == null ? "-" : left) + " " + (right == null ? "-" : right) + ")");
        }
    }

    private static CogroupedKStream<String, String> cogrouped(StreamsBuilder builder) {
        return grouped(builder).<String>cogroup((key, value, found) -> found + value)
            .cogroup(builder.stream("other", TEXTS).groupByKey(), (key, value, found) -> found + "-" + value);
    }

    private static void branch(StreamsBuilder builder) {
        Map<String, KStream<String, String>> branches = builder.stream("in", TEXTS).split()
            .branch((key, value) -> "1".equals(value), Branched.as("one"))
            .branch((key, value) -> value != null, Branched.as("two"))
            .noDefaultBranch();
        for (KStream<String, String> each : branches.values()) {
            written(each.mapValues(value -> value + "!"));
        }
    }

    private static KGroupedStream<String, String> grouped(StreamsBuilder builder) {
        return builder.stream("in", TEXTS).groupByKey();
    }

    private static KStream<String, String> timed(StreamsBuilder builder) {
        return builder.stream("in", Consumed.with(STRING, STRING).withTimestampExtractor((record, latest) ->
            record.timestamp() + (record.value() == null ? 0 : 6 * Long.parseLong((String) record.value()) - 10)));
    }

    private static <W extends Windowed<String>, V> KTable<W, V> closed(KTable<W, V> table) {
        return table.suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()));
    }

    private static String together(String old, String now) {
        return old + now;
    }

    private static String pair(String left, String right) {
        return left + "," + right;
    }

    private static void windows(KTable<Windowed<String>, String> table) {
        written(table.toStream((key, value) -> key.key() + "@" + key.window().start() + "@" + key.window().end()));
    }

    private static void shown(KTable<String, String> table) {
        written(table.toStream());
    }

    private static void written(KStream<String, String> stream) {
        stream.to("out", Produced.with(STRING, STRING));
    }
}
