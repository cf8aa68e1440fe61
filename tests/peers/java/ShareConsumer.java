import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Reads a topic as a member of a share group, from its beginning. It releases every third record at its first delivery,
 * and accepts the others. Arguments: bootstrap server, topic, group, number of records to accept, seconds. Prints a
 * line for each accepted record, its value and delivery count, once the broker has confirmed the acknowledgement.
 */
public final class ShareConsumer {
    private ShareConsumer() {
    }

    public static void main(String[] args) throws Exception {
        String server = args[0], topic = args[1], group = args[2];
        int wanted = Integer.parseInt(args[3]);
        long deadline = System.nanoTime() + Long.parseLong(args[4]) * 1_000_000_000L;
        startAtTheBeginning(server, group);
        int accepted = 0;
        try (KafkaShareConsumer<String, String> consumer = consumer(server, group)) {
            consumer.subscribe(List.of(topic));
            while (accepted < wanted && System.nanoTime() < deadline) {
                StringBuilder lines = new StringBuilder();
                int now = 0;
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(300))) {
                    int delivery = record.deliveryCount().orElse((short) 0);
                    boolean isReleased = now + accepted >= wanted || (delivery == 1 && record.offset() % 3 == 0);
                    consumer.acknowledge(record, isReleased ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
                    if (!isReleased) {
                        lines.append(record.value()).append(' ').append(delivery).append('\n');
                        now++;
                    }
                }
                consumer.commitSync().forEach((partition, error) -> error.ifPresent(found -> {
                    throw new IllegalStateException(partition + ": " + found);
                }));
                System.out.print(lines);
                accepted += now;
            }
        }
    }

    private static void startAtTheBeginning(String server, String group) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", server))) {
            ConfigEntry earliest = new ConfigEntry("share.auto.offset.reset", "earliest");
            admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, group),
                List.of(new AlterConfigOp(earliest, AlterConfigOp.OpType.SET)))).all().get();
        }
    }

    private static KafkaShareConsumer<String, String> consumer(String server, String group) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", server);
        properties.put("group.id", group);
        properties.put("share.acknowledgement.mode", "explicit");
        properties.put("max.poll.records", "20");
        return new KafkaShareConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
    }
}
