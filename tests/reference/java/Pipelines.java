// Pipelines, each with a consumer in a group of its own and transactions that hold what it copies and its offsets:
// `java -cp ... Pipelines.java SERVERS INPUT OUTPUT,GROUP,TRANSACTIONAL_ID,PROTOCOL ...`. Prints each transaction that is
// committed or aborted, by its output, and each write that is refused; ends at the end of its standard input.
//
// After an abort a new producer goes on. One that goes on itself may lose records, whatever brokers it talks to: offsets
// that it had not sent when the transaction failed stay in TransactionManager.pendingTxnOffsetCommits (4.3.1) and are
// sent with those of its next transaction, although what they stand for was aborted.

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Pipelines {
    static volatile boolean stopping = false;

    public static void main(String[] args) throws Exception {
        List<Thread> pipelines = new ArrayList<>();
        for (int index = 2; index < args.length; index++) {
            String[] fields = args[index].split(",");
            pipelines.add(new Thread(() -> run(args[0], args[1], fields[0], fields[1], fields[2], fields[3])));
        }
        for (Thread each : pipelines) {
            each.start();
        }
        while (System.in.read() >= 0) {
        }
        stopping = true;
        for (Thread each : pipelines) {
            each.join();
        }
    }

    static void run(String servers, String input, String output, String group, String id, String protocol) {
        Properties reading = new Properties();
        reading.put("bootstrap.servers", servers);
        reading.put("group.id", group);
        reading.put("group.protocol", protocol);
        reading.put("auto.offset.reset", "earliest");
        reading.put("enable.auto.commit", "false");
        reading.put("isolation.level", "read_committed");
        StringDeserializer text = new StringDeserializer();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(reading, text, text)) {
            consumer.subscribe(List.of(input));
            while (!stopping) {
                try (KafkaProducer<String, String> producer = open(servers, id)) {
                    copyUntilAborted(output, consumer, producer);
                }
            }
        } catch (RuntimeException error) {
            System.out.println("ENDED " + output + " " + error);
        }
    }

    static KafkaProducer<String, String> open(String servers, String id) {
        Properties writing = new Properties();
        writing.put("bootstrap.servers", servers);
        writing.put("transactional.id", id);
        KafkaProducer<String, String> producer =
            new KafkaProducer<>(writing, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        return producer;
    }

    static void copyUntilAborted(String output, KafkaConsumer<String, String> consumer,
            KafkaProducer<String, String> producer) {
        while (!stopping) {
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
            if (!records.isEmpty() && !copy(records, output, consumer, producer)) {
                return;
            }
        }
    }

    static boolean copy(ConsumerRecords<String, String> records, String output, KafkaConsumer<String, String> consumer,
            KafkaProducer<String, String> producer) {
        Map<TopicPartition, OffsetAndMetadata> reached = new HashMap<>();
        try {
            producer.beginTransaction();
            for (ConsumerRecord<String, String> each : records) {
                producer.send(new ProducerRecord<>(output, each.partition(), null, each.value()), (sent, error) -> {
                    if (error != null) {
                        System.out.println("UNSENT " + output + " " + each.partition() + " " + error);
                    }
                });
                reached.put(new TopicPartition(each.topic(), each.partition()), new OffsetAndMetadata(each.offset() + 1));
            }
            producer.sendOffsetsToTransaction(reached, consumer.groupMetadata());
            producer.commitTransaction();
            System.out.println("COMMITTED " + output);
            return true;
        } catch (KafkaException error) {
            System.out.println("ABORTED " + output + " " + error);
            producer.abortTransaction();
            Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
            for (TopicPartition each : consumer.assignment()) {
                OffsetAndMetadata found = committed.get(each);
                consumer.seek(each, found == null ? 0 : found.offset());
            }
            return false;
        }
    }
}
