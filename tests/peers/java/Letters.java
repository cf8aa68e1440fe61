import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.ConnectorTransactionBoundaries;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.source.TransactionContext;

/**
 * A source that ends its transactions. Each poll returns the letters up to the next |. The letters C and A request a
 * commit and an abort after the batch, c and x after the record.
 */
public class Letters extends SourceConnector {
    private Map<String, String> settings;

    @Override
    public String version() {
        return "1.0";
    }

    @Override
    public void start(Map<String, String> settings) {
        this.settings = settings;
    }

    @Override
    public void stop() {
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public Class<? extends Task> taskClass() {
        return Reader.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int maxTasks) {
        return List.of(settings);
    }

    @Override
    public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> settings) {
        return ExactlyOnceSupport.SUPPORTED;
    }

    @Override
    public ConnectorTransactionBoundaries canDefineTransactionBoundaries(Map<String, String> settings) {
        return ConnectorTransactionBoundaries.SUPPORTED;
    }

    public static class Reader extends SourceTask {
        private static final Map<String, String> WORK = Map.of("numbers", "all");
        private String[] batches;
        private String topic;
        private int batch;
        private int letter;

        @Override
        public String version() {
            return "1.0";
        }

        @Override
        public void start(Map<String, String> settings) {
            batches = settings.get("letters").split("\\|");
            topic = settings.get("topic");
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            if (batch == batches.length) {
                Thread.sleep(100);
                return null;
            }
            TransactionContext transactions = context.transactionContext();
            List<SourceRecord> records = new ArrayList<>();
            for (char found : batches[batch++].toCharArray()) {
                Map<String, Integer> next = Map.of("next", ++letter);
                String value = String.valueOf(found);
                SourceRecord record = new SourceRecord(WORK, next, topic, 0, Schema.STRING_SCHEMA, value);
                switch (found) {
                    case 'C' -> transactions.commitTransaction();
                    case 'A' -> transactions.abortTransaction();
                    case 'c' -> transactions.commitTransaction(record);
                    case 'x' -> transactions.abortTransaction(record);
                    default -> { }
                }
                records.add(record);
            }
            return records;
        }

        @Override
        public void stop() {
        }
    }
}
