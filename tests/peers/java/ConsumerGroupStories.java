import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.function.BooleanSupplier;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.DescribeConsumerGroupsOptions;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Consumers of both protocols and their administrators, in short stories. Arguments: bootstrap server, then names of
 * stories. Each story prints "== name", then what members owned and read, and what administrators were answered. Nothing
 * that is printed depends on timing.
 */
public final class ConsumerGroupStories {
    private static final Duration SHORT = Duration.ofMillis(100);

    private final String server;
    private final String name;
    private final Admin admin;
    /** The values that any member has read. */
    private final Set<String> read = new TreeSet<>();

    private ConsumerGroupStories(String server, String name, Admin admin) {
        this.server = server;
        this.name = name;
        this.admin = admin;
    }

    public static void main(String[] args) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[0]))) {
            for (int number = 1; number < args.length; number++) {
                System.out.println("== " + args[number]);
                new ConsumerGroupStories(args[0], args[number], admin).tell();
            }
        }
    }

    private void tell() throws Exception {
        switch (name) {
            case "members" -> members();
            case "assignors" -> assignors();
            case "expressions" -> expressions();
            case "instances" -> instances();
            case "upgrade" -> upgrade();
            case "downgrade" -> downgrade();
            case "changing-topics" -> topics();
            case "offsets" -> offsets();
            case "administration" -> admin();
            case "settings" -> settings();
            default -> throw new IllegalArgumentException(name);
        }
    }

    // -- stories

    /** Members come and go; each record is read by one of them, and reading goes on where the last owner stopped. */
    private void members() throws Exception {
        create(name, 6);
        try (Member first = new Member(Map.of()); Member second = new Member(Map.of())) {
            settle(List.of(first), 6);
            System.out.println("alone: " + first.owned());
            produce(0, 12);
            readAll(List.of(first), 12);
            first.consumer.commitSync();
            settle(List.of(first, second), 6);
            System.out.println("together: " + first.owned().size() + " and " + second.owned().size());
            produce(12, 24);
            readAll(List.of(first, second), 24);
            System.out.println(first.count + second.count + " records, " + read.size() + " different");
            first.consumer.commitSync();
            second.consumer.commitSync();
            Member third = new Member(Map.of());
            settle(List.of(first, second, third), 6);
            System.out.println("of three: " + first.owned().size() + " " + second.owned().size() + " "
                + third.owned().size());
            third.close();
            settle(List.of(first, second), 6);
            System.out.println("without the third: " + first.owned().size() + " and " + second.owned().size());
            System.out.println(states());
        }
        until(() -> described().members().isEmpty());
        System.out.println(states());
    }

    /** The assignor of the server that a member asks for. */
    private void assignors() throws Exception {
        create(name, 4);
        create(name + "-b", 4);
        for (String assignor : List.of("range", "uniform")) {
            String group = name + "-" + assignor;
            List<Member> members = new ArrayList<>();
            for (int number = 0; number < 2; number++) {
                members.add(new Member(group, Map.of("group.remote.assignor", assignor), List.of(name, name + "-b")));
            }
            settle(members, 8);
            Set<String> divisions = new TreeSet<>();
            for (Member member : members) divisions.add(member.owned().toString());
            System.out.println(assignor + " " + described(group).partitionAssignor() + ": "
                + (assignor.equals("range") ? divisions : members.stream().map(found -> found.owned().size()).toList()));
            for (Member member : members) member.close();
        }
        try (Member member = new Member(name + "-none", Map.of("group.remote.assignor", "nobody"), List.of(name))) {
            System.out.println("unknown: " + failure(member));
        }
    }

    /** Topics that match an expression of RE2, also those that are created later. */
    private void expressions() throws Exception {
        create("logs-a", 1);
        create("logs-b", 2);
        create("other", 1);
        Member member = new Member(name, Map.of(), List.of());
        member.consumer.subscribe(new SubscriptionPattern("logs-.*"));
        settle(List.of(member), 3);
        System.out.println("matched: " + member.owned());
        member.consumer.subscribe(new SubscriptionPattern("(logs-b|other)"));
        settle(List.of(member), 3);
        until(() -> {
            member.poll();
            return member.owned().contains("other-0");
        });
        System.out.println("another: " + member.owned());
        member.consumer.unsubscribe();
        member.consumer.subscribe(Pattern.compile("logs-a"));
        settle(List.of(member), 1);
        System.out.println("of the client: " + member.owned());
        member.close();
        try (Member broken = new Member(name + "-broken", Map.of(), List.of())) {
            broken.consumer.subscribe(new SubscriptionPattern("logs-(?=a)"));
            System.out.println("broken: " + failure(broken));
        }
    }

    /** A member with an instance id keeps its partitions while it is away; only one process can have the id. */
    private void instances() throws Exception {
        create(name, 4);
        Member one = new Member(Map.of("group.instance.id", "one"));
        Member two = new Member(Map.of("group.instance.id", "two"));
        settle(List.of(one, two), 4);
        Set<String> before = two.owned();
        int epoch = described().groupEpoch().get();
        two.close();
        Member again = new Member(Map.of("group.instance.id", "two"));
        settle(List.of(one, again), 4);
        System.out.println("the same: " + again.owned().equals(before) + ", epoch moved by "
            + (described().groupEpoch().get() - epoch));
        try (Member thief = new Member(Map.of("group.instance.id", "two"))) {
            System.out.println("the id is taken: " + failure(thief));
        }
        again.consumer.close(CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP));
        settle(List.of(one), 4);
        System.out.println("left for good: " + one.owned());
        admin.removeMembersFromConsumerGroup(name,
            new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("one")))).all().get();
        until(() -> described().members().isEmpty());
        System.out.println("removed: " + states());
        one.close();
    }

    /** A group of the classic protocol changes to the consumer protocol, one member after the other. */
    private void upgrade() throws Exception {
        create(name, 4);
        Member old = new Member(Map.of("group.protocol", "classic"));
        Member second = new Member(Map.of("group.protocol", "classic"));
        settle(List.of(old, second), 4);
        System.out.println(type() + " " + old.owned().size() + " " + second.owned().size());
        produce(0, 8);
        readAll(List.of(old, second), 8);
        old.consumer.commitSync();
        second.consumer.commitSync();
        second.close();
        second = new Member(Map.of());
        settle(List.of(old, second), 4);
        System.out.println(type() + " " + old.owned().size() + " " + second.owned().size() + " upgraded: "
            + upgraded());
        produce(8, 16);
        readAll(List.of(old, second), 16);
        System.out.println("read: " + read.size());
        old.close();
        Member last = new Member(Map.of());
        settle(List.of(last, second), 4);
        System.out.println(type() + " " + last.owned().size() + " " + second.owned().size() + " upgraded: "
            + upgraded());
        last.close();
        second.close();
    }

    /** And back again. */
    private void downgrade() throws Exception {
        create(name, 4);
        Member first = new Member(Map.of());
        Member old = new Member(Map.of("group.protocol", "classic"));
        settle(List.of(first, old), 4);
        System.out.println(type() + " " + first.owned().size() + " " + old.owned().size());
        first.close();
        settle(List.of(old), 4);
        System.out.println(type() + " " + old.owned());
        old.close();
    }

    /** A topic that is created, grows and is deleted while the group reads it. */
    private void topics() throws Exception {
        create(name + "-known", 1);
        Member member = new Member(name, Map.of("allow.auto.create.topics", "false"), List.of(name, name + "-known"));
        settle(List.of(member), 1);
        System.out.println("without it: " + member.owned());
        create(name, 1);
        settle(List.of(member), 2);
        System.out.println("created: " + member.owned());
        admin.createPartitions(Map.of(name, NewPartitions.increaseTo(3))).all().get();
        settle(List.of(member), 4);
        System.out.println("grown: " + member.owned());
        admin.deleteTopics(List.of(name)).all().get();
        settle(List.of(member), 1);
        System.out.println("deleted: " + member.owned());
        member.close();
    }

    /** Offsets are committed and read by members, and by administrators if there are none. */
    private void offsets() throws Exception {
        create(name, 2);
        produce(0, 6);
        Member member = new Member(Map.of());
        settle(List.of(member), 2);
        readAll(List.of(member), 6);
        member.consumer.commitSync(Map.of(partition(0), new OffsetAndMetadata(2, "two"),
            partition(1), new OffsetAndMetadata(3)));
        System.out.println("committed: " + new TreeMap<>(Map.of(0,
            member.consumer.committed(Set.of(partition(0))).get(partition(0)).toString(), 1,
            member.consumer.committed(Set.of(partition(1))).get(partition(1)).offset())));
        failing("alter with members", () ->
            admin.alterConsumerGroupOffsets(name, Map.of(partition(0), new OffsetAndMetadata(0))).all());
        failing("delete with members", () -> admin.deleteConsumerGroupOffsets(name, Set.of(partition(0))).all());
        member.close();
        until(() -> described().members().isEmpty());
        admin.alterConsumerGroupOffsets(name, Map.of(partition(0), new OffsetAndMetadata(1))).all().get();
        System.out.println("altered: " + listedOffsets());
        failing("delete", () -> admin.deleteConsumerGroupOffsets(name, Set.of(partition(1))).all());
        System.out.println("deleted: " + listedOffsets());
        failing("delete of a missing topic", () ->
            admin.deleteConsumerGroupOffsets(name, Set.of(new TopicPartition("missing", 0))).all());
    }

    /** What administrators see and change. */
    private void admin() throws Exception {
        create(name, 2);
        Member member = new Member(Map.of("client.id", "known"));
        settle(List.of(member), 2);
        ConsumerGroupDescription found = described();
        MemberDescription seen = found.members().iterator().next();
        System.out.println(found.groupState() + " " + found.type() + " " + found.partitionAssignor() + " epochs "
            + found.groupEpoch().get().equals(found.targetAssignmentEpoch().get()) + " "
            + seen.memberEpoch().get().equals(found.groupEpoch().get()) + " "
            + found.authorizedOperations().stream().map(Enum::name).sorted().toList());
        System.out.println(seen.clientId() + " " + seen.host() + " " + seen.groupInstanceId() + " "
            + sorted(seen.assignment().topicPartitions()) + " target "
            + sorted(seen.targetAssignment().get().topicPartitions()));
        System.out.println("listed: " + listed());
        failing("delete with members", () -> admin.deleteConsumerGroups(List.of(name)).all());
        failing("remove members", () -> admin.removeMembersFromConsumerGroup(name,
            new RemoveMembersFromConsumerGroupOptions()).all());
        until(() -> described().members().isEmpty());
        member.close();
        System.out.println("listed: " + listed());
        failing("delete", () -> admin.deleteConsumerGroups(List.of(name)).all());
        System.out.println("listed: " + listed());
        failing("describe nothing", () -> admin.describeConsumerGroups(List.of(name)).all());
        failing("delete nothing", () -> admin.deleteConsumerGroups(List.of(name)).all());
    }

    /** Settings of one group. */
    private void settings() throws Exception {
        create(name, 1);
        failing("heartbeats", () -> configure("consumer.heartbeat.interval.ms", "6000"));
        failing("session", () -> configure("consumer.session.timeout.ms", "50000"));
        failing("session too long", () -> configure("consumer.session.timeout.ms", "70000"));
        failing("session too short", () -> configure("consumer.session.timeout.ms", "10"));
        failing("heartbeats too rare", () -> configure("consumer.heartbeat.interval.ms", "16000"));
        failing("heartbeats at the wrong time", () -> configure("consumer.heartbeat.interval.ms", "often"));
        failing("unknown", () -> configure("consumer.colour", "red"));
        ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, name);
        System.out.println(admin.describeConfigs(List.of(group)).all().get().get(group).entries().stream()
            .filter(entry -> entry.source() == ConfigEntry.ConfigSource.DYNAMIC_GROUP_CONFIG)
            .map(entry -> entry.name() + "=" + entry.value()).sorted().toList());
    }

    // -- helpers

    private static List<String> sorted(Set<TopicPartition> partitions) {
        return partitions.stream().map(TopicPartition::toString).sorted().toList();
    }

    private TopicPartition partition(int number) {
        return new TopicPartition(name, number);
    }

    private void create(String topic, int partitions) throws Exception {
        admin.createTopics(List.of(new NewTopic(topic, partitions, (short) -1))).all().get();
    }

    private KafkaFuture<Void> configure(String setting, String value) {
        AlterConfigOp set = new AlterConfigOp(new ConfigEntry(setting, value), AlterConfigOp.OpType.SET);
        return admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, name), List.of(set)))
            .all();
    }

    private void produce(int from, int to) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", server);
        int partitions = admin.describeTopics(List.of(name)).allTopicNames().get().get(name).partitions().size();
        try (KafkaProducer<String, String> producer =
                 new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int number = from; number < to; number++) {
                producer.send(new ProducerRecord<>(name, number % partitions, null, "value " + number)).get();
            }
        }
    }

    private ConsumerGroupDescription described() {
        return described(name);
    }

    private ConsumerGroupDescription described(String group) {
        try {
            return admin.describeConsumerGroups(List.of(group),
                new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true)).all().get().get(group);
        } catch (InterruptedException | ExecutionException error) {
            throw new IllegalStateException(error);
        }
    }

    private String type() {
        return described().type().toString();
    }

    private List<Boolean> upgraded() {
        return described().members().stream().map(member -> member.upgraded().orElse(null)).sorted().toList();
    }

    private String states() {
        ConsumerGroupDescription found = described();
        return found.groupState() + " with " + found.members().size() + " members";
    }

    private List<String> listed() throws Exception {
        return admin.listGroups(ListGroupsOptions.forConsumerGroups()).all().get().stream()
            .filter(group -> group.groupId().equals(name)).sorted(Comparator.comparing(GroupListing::groupId))
            .map(group -> group.groupId() + " " + group.type().map(Enum::name).orElse("") + " " + group.protocol() + " "
                + group.groupState().map(Enum::name).orElse("")).toList();
    }

    private Map<Integer, Long> listedOffsets() throws Exception {
        Map<Integer, Long> offsets = new TreeMap<>();
        admin.listConsumerGroupOffsets(name).partitionsToOffsetAndMetadata().get()
            .forEach((partition, found) -> offsets.put(partition.partition(), found.offset()));
        return offsets;
    }

    private interface Asked {
        KafkaFuture<?> ask();
    }

    private static void failing(String what, Asked asked) throws InterruptedException {
        try {
            System.out.println(what + ": " + asked.ask().get());
        } catch (ExecutionException error) {
            System.out.println(what + ": " + error.getCause().getClass().getSimpleName());
        }
    }

    /** Poll a member until its poll fails. */
    private static String failure(Member member) {
        long deadline = System.nanoTime() + 60_000_000_000L;
        while (System.nanoTime() < deadline) {
            try {
                member.poll();
            } catch (RuntimeException error) {
                return error.getClass().getSimpleName();
            }
        }
        return "none";
    }

    /** Poll until the members together own so many partitions, and the coordinator says that the group is stable. */
    private void settle(List<Member> members, int partitions) {
        String group = members.get(0).group;
        until(() -> {
            members.forEach(Member::poll);
            Set<String> owned = new TreeSet<>();
            int count = 0;
            for (Member member : members) {
                owned.addAll(member.owned());
                count += member.owned().size();
            }
            if (count != partitions || owned.size() != partitions) return false;
            if (members.stream().anyMatch(member -> member.owned().isEmpty()) && members.size() <= partitions)
                return false;
            ConsumerGroupDescription found = described(group);
            return found.groupState().toString().equals("Stable") && found.members().size() == members.size();
        });
    }

    /** Poll until the group has read so many different values. */
    private void readAll(List<Member> members, int count) {
        until(() -> {
            members.forEach(Member::poll);
            return read.size() >= count;
        });
    }

    private static void until(BooleanSupplier isSo) {
        long deadline = System.nanoTime() + 60_000_000_000L;
        while (!isSo.getAsBoolean()) {
            if (System.nanoTime() > deadline) throw new IllegalStateException("it did not happen");
        }
    }

    private final class Member implements AutoCloseable {
        final KafkaConsumer<String, String> consumer;
        final String group;
        int count;

        Member(Map<String, String> settings) {
            this(name, settings, List.of(name));
        }

        Member(String group, Map<String, String> settings, List<String> topics) {
            this.group = group;
            Map<String, Object> all = new HashMap<>();
            all.put("bootstrap.servers", server);
            all.put("group.id", group);
            all.put("client.id", "member");
            all.put("group.protocol", "consumer");
            all.put("enable.auto.commit", "false");
            all.put("auto.offset.reset", "earliest");
            all.put("metadata.max.age.ms", "500");
            all.putAll(settings);
            if (all.get("group.protocol").equals("classic")) {
                all.put("heartbeat.interval.ms", "500");
                all.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");
            }
            Properties properties = new Properties();
            properties.putAll(all);
            consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
            if (!topics.isEmpty()) consumer.subscribe(topics);
        }

        void poll() {
            for (ConsumerRecord<String, String> record : consumer.poll(SHORT)) {
                read.add(record.value());
                count++;
            }
        }

        Set<String> owned() {
            Set<String> owned = new TreeSet<>();
            consumer.assignment().forEach(partition -> owned.add(partition.toString()));
            return owned;
        }

        public void close() {
            consumer.close();
        }
    }
}
