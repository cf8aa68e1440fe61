import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.utils.Exit;

/**
 * Prints how a consumer of the consumer protocol reacts to a broker without it: the exception, or "nothing" after
 * the timeout, and whether that took long. Argument: the bootstrap server.
 */
public class DisabledConsumer {
    private static final Duration LIMIT = Duration.ofSeconds(20);

    public static void main(String[] args) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        properties.put("group.id", "g");
        properties.put("group.protocol", "consumer");
        long start = System.nanoTime();
        String answer = "nothing";
        try {
            var consumer =
                new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            consumer.subscribe(List.of("t"));
            consumer.poll(LIMIT);
        } catch (Exception error) {
            answer = error.getClass().getSimpleName() + ": " + error.getMessage();
        }
        boolean isSlow = System.nanoTime() - start > LIMIT.toNanos() / 2;
        System.out.println((isSlow ? "slowly " : "at once ") + answer.replace('\n', ' '));
        Exit.exit(0);
    }
}
