import java.io.FileReader;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeConsumerGroupsOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.acl.AclOperation;

/**
 * Prints the authorized operations that the Java admin client reports: one line per resource and request, with and
 * without the option. Arguments: topics and groups as comma lists, then files of client properties, one a user.
 */
public class AuthorizedOperations {
    public static void main(String[] args) throws Exception {
        List<String> topics = Arrays.asList(args[0].split(","));
        List<String> groups = Arrays.asList(args[1].split(","));
        for (String file : Arrays.asList(args).subList(2, args.length)) {
            Properties properties = new Properties();
            try (FileReader reader = new FileReader(file)) {
                properties.load(reader);
            }
            System.out.println(properties.getProperty("client.id"));
            try (Admin admin = Admin.create(properties)) {
                describe(admin, topics, groups, false);
                describe(admin, topics, groups, true);
            }
        }
    }

    private static void describe(Admin admin, List<String> topics, List<String> groups, boolean asked)
            throws Exception {
        show("cluster", asked, admin.describeCluster(
            new DescribeClusterOptions().includeAuthorizedOperations(asked)).authorizedOperations());
        Map<String, KafkaFuture<TopicDescription>> described = admin.describeTopics(
            topics, new DescribeTopicsOptions().includeAuthorizedOperations(asked)).topicNameValues();
        for (String topic : topics) {
            show("topic " + topic, asked, described.get(topic).thenApply(TopicDescription::authorizedOperations));
        }
        Map<String, KafkaFuture<ConsumerGroupDescription>> known = admin.describeConsumerGroups(
            groups, new DescribeConsumerGroupsOptions().includeAuthorizedOperations(asked)).describedGroups();
        for (String group : groups) {
            show("group " + group, asked,
                known.get(group).thenApply(ConsumerGroupDescription::authorizedOperations));
        }
    }

    private static void show(String what, boolean asked, Future<Set<AclOperation>> operations) throws Exception {
        String answer;
        try {
            Collection<AclOperation> found = operations.get();
            answer = found == null ? "null" : new TreeSet<>(found).toString();
        } catch (ExecutionException error) {
            answer = error.getCause().getClass().getSimpleName();
        }
        System.out.println(what + (asked ? " asked: " : " not asked: ") + answer);
    }
}
