import java.util.Properties;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeStreamsGroupsOptions;
import org.apache.kafka.clients.admin.StreamsGroupDescription;

/** Prints what the admin client learns of streams groups. Arguments: bootstrap servers, then names of groups. */
public class StreamsGroupsDescribed {
    public static void main(String[] args) throws Exception {
        List<String> groups = List.of(args).subList(1, args.length);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        try (Admin admin = Admin.create(properties)) {
            DescribeStreamsGroupsOptions options = new DescribeStreamsGroupsOptions();
            options.includeAuthorizedOperations(true);
            new TreeMap<>(admin.describeStreamsGroups(groups, options).describedGroups()).forEach((name, future) -> {
                try {
                    print(future.get());
                } catch (Exception error) {
                    System.out.println(name + ": " + error.getCause());
                }
            });
        }
    }

    private static void print(StreamsGroupDescription group) {
        String name = group.groupId() + ": ";
        System.out.println(name + group.groupState() + ", topology epoch " + group.topologyEpoch());
        System.out.println(name + "target of the group's epoch: " + (group.groupEpoch() == group.targetAssignmentEpoch()));
        System.out.println(name + "may be used for " + new TreeSet<>(group.authorizedOperations()));
        group.subtopologies().forEach(subtopology -> System.out.println(name + subtopology));
        group.members().forEach(member -> System.out.println(name + member));
    }
}
