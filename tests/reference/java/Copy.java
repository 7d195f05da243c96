// Copies a topic partition by partition, in a group, with transactions that commit its offsets too:
// `java -cp ... Copy.java SERVERS INPUT OUTPUT GROUP TRANSACTIONAL_ID`. Prints what it got assigned and how many it has
// copied so far; ends at the end of its standard input.

import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
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

public class Copy {
    public static void main(String[] args) throws Exception {
        Properties reading = new Properties();
        reading.put("bootstrap.servers", args[0]);
        reading.put("group.id", args[3]);
        reading.put("auto.offset.reset", "earliest");
        reading.put("enable.auto.commit", "false");
        reading.put("isolation.level", "read_committed");
        reading.put("session.timeout.ms", "1500");
        reading.put("heartbeat.interval.ms", "300");
        reading.put("max.poll.records", "50");
        reading.put("reconnect.backoff.max.ms", "200");
        Properties writing = new Properties();
        writing.put("bootstrap.servers", args[0]);
        writing.put("transactional.id", args[4]);
        writing.put("transaction.timeout.ms", "3000");
        writing.put("reconnect.backoff.max.ms", "200");

        boolean[] stopping = {false};
        Thread listening = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                }
            } catch (java.io.IOException error) {
                // The end as well.
            }
            stopping[0] = true;
        });
        listening.setDaemon(true);
        listening.start();

        StringDeserializer text = new StringDeserializer();
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(reading, text, text);
        KafkaProducer<String, String> producer =
            new KafkaProducer<>(writing, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        consumer.subscribe(List.of(args[1]), new ConsumerRebalanceListener() {
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            }

            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                System.out.println("ASSIGNED " + partitions.size());
            }
        });
        long copied = 0;
        while (!stopping[0]) {
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
            if (records.isEmpty()) {
                continue;
            }
            try {
                copy(records, args[2], consumer, producer);
                copied += records.count();
                System.out.println("COPIED " + copied);
            } catch (KafkaException error) {
                System.out.println("ABORTED " + error);
                producer.abortTransaction();
                goBack(consumer);
            }
        }
        consumer.close();
        producer.close();
    }

    static void copy(ConsumerRecords<String, String> records, String output, KafkaConsumer<String, String> consumer,
            KafkaProducer<String, String> producer) {
        Map<TopicPartition, OffsetAndMetadata> reached = new HashMap<>();
        producer.beginTransaction();
        for (ConsumerRecord<String, String> each : records) {
            producer.send(new ProducerRecord<>(output, each.partition(), null, each.value()));
            reached.put(new TopicPartition(each.topic(), each.partition()), new OffsetAndMetadata(each.offset() + 1));
        }
        producer.sendOffsetsToTransaction(reached, consumer.groupMetadata());
        producer.commitTransaction();
    }

    static void goBack(KafkaConsumer<String, String> consumer) {
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
        for (TopicPartition each : consumer.assignment()) {
            OffsetAndMetadata found = committed.get(each);
            consumer.seek(each, found == null ? 0 : found.offset());
        }
    }
}
