import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.TransactionNamingStrategy;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * A Flink job on a local cluster that copies a topic exactly once. A map fails once in each run, so that Flink restarts
 * the job from a checkpoint. Arguments: bootstrap servers, input, output, folder of checkpoints, how many records a map
 * copies before it fails, the strategy of transactional ids, and optionally the checkpoint to begin with. Prints
 * "failing" when it fails, and runs until it is killed.
 */
public class FlinkCopy {
    public static void main(String[] args) throws Exception {
        Configuration configuration = new Configuration();
        configuration.setString("execution.checkpointing.interval", "300 ms");
        configuration.setString("execution.checkpointing.dir", "file://" + args[3]);
        configuration.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        configuration.setString("restart-strategy.type", "fixed-delay");
        configuration.setString("restart-strategy.fixed-delay.attempts", "5");
        configuration.setString("restart-strategy.fixed-delay.delay", "100 ms");
        configuration.setString("taskmanager.memory.network.max", "32 mb");
        if (args.length > 6) {
            configuration.setString("execution.state-recovery.path", "file://" + args[6]);
        }
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(2, configuration);
        KafkaSource<String> source = KafkaSource.<String>builder()
            .setBootstrapServers(args[0])
            .setTopics(args[1])
            .setGroupId("flink")
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setProperty("isolation.level", "read_committed")
            .setValueOnlyDeserializer(new SimpleStringSchema())
            .build();
        Properties properties = new Properties();
        properties.put("transaction.timeout.ms", "60000");
        KafkaSink<String> sink = KafkaSink.<String>builder()
            .setBootstrapServers(args[0])
            .setKafkaProducerConfig(properties)
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionalIdPrefix("flink-copy")
            .setTransactionNamingStrategy(TransactionNamingStrategy.valueOf(args[5]))
            .setRecordSerializer(KafkaRecordSerializationSchema.<String>builder()
                .setTopic(args[2])
                .setValueSerializationSchema(new SimpleStringSchema())
                .build())
            .build();
        environment.fromSource(source, WatermarkStrategy.noWatermarks(), "input").uid("input")
            .map(new FailsOnce(Integer.parseInt(args[4]))).uid("map")
            .sinkTo(sink).uid("output");
        environment.execute();
    }

    /** Copies slowly enough for a few checkpoints. */
    public static class FailsOnce implements MapFunction<String, String> {
        private static final AtomicBoolean HAS_FAILED = new AtomicBoolean();
        private final int after;
        private transient int copied;

        FailsOnce(int after) {
            this.after = after;
        }

        @Override
        public String map(String value) throws Exception {
            Thread.sleep(1);
            if (++copied > after && HAS_FAILED.compareAndSet(false, true)) {
                System.out.println("failing");
                throw new IllegalStateException("a failure on purpose");
            }
            return value;
        }
    }
}
