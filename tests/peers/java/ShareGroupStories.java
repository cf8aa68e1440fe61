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
import java.util.function.Consumer;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.ShareGroupDescription;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Members of share groups and their administrators, in short stories. Arguments: bootstrap server, then names of stories.
 * Each story prints "== name", then what its members received and what its administrators were answered. Nothing that is
 * printed depends on timing. Groups may have locks of one second (`group.share.min.record.lock.duration.ms`).
 */
public final class ShareGroupStories {
    private static final Duration SHORT = Duration.ofMillis(200);

    private final String server;
    private final String name;
    private final Admin admin;

    private ShareGroupStories(String server, String name, Admin admin) {
        this.server = server;
        this.name = name;
        this.admin = admin;
    }

    public static void main(String[] args) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[0]))) {
            for (int number = 1; number < args.length; number++) {
                System.out.println("== " + args[number]);
                new ShareGroupStories(args[0], args[number], admin).tell();
            }
        }
    }

    private void tell() throws Exception {
        switch (name) {
            case "implicit" -> implicit();
            case "explicit" -> explicit();
            case "close" -> close();
            case "locks" -> locks();
            case "renew" -> renew();
            case "limit" -> limit();
            case "sharing" -> sharing();
            case "reset" -> reset();
            case "isolation" -> isolation();
            case "topics" -> topics();
            case "admin" -> admin();
            default -> throw new IllegalArgumentException(name);
        }
    }

    // -- stories

    /** Records that a member was given are acknowledged by its next poll, or when it closes. */
    private void implicit() throws Exception {
        create(1);
        configure("share.auto.offset.reset", "earliest");
        produce(0, 30);
        try (Member member = new Member("implicit", 10)) {
            member.pollUntil(30);
            member.print("received");
        }
        produce(30, 33);
        try (Member member = new Member("implicit", 10)) {
            member.pollUntil(3);
            member.print("another received");
        }
    }

    /** Accepted and rejected records never come back, released ones do. */
    private void explicit() throws Exception {
        create(1);
        configure("share.auto.offset.reset", "earliest");
        produce(0, 30);
        try (Member member = new Member("explicit", 10)) {
            Map<Long, Integer> deliveries = new TreeMap<>();
            while (deliveries.size() < 30 || deliveries.values().stream().filter(count -> count > 1).count() < 10) {
                for (ConsumerRecord<String, String> record : member.poll()) {
                    int delivery = record.deliveryCount().orElse((short) 0);
                    deliveries.put(record.offset(), delivery);
                    AcknowledgeType type = delivery > 1 || record.offset() % 3 == 0 ? AcknowledgeType.ACCEPT
                        : record.offset() % 3 == 1 ? AcknowledgeType.RELEASE : AcknowledgeType.REJECT;
                    member.consumer.acknowledge(record, type);
                }
                member.commit();
            }
            System.out.println(deliveries);
            System.out.println("left: " + member.poll().count());
        }
    }

    /** Records without an acknowledgement are released when their member closes. */
    private void close() throws Exception {
        create(1);
        configure("share.auto.offset.reset", "earliest");
        produce(0, 10);
        try (Member member = new Member("explicit", 10)) {
            member.pollUntil(10);
            member.print("received");
        }
        try (Member member = new Member("explicit", 10)) {
            member.pollUntil(10);
            member.print("another received");
            member.acceptAll();
        }
    }

    /** Records of a member that hangs are given to another one when their locks end. */
    private void locks() throws Exception {
        create(1);
        configure("share.auto.offset.reset", "earliest");
        configure("share.record.lock.duration.ms", "2000");
        produce(0, 5);
        try (Member hanging = new Member("explicit", 5); Member other = new Member("explicit", 5)) {
            hanging.pollUntil(5);
            hanging.print("received");
            other.pollUntil(5);
            other.print("another received");
            other.acceptAll();
            List<ConsumerRecord<String, String>> late = hanging.received;
            late.forEach(record -> hanging.consumer.acknowledge(record, AcknowledgeType.ACCEPT));
            hanging.consumer.commitSync().forEach((partition, error) ->
                System.out.println("late: " + error.map(found -> found.getClass().getSimpleName()).orElse("none")));
        }
    }

    /** Locks that are renewed do not end. */
    private void renew() throws Exception {
        create(1);
        configure("share.auto.offset.reset", "earliest");
        configure("share.record.lock.duration.ms", "3000");
        produce(0, 4);
        try (Member slow = new Member("explicit", 4); Member other = new Member("explicit", 4)) {
            slow.pollUntil(4);
            slow.print("received");
            List<ConsumerRecord<String, String>> held = List.copyOf(slow.received);
            for (int round = 0; round < 5; round++) {
                held.forEach(record -> slow.consumer.acknowledge(record, AcknowledgeType.RENEW));
                slow.commit();
                other.poll();
                Thread.sleep(800);
                List<ConsumerRecord<String, String>> again = new ArrayList<>();
                until(() -> {
                    if (again.size() < 4) slow.poll().forEach(again::add);
                    return again.size() >= 4;
                });
                held = again;
            }
            other.print("another received");
            held.forEach(record -> slow.consumer.acknowledge(record, AcknowledgeType.ACCEPT));
            slow.commit();
            for (int round = 0; round < 20; round++) other.poll();
            other.print("another received in the end");
        }
    }

    /** A record is delivered a limited number of times. */
    private void limit() throws Exception {
        create(1);
        configure("share.auto.offset.reset", "earliest");
        configure("share.delivery.count.limit", "3");
        produce(0, 2);
        try (Member member = new Member("explicit", 5)) {
            while (member.received.size() < 6) {
                for (ConsumerRecord<String, String> record : member.poll()) {
                    member.consumer.acknowledge(record, AcknowledgeType.RELEASE);
                }
                member.commit();
            }
            for (int round = 0; round < 5; round++) member.poll();
            member.print("received");
        }
    }

    /** Several members share one partition: each record is given to one of them. */
    private void sharing() throws Exception {
        create(1);
        configure("share.auto.offset.reset", "earliest");
        List<Member> members = new ArrayList<>();
        for (int number = 0; number < 4; number++) members.add(new Member("explicit", 5));
        until(() -> {
            members.forEach(Member::poll);
            return described().members().stream().filter(found -> !found.assignment().topicPartitions().isEmpty())
                .count() == 4;
        });
        produce(0, 400);
        until(() -> {
            for (Member member : members) {
                for (ConsumerRecord<String, String> record : member.poll()) {
                    member.consumer.acknowledge(record, AcknowledgeType.ACCEPT);
                }
                member.commit();
            }
            return members.stream().mapToInt(member -> member.received.size()).sum() >= 400;
        });
        Set<String> values = new TreeSet<>();
        int count = 0;
        for (Member member : members) {
            for (ConsumerRecord<String, String> record : member.received) values.add(record.value());
            count += member.received.size();
        }
        System.out.println(count + " records, " + values.size() + " different");
        System.out.println("all had some: " + members.stream().allMatch(member -> !member.received.isEmpty()));
        for (Member member : members) member.close();
    }

    /** `share.auto.offset.reset` says where a group begins. */
    private void reset() throws Exception {
        create(1);
        produce(0, 3);
        for (String strategy : List.of("latest", "earliest", "by_duration:PT1H")) {
            String group = name + "-" + strategy.replace(":", "-");
            configure(group, "share.auto.offset.reset", strategy);
            try (Member member = new Member(group, "implicit", 10)) {
                until(() -> {
                    member.poll();
                    return !assigned(group).isEmpty();
                });
                for (int round = 0; round < 10; round++) member.poll();
                produce(3, 4);
                member.pollUntil(1);
                System.out.println(strategy + ": begins at " + member.received.get(0).offset());
            }
        }
    }

    /** Groups that read committed records only do not see aborted ones. */
    private void isolation() throws Exception {
        create(1);
        configure("share.auto.offset.reset", "earliest");
        configure("share.isolation.level", "read_committed");
        try (KafkaProducer<String, String> producer = producer(Map.of("transactional.id", name))) {
            producer.initTransactions();
            for (int number = 0; number < 6; number++) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(name, 0, null, "value " + number));
                if (number % 2 == 0) producer.commitTransaction();
                else {
                    producer.flush();
                    producer.abortTransaction();
                }
            }
        }
        try (Member member = new Member("implicit", 10)) {
            member.pollUntil(3);
            for (int round = 0; round < 3; round++) member.poll();
            member.print("received");
        }
    }

    /** A topic that grows and is deleted while the group reads it. */
    private void topics() throws Exception {
        create(1);
        configure("share.auto.offset.reset", "earliest");
        produce(0, 2);
        try (Member member = new Member("implicit", 10)) {
            member.pollUntil(2);
            member.print("received");
            admin.createPartitions(Map.of(name, org.apache.kafka.clients.admin.NewPartitions.increaseTo(2))).all().get();
            until(() -> {
                member.poll();
                return assigned().equals(Set.of(name + "-0", name + "-1"));
            });
            System.out.println("assigned: " + new TreeSet<>(assigned()));
            admin.deleteTopics(List.of(name)).all().get();
            until(() -> {
                member.poll();
                return assigned().isEmpty();
            });
            System.out.println("assigned: " + assigned());
        }
    }

    /** What administrators see and change. */
    private void admin() throws Exception {
        create(2);
        configure("share.auto.offset.reset", "earliest");
        produce(0, 4);
        try (Member member = new Member("implicit", 10)) {
            member.pollUntil(4);
            until(() -> {
                member.poll();
                return described().groupEpoch() == described().targetAssignmentEpoch();
            });
            ShareGroupDescription described = described();
            System.out.println(described.groupState() + " " + described.members().size() + " "
                + described.authorizedOperations().stream().map(Enum::name).sorted().toList());
            System.out.println("members: " + described.members().stream().map(found -> found.clientId() + " "
                + found.host() + " " + found.assignment().topicPartitions().stream().map(TopicPartition::toString)
                .sorted().toList()).toList());
            failing("delete with members", () -> admin.deleteShareGroups(List.of(name)).all());
            failing("alter with members", () -> admin.alterShareGroupOffsets(name, Map.of(partition(0), 1L)).all());
            failing("delete offsets with members", () -> admin.deleteShareGroupOffsets(name, Set.of(name)).all());
        }
        until(() -> described().members().isEmpty());
        System.out.println("listed: " + listed("share"));
        System.out.println("listed as consumer groups: " + listed("consumer"));
        System.out.println("state: " + described().groupState());
        admin.alterShareGroupOffsets(name, Map.of(partition(0), 1L, partition(1), 0L)).all().get();
        System.out.println("altered: " + offsets(name));
        System.out.println("lag: " + lags(name));
        failing("alter unknown topic", () -> admin.alterShareGroupOffsets(name,
            Map.of(new TopicPartition("missing", 0), 1L)).partitionResult(new TopicPartition("missing", 0)));
        failing("alter unknown partition", () -> admin.alterShareGroupOffsets(name,
            Map.of(partition(9), 1L)).partitionResult(partition(9)));
        try (Member member = new Member("implicit", 10)) {
            member.pollUntil(3);
            for (int round = 0; round < 3; round++) member.poll();
            System.out.println("read again: " + member.received.size());
        }
        until(() -> described().members().isEmpty());
        admin.deleteShareGroupOffsets(name, Set.of(name)).all().get();
        System.out.println("offsets deleted: " + offsets(name));
        failing("delete no offsets", () -> admin.deleteShareGroupOffsets(name, Set.of(name)).topicResult(name));
        failing("delete offsets of a missing topic",
            () -> admin.deleteShareGroupOffsets(name, Set.of("missing")).topicResult("missing"));
        admin.deleteShareGroups(List.of(name)).all().get();
        System.out.println("listed: " + listed("share"));
        failing("describe nothing", () -> admin.describeShareGroups(List.of(name)).describedGroups().get(name));
        failing("delete nothing", () -> admin.deleteShareGroups(List.of(name)).all());
        System.out.println("offsets of nothing: " + offsets(name));
        admin.alterShareGroupOffsets(name, Map.of(partition(0), 2L)).all().get();
        System.out.println("created by its offsets: " + listed("share") + " " + offsets(name));
        admin.deleteShareGroups(List.of(name)).all().get();
    }

    // -- helpers

    private TopicPartition partition(int number) {
        return new TopicPartition(name, number);
    }

    private void create(int partitions) throws Exception {
        admin.createTopics(List.of(new NewTopic(name, partitions, (short) -1))).all().get();
    }

    private void configure(String setting, String value) throws Exception {
        configure(name, setting, value);
    }

    private void configure(String group, String setting, String value) throws Exception {
        AlterConfigOp set = new AlterConfigOp(new ConfigEntry(setting, value), AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, group), List.of(set)))
            .all().get();
    }

    private KafkaProducer<String, String> producer(Map<String, Object> settings) {
        Map<String, Object> all = new HashMap<>(settings);
        all.put("bootstrap.servers", server);
        return new KafkaProducer<>(all, new StringSerializer(), new StringSerializer());
    }

    private void produce(int from, int to) throws Exception {
        try (KafkaProducer<String, String> producer = producer(Map.of())) {
            for (int number = from; number < to; number++) {
                producer.send(new ProducerRecord<>(name, 0, null, "value " + number)).get();
            }
        }
    }

    private ShareGroupDescription described() {
        return described(name);
    }

    private ShareGroupDescription described(String group) {
        try {
            return admin.describeShareGroups(List.of(group), new org.apache.kafka.clients.admin
                .DescribeShareGroupsOptions().includeAuthorizedOperations(true)).describedGroups().get(group).get();
        } catch (InterruptedException | ExecutionException error) {
            throw new IllegalStateException(error);
        }
    }

    private Set<String> assigned() {
        return assigned(name);
    }

    private Set<String> assigned(String group) {
        return described(group).members().stream().flatMap(member -> member.assignment().topicPartitions().stream())
            .map(TopicPartition::toString).collect(Collectors.toSet());
    }

    private List<String> listed(String type) throws Exception {
        ListGroupsOptions options = type.equals("share") ? ListGroupsOptions.forShareGroups()
            : ListGroupsOptions.forConsumerGroups();
        return admin.listGroups(options).all().get().stream().filter(group -> group.groupId().equals(name))
            .sorted(Comparator.comparing(GroupListing::groupId)).map(group -> group.groupId() + " "
            + group.type().map(Enum::name).orElse("") + " " + group.protocol() + " "
            + group.groupState().map(Enum::name).orElse("")).toList();
    }

    private Map<Integer, Long> offsets(String group) {
        try {
            Map<Integer, Long> offsets = new TreeMap<>();
            admin.listShareGroupOffsets(Map.of(group, new ListShareGroupOffsetsSpec())).partitionsToOffsetInfo(group)
                .get().forEach((partition, info) -> offsets.put(partition.partition(), info == null ? -1 : info.startOffset()));
            return offsets;
        } catch (InterruptedException | ExecutionException error) {
            throw new IllegalStateException(error);
        }
    }

    private Map<Integer, Long> lags(String group) throws Exception {
        Map<Integer, Long> lags = new TreeMap<>();
        admin.listShareGroupOffsets(Map.of(group, new ListShareGroupOffsetsSpec())).partitionsToOffsetInfo(group)
            .get().forEach((partition, info) -> lags.put(partition.partition(), info.lag().orElse(-1L)));
        return lags;
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

    private static void until(BooleanSupplier isSo) {
        long deadline = System.nanoTime() + 60_000_000_000L;
        while (!isSo.getAsBoolean()) {
            if (System.nanoTime() > deadline) throw new IllegalStateException("it did not happen");
        }
    }

    private final class Member implements AutoCloseable {
        final KafkaShareConsumer<String, String> consumer;
        final List<ConsumerRecord<String, String>> received = new ArrayList<>();

        Member(String mode, int records) {
            this(name, mode, records);
        }

        Member(String group, String mode, int records) {
            Properties properties = new Properties();
            properties.put("bootstrap.servers", server);
            properties.put("group.id", group);
            properties.put("client.id", "member");
            properties.put("share.acknowledgement.mode", mode);
            properties.put("share.acquire.mode", "record_limit");
            properties.put("max.poll.records", records);
            properties.put("metadata.max.age.ms", "500");
            consumer = new KafkaShareConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
            consumer.subscribe(List.of(name));
        }

        ConsumerRecords<String, String> poll() {
            ConsumerRecords<String, String> records = consumer.poll(SHORT);
            records.forEach(received::add);
            return records;
        }

        void pollUntil(int count) {
            until(() -> {
                if (received.size() < count) poll();
                return received.size() >= count;
            });
        }

        void acceptAll() {
            received.forEach(record -> consumer.acknowledge(record, AcknowledgeType.ACCEPT));
            commit();
        }

        void commit() {
            consumer.commitSync().forEach((partition, error) -> error.ifPresent(found -> {
                throw new IllegalStateException(partition + ": " + found);
            }));
        }

        void print(String what) {
            System.out.println(what + ": " + received.stream().map(record -> record.offset() + "="
                + record.value() + "/" + record.deliveryCount().orElse((short) 0)).toList());
        }

        public void close() {
            consumer.close();
        }
    }
}
