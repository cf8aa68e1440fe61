import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;

/**
 * Runs Kafka nodes, one after the other or in parallel in one process, so that the second start takes a tenth of the
 * first. Reads "start NAME PROPERTIES" and "stop NAME"; answers "@@up NAME", "@@failed NAME", "@@stopped NAME" on
 * standard error. A node that ends the process prints "@@ended STATUS" instead: the node halts permanently, the
 * process stays.
 */
public class NodeHost {
    private static final Map<String, KafkaRaftServer> SERVERS = new ConcurrentHashMap<>();

    private static final class Ended extends Error {
        Ended(int status) {
            super("the process would have ended with " + status);
        }
    }

    public static void main(String[] args) throws Exception {
        Exit.Procedure end = (status, message) -> {
            System.err.println("@@ended " + status + " " + message);
            throw new Ended(status);
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ", 3);
            Thread thread = new Thread(() -> run(words));
            thread.setDaemon(true);
            thread.start();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void run(String[] words) {
        String name = words[1];
        try {
            if (words[0].equals("start")) {
                KafkaRaftServer server =
                    new KafkaRaftServer(KafkaConfig.fromProps(Utils.loadProps(words[2]), false), Time.SYSTEM);
                SERVERS.put(name, server);
                server.startup();
                System.err.println("@@up " + name);
            } else {
                KafkaRaftServer server = SERVERS.remove(name);
                server.shutdown();
                server.awaitShutdown();
                System.err.println("@@stopped " + name);
            }
        } catch (Throwable error) {
            System.err.println("FATAL Exiting Kafka due to fatal exception: " + error);
            error.printStackTrace();
            System.err.println("@@failed " + name);
        }
    }
}
