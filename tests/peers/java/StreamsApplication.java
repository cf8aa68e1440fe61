import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.processor.StateRestoreListener;

/**
 * A Kafka Streams application with exactly_once_v2: counts words, joins a stream with a table, and joins two streams in
 * a window. Arguments: bootstrap servers, folder of its state, then settings as name=value. It runs until SIGTERM, and
 * prints its states and what it restores, a line each.
 */
public class StreamsApplication {
    static final Duration WINDOW = Duration.ofSeconds(10);

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        properties.put("state.dir", args[1]);
        properties.put("application.id", "application");
        properties.put("processing.guarantee", "exactly_once_v2");
        properties.put("default.key.serde", Serdes.StringSerde.class.getName());
        properties.put("default.value.serde", Serdes.StringSerde.class.getName());
        properties.put("statestore.cache.max.bytes", "0");  // Each count is written, not only the last of a commit.
        properties.put("consumer.auto.offset.reset", "earliest");
        for (int index = 2; index < args.length; index++) {
            String[] setting = args[index].split("=", 2);
            properties.put(setting[0], setting[1]);
        }
        KafkaStreams streams = new KafkaStreams(topology().build(), properties);
        streams.setStateListener((now, before) -> System.out.println("state: " + now));
        streams.setGlobalStateRestoreListener(new Restored());
        streams.setUncaughtExceptionHandler(error -> {
            System.out.println("failed: " + error);
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        CountDownLatch stopped = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            System.out.println("closed: " + streams.close(Duration.ofSeconds(25)));
            stopped.countDown();
        }));
        streams.start();
        stopped.await();
    }

    private static StreamsBuilder topology() {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> lines = builder.stream("lines");
        lines.flatMapValues(line -> List.of(line.split(" ")))
            .groupBy((key, word) -> word)
            .count(Materialized.as("words"))
            .toStream()
            .mapValues(String::valueOf)
            .to("counts");
        KTable<String, String> customers = builder.table("customers", Materialized.as("customers"));
        KStream<String, String> orders = builder.stream("orders");
        orders.join(customers, (order, customer) -> order + "|" + customer).to("named-orders");
        KStream<String, String> views = builder.stream("views"), clicks = builder.stream("clicks");
        JoinWindows window = JoinWindows.ofTimeDifferenceAndGrace(WINDOW, Duration.ofDays(1));
        views.join(clicks, (view, click) -> view + "|" + click, window,
            StreamJoined.<String, String, String>as("pairs").withStoreName("pairs")).to("pairs");
        return builder;
    }

    private static class Restored implements StateRestoreListener {
        @Override
        public void onRestoreStart(TopicPartition partition, String store, long first, long end) {}

        @Override
        public void onBatchRestored(TopicPartition partition, String store, long last, long count) {}

        @Override
        public void onRestoreEnd(TopicPartition partition, String store, long count) {
            System.out.println("restored: " + store + " " + partition + " " + count);
        }
    }
}
