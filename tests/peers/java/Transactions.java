import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Exit;

/**
 * Copies a topic exactly once: reads, writes and commits offsets in transactions, of which every fourth is aborted and
 * done again. Then a second producer with the same id fences the first, and a third one ends its transactions before its
 * records are sent. Arguments: bootstrap server, input, output,
 * number of records, records of a transaction. Prints what it saw, a line each.
 */
public class Transactions {
    public static void main(String[] args) {
        String server = args[0], input = args[1], output = args[2];
        int count = Integer.parseInt(args[3]), each = Integer.parseInt(args[4]);
        KafkaProducer<String, String> producer = producer(server, "copier");
        producer.initTransactions();
        KafkaConsumer<String, String> consumer = consumer(server, "copiers");
        consumer.subscribe(List.of(input));
        int copied = 0, transactions = 0, aborted = 0;
        long start = System.nanoTime();
        while (copied < count) {
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(500));
            if (records.isEmpty()) {
                continue;
            }
            producer.beginTransaction();
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            Map<TopicPartition, Long> first = new HashMap<>();
            for (ConsumerRecord<String, String> record : records) {
                TopicPartition partition = new TopicPartition(record.topic(), record.partition());
                producer.send(new ProducerRecord<>(output, record.key(), record.value()));
                offsets.put(partition, new OffsetAndMetadata(record.offset() + 1));
                first.putIfAbsent(partition, record.offset());
            }
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            transactions++;
            if (transactions % 4 == 0) {
                producer.abortTransaction();
                aborted++;
                first.forEach(consumer::seek);
            } else {
                producer.commitTransaction();
                copied += records.count();
            }
        }
        System.out.println("copied: " + copied + " in " + transactions + " transactions, " + aborted + " aborted");
        KafkaProducer<String, String> second = producer(server, "copier");
        second.initTransactions();
        try {
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(output, "k", "zombie"));
            producer.commitTransaction();
            System.out.println("fenced: no");
        } catch (ProducerFencedException error) {
            System.out.println("fenced: " + error.getClass().getSimpleName());
        } catch (Exception error) {
            System.out.println("fenced: " + error.getClass().getSimpleName());
        }
        second.beginTransaction();
        second.send(new ProducerRecord<>(output, "k", "open"));
        second.flush();
        System.out.println("committed: " + read(server, output, "read_committed").size());
        System.out.println("uncommitted has the open record: " + read(server, output, "read_uncommitted").contains("open"));
        second.abortTransaction();
        List<String> values = read(server, output, "read_committed");
        System.out.println("distinct: " + values.stream().distinct().count() + " of " + values.size());
        System.out.println("rapid: " + rapid(server, output));
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", server))) {
            System.out.println("listed: " + settled(admin));
            System.out.println("described: " + admin.describeTransactions(List.of("copier")).description("copier").get().state());
        } catch (Exception error) {
            System.out.println("admin: " + error);
        }
        Exit.exit(0);
    }

    /** Waits for the markers of the last transactions: a producer may close before they are written. */
    private static List<String> settled(Admin admin) throws Exception {
        for (int attempt = 0; ; attempt++) {
            List<String> states = admin.listTransactions().all().get().stream().map(found ->
                found.transactionalId() + " " + found.state()).toList();
            if (attempt == 300 || states.stream().noneMatch(state -> state.contains(" Prepare"))) {
                return states;
            }
            Thread.sleep(100);
        }
    }

    /** Ends transactions at once, so that an abort may be of a transaction without records. */
    private static int rapid(String server, String output) {
        int ended = 0;
        try (KafkaProducer<String, String> producer = producer(server, "rapid")) {
            producer.initTransactions();
            for (; ended < 40; ended++) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(output, "rapid", "rapid " + ended));
                if (ended % 2 == 0) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
        }
        return ended;
    }

    private static KafkaProducer<String, String> producer(String server, String id) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", server);
        properties.put("transactional.id", id);
        properties.put("max.block.ms", "30000");
        return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
    }

    private static KafkaConsumer<String, String> consumer(String server, String group) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", server);
        properties.put("group.id", group);
        properties.put("isolation.level", "read_committed");
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        properties.put("max.poll.records", "100");
        return new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
    }

    private static List<String> read(String server, String topic, String isolation) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", server);
        properties.put("isolation.level", isolation);
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            List<TopicPartition> partitions = new ArrayList<>();
            consumer.partitionsFor(topic).forEach(info -> partitions.add(new TopicPartition(topic, info.partition())));
            consumer.assign(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            consumer.seekToBeginning(partitions);
            while (ends.entrySet().stream().anyMatch(end -> consumer.position(end.getKey()) < end.getValue())) {
                consumer.poll(Duration.ofMillis(200)).forEach(record -> values.add(record.value()));
            }
        }
        return values;
    }
}
