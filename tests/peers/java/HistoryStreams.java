import java.time.Duration;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.StreamPartitioner;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.api.RecordMetadata;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * The streams application of the history check: for each record of a topic, with exactly_once_v2, it writes
 * "LIFE COUNT PARTITION OFFSET" to the same partition of another topic. The count is that of the partition's records so
 * far, in a state of the task. A life is one thread that processes a task, from the assignment until it gives the task
 * up; it has a name of its own.
 *
 * Arguments: bootstrap servers, folder of its state, name of this instance, input, output, then settings as name=value.
 * It runs until SIGTERM, and prints its states.
 */
public final class HistoryStreams {
    private static final AtomicInteger LIVES = new AtomicInteger();
    private static final String STORE = "counts";

    private HistoryStreams() {
    }

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        properties.put("state.dir", args[1]);
        properties.put("client.id", args[2]);
        properties.put("processing.guarantee", "exactly_once_v2");
        properties.put("consumer.auto.offset.reset", "earliest");
        for (int index = 5; index < args.length; index++) {
            String[] setting = args[index].split("=", 2);
            properties.put(setting[0], setting[1]);
        }
        String instance = args[2] + "/" + ProcessHandle.current().pid();
        KafkaStreams streams = new KafkaStreams(topology(instance, args[3], args[4]), properties);
        streams.setStateListener((now, before) -> System.out.println("state: " + now));
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

    private static Topology topology(String instance, String input, String output) {
        Topology topology = new Topology();
        topology.addSource("input", Serdes.ByteArray().deserializer(), Serdes.ByteArray().deserializer(), input);
        topology.addProcessor("count", () -> new Count(instance), "input");
        topology.addStateStore(Stores.keyValueStoreBuilder(
            Stores.persistentKeyValueStore(STORE), Serdes.Integer(), Serdes.Long()), "count");
        topology.addSink("output", output, Serdes.Integer().serializer(), Serdes.String().serializer(),
            new SamePartition(), "count");
        return topology;
    }

    private static final class SamePartition implements StreamPartitioner<Integer, String> {
        @Override
        public Optional<Set<Integer>> partitions(String topic, Integer partition, String value, int count) {
            return Optional.of(Set.of(partition));
        }
    }

    private static final class Count implements Processor<byte[], byte[], Integer, String> {
        private final String instance;
        private ProcessorContext<Integer, String> context;
        private KeyValueStore<Integer, Long> counts;
        private String life;

        Count(String instance) {
            this.instance = instance;
        }

        @Override
        public void init(ProcessorContext<Integer, String> context) {
            this.context = context;
            counts = context.getStateStore(STORE);
            life = instance + "." + LIVES.incrementAndGet();
        }

        @Override
        public void process(Record<byte[], byte[]> record) {
            RecordMetadata place = context.recordMetadata().orElseThrow();
            Long before = counts.get(place.partition());
            long count = before == null ? 1 : before + 1;
            counts.put(place.partition(), count);
            String value = life + " " + count + " " + place.partition() + " " + place.offset();
            context.forward(new Record<>(place.partition(), value, record.timestamp()));
        }
    }
}
