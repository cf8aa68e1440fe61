import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Kafka's own StandardAuthorizer on a set of ACLs. In the folder that is given: acls.tsv, queries.tsv, names.txt and caller.tsv;
 * written there: decisions.txt. CPU times go to standard output, one "name value" a line.
 */
public class AuthorizerBench {
    private static final int[] TOPIC_OPERATIONS = {3, 4, 5, 6, 7, 8, 10, 11};
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static long sink;

    record Context(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        public String listenerName() { return "SASL_SSL"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.SASL_SSL; }
        public int requestType() { return 3; }
        public int requestVersion() { return 12; }
        public String clientId() { return "bench"; }
        public int correlationId() { return 1; }
    }

    record Query(Context context, List<Action> actions) { }

    public static void main(String[] args) throws Exception {
        Path folder = Path.of(args[0]);
        double limit = Double.parseDouble(args[1]);
        long empty = used();
        Map<Uuid, StandardAcl> acls = readAcls(folder.resolve("acls.tsv"));
        StandardAuthorizer authorizer = newAuthorizer();
        long began = cpu();
        authorizer.loadSnapshot(acls);
        System.out.println("load_s " + (cpu() - began) / 1e9);
        authorizer.completeInitialLoad();
        acls = null;
        System.out.println("memory_mib " + (used() - empty) / 1048576.0);
        List<String> decisions = new ArrayList<>();
        decide(authorizer, readQueries(folder.resolve("queries.tsv")), limit, decisions);
        Context caller = context(Files.readAllLines(folder.resolve("caller.tsv")).get(0).split("\t", -1));
        operations(authorizer, caller, Files.readAllLines(folder.resolve("names.txt")), limit, decisions);
        byType(authorizer, readQueries(folder.resolve("queries.tsv")), limit, decisions);
        Files.write(folder.resolve("decisions.txt"), decisions);
        System.out.println("sink " + sink);
    }

    private static StandardAuthorizer newAuthorizer() {
        StandardAuthorizer authorizer = new StandardAuthorizer();
        authorizer.configure(Map.of("super.users", "User:admin"));
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        return authorizer;
    }

    /** Passes over all queries until the time is over, the first two to warm up; the fastest one counts. */
    private static void decide(StandardAuthorizer authorizer, List<Query> queries, double limit, List<String> decisions) {
        for (Query query : queries) {
            decisions.add(authorizer.authorize(query.context, query.actions).get(0) == AuthorizationResult.ALLOWED ? "1" : "0");
        }
        double best = Double.MAX_VALUE;
        long start = cpu();
        for (int pass = 0; pass < 3 || (cpu() - start) / 1e9 < limit; pass++) {
            long began = cpu();
            for (Query query : queries) sink += authorizer.authorize(query.context, query.actions).get(0).ordinal();
            double each = (cpu() - began) / 1e3 / queries.size();
            if (pass >= 2 || each > 1000) best = Math.min(best, each);
            if (each * queries.size() / 1e6 > limit) break;
        }
        System.out.println("decision_us " + best);
    }

    /** What a broker asks to fill in the authorized operations of topics. */
    private static void operations(StandardAuthorizer authorizer, Context caller, List<String> names, double limit, List<String> decisions) {
        List<List<Action>> questions = new ArrayList<>();
        for (String name : names) {
            List<Action> actions = new ArrayList<>();
            for (int code : TOPIC_OPERATIONS) {
                actions.add(new Action(AclOperation.fromCode((byte) code), new ResourcePattern(ResourceType.TOPIC, name, PatternType.LITERAL), 1, false, false));
            }
            questions.add(actions);
        }
        double best = Double.MAX_VALUE;
        int answered = 0;
        for (int pass = 0; pass < 3; pass++) {
            long began = cpu();
            int done = 0;
            for (List<Action> actions : questions) {
                List<AuthorizationResult> results = authorizer.authorize(caller, actions);
                int mask = 0;
                for (int i = 0; i < results.size(); i++) if (results.get(i) == AuthorizationResult.ALLOWED) mask |= 1 << TOPIC_OPERATIONS[i];
                if (pass == 0) decisions.add(String.valueOf(mask));
                sink += mask;
                done++;
                if ((cpu() - began) / 1e9 > limit) break;
            }
            if (pass == 0) answered = done;
            best = Math.min(best, (cpu() - began) / 1e6 / done * questions.size());
            if (done < questions.size()) break;
        }
        System.out.println("operations_answered " + answered);
        System.out.println("operations_ms " + best);
    }

    private static void byType(StandardAuthorizer authorizer, List<Query> queries, double limit, List<String> decisions) {
        List<Double> times = new ArrayList<>();
        long start = cpu();
        for (Query query : queries.subList(0, Math.min(200, queries.size()))) {
            long began = cpu();
            AuthorizationResult result = authorizer.authorizeByResourceType(query.context, AclOperation.WRITE, ResourceType.TOPIC);
            times.add((cpu() - began) / 1e6);
            decisions.add(result == AuthorizationResult.ALLOWED ? "1" : "0");
            if ((cpu() - start) / 1e9 > limit) break;
        }
        System.out.println("by_type_answered " + times.size());
        times.sort(null);
        System.out.println("by_type_ms " + times.get(times.size() / 2));
    }

    private static Map<Uuid, StandardAcl> readAcls(Path path) throws IOException {
        Map<Uuid, StandardAcl> acls = new HashMap<>();
        try (Stream<String> lines = Files.lines(path)) {
            lines.forEach(line -> {
                String[] f = line.split("\t", -1);
                acls.put(new Uuid(7, acls.size() + 1), new StandardAcl(ResourceType.fromCode(Byte.parseByte(f[0])), f[1],
                    PatternType.fromCode(Byte.parseByte(f[2])), f[3], f[4], AclOperation.fromCode(Byte.parseByte(f[5])),
                    AclPermissionType.fromCode(Byte.parseByte(f[6]))));
            });
        }
        return acls;
    }

    private static List<Query> readQueries(Path path) throws IOException {
        List<Query> queries = new ArrayList<>();
        for (String line : Files.readAllLines(path)) {
            String[] f = line.split("\t", -1);
            queries.add(new Query(context(f), List.of(new Action(AclOperation.fromCode(Byte.parseByte(f[2])),
                new ResourcePattern(ResourceType.fromCode(Byte.parseByte(f[3])), f[4], PatternType.LITERAL), 1, false, false))));
        }
        return queries;
    }

    private static Context context(String[] fields) throws IOException {
        return new Context(SecurityUtils.parseKafkaPrincipal(fields[0]), InetAddress.getByName(fields[1]));
    }

    /** Of this thread: what else runs on the machine does not count. */
    private static long cpu() {
        return THREADS.getCurrentThreadCpuTime();
    }

    private static long used() {
        for (int i = 0; i < 3; i++) System.gc();
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }
}
