import java.io.IOException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import kafka.tools.StorageTool;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;

/**
 * Runs a node and some of Kafka's tools once, so that the JVM can write the classes that they load into an archive when
 * it ends (-XX:ArchiveClassesAtExit). With the archive a tool starts in half the time. The argument is an empty folder.
 */
public class SharedClasses {
    private static final class Ended extends Error {}

    private interface Tool {
        void run() throws Exception;
    }

    public static void main(String[] args) throws Exception {
        Exit.Procedure end = (status, message) -> {
            throw new Ended();
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        Path folder = Path.of(args[0]);
        int port = freePort();
        int controllerPort = freePort();
        String at = "127.0.0.1:" + port;
        Path properties = folder.resolve("server.properties");
        Files.write(properties, List.of(
            "process.roles=broker,controller",
            "node.id=1",
            "listeners=PLAINTEXT://" + at + ",CONTROLLER://127.0.0.1:" + controllerPort,
            "controller.listener.names=CONTROLLER",
            "controller.quorum.bootstrap.servers=127.0.0.1:" + controllerPort,
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users=User:ANONYMOUS",
            "offsets.topic.replication.factor=1",
            "offsets.topic.num.partitions=1",
            "log.dirs=" + folder.resolve("data")));
        run(() -> StorageTool.main(new String[] {
            "format", "--standalone", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", properties.toString()}));
        KafkaRaftServer node =
            new KafkaRaftServer(KafkaConfig.fromProps(Utils.loadProps(properties.toString())), Time.SYSTEM);
        node.startup();
        String[] where = {"--bootstrap-server", at};
        run(() -> org.apache.kafka.tools.TopicCommand.main(with(where, "--create", "--topic", "t")));
        run(() -> org.apache.kafka.tools.TopicCommand.main(with(where, "--describe")));
        run(() -> kafka.admin.ConfigCommand.main(with(where, "--describe", "--entity-type", "topics", "--all")));
        run(() -> kafka.admin.ConfigCommand.main(
            with(where, "--alter", "--add-config", "retention.ms=5000", "--entity-type", "topics", "--entity-name", "t")));
        run(() -> org.apache.kafka.tools.AclCommand.main(
            with(where, "--add", "--allow-principal", "User:a", "--operation", "Read", "--topic", "t")));
        run(() -> org.apache.kafka.tools.consumer.group.ConsumerGroupCommand.main(with(where, "--list")));
        run(() -> org.apache.kafka.tools.consumer.ConsoleConsumer.main(
            with(where, "--topic", "t", "--group", "g", "--timeout-ms", "2000")));
        node.shutdown();
        node.awaitShutdown();
    }

    private static void run(Tool tool) throws Exception {
        try {
            tool.run();
        } catch (Ended ended) {
            // The tool has completed its work.
        }
    }

    private static String[] with(String[] first, String... rest) {
        String[] all = new String[first.length + rest.length];
        System.arraycopy(first, 0, all, 0, first.length);
        System.arraycopy(rest, 0, all, first.length, rest.length);
        return all;
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        }
    }
}
