import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Callable;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.utils.Exit;

/**
 * Prints how Java clients react to a broker without the consumer protocol and share groups: a line for
 * each with the exception, or "nothing" after the timeout. Argument: the bootstrap server.
 */
public class MissingFeatures {
    private static final Duration LIMIT = Duration.ofSeconds(20);

    public static void main(String[] args) {
        Properties consumer = common(args[0]);
        consumer.put("group.id", "g");
        show("share", () -> {
            var client = new KafkaShareConsumer<>(consumer, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            client.subscribe(List.of("t"));
            long end = System.nanoTime() + LIMIT.toNanos();
            while (System.nanoTime() < end) {
                client.poll(Duration.ofMillis(200));
            }
            return null;
        });
        consumer.put("group.protocol", "consumer");
        show("consumer", () -> {
            var client = new KafkaConsumer<>(consumer, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            client.subscribe(List.of("t"));
            return client.poll(LIMIT);
        });
        Exit.exit(0);
    }

    private static Properties common(String server) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", server);
        return properties;
    }

    private static void show(String what, Callable<Object> work) {
        long start = System.nanoTime();
        String answer = "nothing";
        try {
            work.call();
        } catch (Exception error) {
            answer = error.getClass().getSimpleName() + ": " + error.getMessage();
        }
        long took = (System.nanoTime() - start) / 1_000_000_000;
        System.out.println(what + ": " + answer.replace('\n', ' '));
        if (took > LIMIT.toSeconds() / 2) {
            System.out.println("slow: " + what + " took " + took + " s");
        }
    }
}
