import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Members of a share group work on a topic. At their first delivery some records are released, some renewed, some
 * rejected, and some members close without acknowledging what they have; other records are accepted. A line is printed
 * for each record that is settled: what happened, its value and its delivery count, once the broker has confirmed it.
 * If it was not confirmed, "unclear" precedes.
 *
 * Arguments: bootstrap server, topic, group, number of members, number of records to settle, seconds, acquire mode.
 */
public final class ShareWorkers {
    private final Properties properties = new Properties();
    private final AtomicInteger settled;
    private final Random random;
    private final String topic;
    private final int wanted;
    private final long deadline;

    private ShareWorkers(String[] args, int number, AtomicInteger settled) {
        this.settled = settled;
        topic = args[1];
        wanted = Integer.parseInt(args[4]);
        deadline = System.nanoTime() + Long.parseLong(args[5]) * 1_000_000_000L;
        random = new Random(number);
        properties.put("bootstrap.servers", args[0]);
        properties.put("group.id", args[2]);
        properties.put("client.id", "worker-" + number);
        properties.put("share.acknowledgement.mode", "explicit");
        properties.put("share.acquire.mode", args[6]);
        properties.put("max.poll.records", "20");
    }

    public static void main(String[] args) throws Exception {
        AtomicInteger settled = new AtomicInteger();
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < Integer.parseInt(args[3]); number++) {
            ShareWorkers worker = new ShareWorkers(args, number, settled);
            threads.add(new Thread(worker::work));
        }
        for (Thread thread : threads) {
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private boolean isOver() {
        return settled.get() >= wanted || System.nanoTime() > deadline;
    }

    private void work() {
        while (!isOver()) {
            try (KafkaShareConsumer<String, String> consumer =
                     new KafkaShareConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
                consumer.subscribe(List.of(topic));
                int rounds = 5 + random.nextInt(20);
                for (int round = 0; round < rounds && !isOver(); round++) {
                    boolean abandons = round == rounds - 1;
                    if (!handle(consumer, consumer.poll(Duration.ofMillis(500)), abandons)) {
                        break;
                    }
                }
            } catch (KafkaException error) {
                print("failed " + error);
            }
        }
    }

    private boolean handle(
        KafkaShareConsumer<String, String> consumer, ConsumerRecords<String, String> records, boolean abandons
    ) {
        if (abandons && !records.isEmpty()) {
            return false;
        }
        List<String> lines = new ArrayList<>();
        Set<String> renewed = new HashSet<>();
        for (ConsumerRecord<String, String> record : records) {
            int delivery = record.deliveryCount().orElse((short) 0);
            AcknowledgeType type = AcknowledgeType.ACCEPT;
            if (delivery == 1 && record.offset() % 5 == 0) {
                type = AcknowledgeType.RELEASE;
            } else if (delivery == 1 && record.offset() % 7 == 0 && random.nextBoolean()) {
                type = AcknowledgeType.RENEW;
            } else if (record.offset() % 11 == 0) {
                type = AcknowledgeType.REJECT;
            }
            consumer.acknowledge(record, type);
            if (type == AcknowledgeType.RENEW) {
                renewed.add(record.value());
            } else if (type != AcknowledgeType.RELEASE) {
                lines.add(type.toString().toLowerCase() + " " + record.value() + " " + delivery);
            }
        }
        Map<TopicIdPartition, Optional<KafkaException>> results = consumer.commitSync();
        boolean isConfirmed = results.values().stream().allMatch(Optional::isEmpty);
        for (String line : lines) {
            print(isConfirmed ? line : "unclear " + line + " " + results);
        }
        for (String value : renewed) {
            print("renew " + value);
        }
        if (isConfirmed) {
            settled.addAndGet(lines.size());
        }
        return true;
    }

    private static synchronized void print(String line) {
        System.out.println(line);
    }
}
