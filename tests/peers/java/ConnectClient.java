import com.fasterxml.jackson.annotation.JsonAutoDetect;
import com.fasterxml.jackson.annotation.PropertyAccessor;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Callable;
import org.sourcelab.kafka.connect.apiclient.Configuration;
import org.sourcelab.kafka.connect.apiclient.KafkaConnectClient;
import org.sourcelab.kafka.connect.apiclient.request.dto.ConnectorPluginConfigDefinition;
import org.sourcelab.kafka.connect.apiclient.request.dto.NewConnectorDefinition;
import org.sourcelab.kafka.connect.apiclient.request.post.PostConnectorRestart;

/**
 * Runs every call of kafka-connect-client on a connector that it creates and deletes. Arguments: URL, the connector's
 * file, its topic.
 *
 * Each line of the output: the call's name, "ok" or "failed", and as JSON the result or the exception. Requests for
 * results that appear later are repeated until they do.
 */
public final class ConnectClient {
    private static final long PATIENCE_MS = 90_000;
    private static final String NAME = "clients file";
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private static final ObjectMapper JSON = new ObjectMapper()
        .setVisibility(PropertyAccessor.ALL, JsonAutoDetect.Visibility.NONE)
        .setVisibility(PropertyAccessor.FIELD, JsonAutoDetect.Visibility.ANY)
        .disable(SerializationFeature.FAIL_ON_EMPTY_BEANS);

    private ConnectClient() {
    }

    public static void main(String[] args) throws Exception {
        KafkaConnectClient client = new KafkaConnectClient(new Configuration(args[0]));
        Map<String, String> config = new HashMap<>();
        config.put("connector.class", "org.apache.kafka.connect.file.FileStreamSourceConnector");
        config.put("tasks.max", "1");
        config.put("file", args[1]);
        config.put("topic", args[2]);
        tell("version", client::getConnectServerVersion);
        tell("plugins", client::getConnectorPlugins);
        tell("list of none", client::getConnectors);
        tell("missing", () -> client.getConnector("missing"));
        tell("status of missing", () -> client.getConnectorStatus("missing"));
        tell("validate", () -> client.validateConnectorPluginConfig(definition(config)));
        Map<String, String> wrong = new HashMap<>(config);
        wrong.remove("topic");
        wrong.put("tasks.max", "many");
        tell("validate what is wrong", () -> client.validateConnectorPluginConfig(definition(wrong)));
        tell("create what is wrong", () -> client.addConnector(new NewConnectorDefinition("wrong", wrong)));
        create(client, config);
        looks(client, args[2]);
        changes(client, config);
        tell("delete", () -> client.deleteConnector(NAME));
        await("list in the end", client::getConnectors, "[]");
        tell("delete what is gone", () -> client.deleteConnector(NAME));
    }

    private static void create(KafkaConnectClient client, Map<String, String> config) throws Exception {
        tell("create", () -> client.addConnector(new NewConnectorDefinition(NAME, config)));
        await("first task", () -> client.getConnectorTaskStatus(NAME, 0), "RUNNING");
        tell("create again", () -> client.addConnector(new NewConnectorDefinition(NAME, config)));
    }

    private static void looks(KafkaConnectClient client, String topic) throws Exception {
        tell("list", client::getConnectors);
        tell("status", () -> client.getConnectorStatus(NAME));
        tell("expand status", () -> client.getConnectorsWithExpandedStatus().getMappedStatuses());
        tell("expand info", () -> client.getConnectorsWithExpandedInfo().getMappedDefinitions());
        tell("expand all", () -> client.getConnectorsWithAllExpandedMetadata().getMappedStatuses());
        tell("get", () -> client.getConnector(NAME));
        tell("config", () -> client.getConnectorConfig(NAME));
        tell("tasks", () -> client.getConnectorTasks(NAME));
        tell("task status", () -> client.getConnectorTaskStatus(NAME, 0));
        tell("missing task", () -> client.getConnectorTaskStatus(NAME, 7));
        await("topics", () -> client.getConnectorTopics(NAME), topic);
        tell("reset topics", () -> client.resetConnectorTopics(NAME));
    }

    private static void changes(KafkaConnectClient client, Map<String, String> config) throws Exception {
        tell("pause", () -> client.pauseConnector(NAME));
        await("paused", () -> client.getConnectorTaskStatus(NAME, 0), "PAUSED");
        tell("resume", () -> client.resumeConnector(NAME));
        await("resumed", () -> client.getConnectorTaskStatus(NAME, 0), "RUNNING");
        tell("restart", () -> client.restartConnector(NAME));
        PostConnectorRestart withTasks = new PostConnectorRestart(NAME).withIncludeTasks(true).withOnlyFailed(false);
        tell("restart with tasks", () -> client.restartConnector(withTasks));
        await("restarted", () -> client.getConnectorTaskStatus(NAME, 0), "RUNNING");
        tell("restart task", () -> client.restartConnectorTask(NAME, 0));
        await("task restarted", () -> client.getConnectorTaskStatus(NAME, 0), "RUNNING");
        tell("restart missing task", () -> client.restartConnectorTask(NAME, 7));
        Map<String, String> changed = new HashMap<>(config);
        changed.put("batch.size", "1000");
        tell("update", () -> client.updateConnectorConfig(NAME, changed));
        await("updated", () -> client.getConnectorConfig(NAME), "batch.size");
    }

    private static ConnectorPluginConfigDefinition definition(Map<String, String> config) {
        return new ConnectorPluginConfigDefinition("FileStreamSourceConnector", config);
    }

    private static void tell(String name, Callable<?> call) throws Exception {
        try {
            print(name, "ok", call.call());
        } catch (Exception error) {
            print(name, "failed", error.getClass().getSimpleName() + ": " + error.getMessage());
        }
    }

    private static void await(String name, Callable<?> call, String wanted) throws Exception {
        long end = System.currentTimeMillis() + PATIENCE_MS;
        while (System.currentTimeMillis() < end) {
            try {
                if (JSON.writeValueAsString(call.call()).contains(wanted)) {
                    break;
                }
            } catch (Exception error) {
                // Not there yet: report the last answer.
            }
            Thread.sleep(200);
        }
        tell(name, call);
    }

    private static void print(String name, String outcome, Object content) throws Exception {
        OUT.println(name + "\t" + outcome + "\t" + JSON.writeValueAsString(content));
    }
}
