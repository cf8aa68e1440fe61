import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Members of a share group of the history check, each in a thread. A member leaves after some seconds, and another one
 * takes its place, until the process is killed.
 *
 * Arguments: bootstrap servers, topic, group, number of members, seed, milliseconds of a lock. Each line is printed
 * before the next step, so that a killed process has told what it asked for:
 *   received MEMBER REQUESTED NOW PARTITION:OFFSET:COUNT:PRODUCER:NUMBER ...
 *   asks MEMBER NOW PARTITION:OFFSET:TYPE ...
 *   answered MEMBER NOW PARTITION:ERROR ...
 * Times are nanoseconds of the monotonic clock. The error is "none" if the acknowledgements of a partition are
 * confirmed. After REQUESTED the records were acquired.
 */
public final class HistoryShareMember {
    private static final int REQUEST_TIMEOUT_MS = 8_000;
    /** The longest time from a request for records to their arrival: it waits up to 500 ms for records. */
    private static final long LONGEST_REQUEST_NS = 9_000_000_000L;
    private static final long SECOND_NS = 1_000_000_000L;

    private final Properties properties = new Properties();
    private final String topic;
    private final String name;
    private final int lockMs;
    private final Random random;

    private HistoryShareMember(String[] args, int number) {
        topic = args[1];
        name = "java-" + number;
        random = new Random(Long.parseLong(args[4]) * 31 + number);
        lockMs = Integer.parseInt(args[5]);
        properties.put("bootstrap.servers", args[0]);
        properties.put("group.id", args[2]);
        properties.put("share.acknowledgement.mode", "explicit");
        properties.put("request.timeout.ms", Integer.toString(REQUEST_TIMEOUT_MS));
        properties.put("default.api.timeout.ms", "10000");
        properties.put("max.poll.records", "50");
        properties.put("metadata.recovery.rebootstrap.trigger.ms", "5000");
    }

    public static void main(String[] args) {
        for (int number = 0; number < Integer.parseInt(args[3]); number++) {
            HistoryShareMember member = new HistoryShareMember(args, number);
            new Thread(member::run).start();
        }
    }

    private void run() {
        for (int life = 0; ; life++) {
            try {
                live(name + "/" + ProcessHandle.current().pid() + "." + life);
            } catch (KafkaException error) {
                print("failed " + name + " " + error);
            }
        }
    }

    private void live(String member) {
        properties.put("client.id", member);
        boolean isLimited = random.nextBoolean();
        properties.put("share.acquire.mode", isLimited ? "record_limit" : "batch_optimized");
        Set<String> renewed = new HashSet<>();
        long began = System.nanoTime();
        long ends = began + (5 + random.nextInt(25)) * SECOND_NS;
        try (KafkaShareConsumer<byte[], byte[]> consumer =
                 new KafkaShareConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(topic));
            long before = began;
            while (System.nanoTime() < ends) {
                long polls = System.nanoTime();
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(500));
                if (!records.isEmpty()) {
                    // With a limit nothing is kept from one poll for a later one, except what arrived after it.
                    long requested = isLimited ? Math.max(began, before - LONGEST_REQUEST_NS) : began;
                    handle(member, consumer, records, requested, renewed);
                }
                before = polls;
            }
        }
    }

    private void handle(
        String member, KafkaShareConsumer<byte[], byte[]> consumer, ConsumerRecords<byte[], byte[]> records,
        long requested, Set<String> renewed
    ) {
        StringBuilder received = new StringBuilder("received " + member + " " + requested + " " + System.nanoTime());
        StringBuilder asked = new StringBuilder();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            String place = record.partition() + ":" + record.offset();
            int count = record.deliveryCount().orElse((short) 0);
            String[] value = new String(record.value(), StandardCharsets.ISO_8859_1).split(" ", 3);
            received.append(" " + place + ":" + count + ":" + value[0] + ":" + value[1]);
            AcknowledgeType type = treatment(record.offset(), count, renewed.contains(place));
            if (type == AcknowledgeType.RENEW) {
                renewed.add(place);
            }
            asked.append(" " + place + ":" + type.toString().toLowerCase());
            consumer.acknowledge(record, type);
        }
        print(received.toString());
        pause();
        print("asks " + member + " " + System.nanoTime() + asked);
        Map<TopicIdPartition, Optional<KafkaException>> results = consumer.commitSync();
        StringBuilder answered = new StringBuilder("answered " + member + " " + System.nanoTime());
        results.forEach((partition, error) -> answered.append(" " + partition.partition() + ":"
            + error.map(found -> found.getClass().getSimpleName()).orElse("none")));
        print(answered.toString());
    }

    /** What the Python members do, too: see treatment() in share_members.py. */
    private static AcknowledgeType treatment(long offset, int count, boolean isRenewed) {
        if (offset % 397 == 13 || (offset % 29 == 7 && count <= 2)) {
            return AcknowledgeType.RELEASE;
        }
        if (offset % 97 == 5) {
            return AcknowledgeType.REJECT;
        }
        return offset % 41 == 3 && !isRenewed ? AcknowledgeType.RENEW : AcknowledgeType.ACCEPT;
    }

    /** Sometimes hold records for a while, and rarely longer than their locks. */
    private void pause() {
        double drawn = random.nextDouble();
        try {
            if (drawn < 0.01) {
                Thread.sleep(lockMs + 1000);
            } else if (drawn < 0.05) {
                Thread.sleep(300 + random.nextInt(1200));
            }
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    private static synchronized void print(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
