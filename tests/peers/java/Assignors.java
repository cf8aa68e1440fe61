import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RemoveTopicRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberKey;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.generated.ShareGroupTargetAssignmentMemberKey;
import org.apache.kafka.coordinator.group.generated.ShareGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTargetAssignmentMemberKey;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.ModernGroupMember;
import org.apache.kafka.coordinator.group.modern.TargetAssignmentBuilder;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroupMember;
import org.apache.kafka.coordinator.group.modern.consumer.ResolvedRegularExpression;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupMember;
import org.apache.kafka.coordinator.group.streams.StreamsGroupMember;
import org.apache.kafka.coordinator.group.streams.TasksTuple;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredInternalTopic;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredSubtopology;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredTopology;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.timeline.SnapshotRegistry;
import org.apache.kafka.timeline.TimelineHashMap;

/**
 * Lets Kafka's own assignors assign the partitions of groups, step by step. Each line of the file is the life of a
 * group in JSON, each line of the output a list with the answer to each of its steps; tests/peers/assignor_lives.py
 * describes both.
 *
 * <p>The members are in the kind of table in which a group has them, the builder of Kafka's coordinator collects them,
 * and the records that it returns are replayed, so that all orders of iteration are those of a real coordinator.
 */
public final class Assignors {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Assignors() {
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            JsonNode life = JSON.readTree(line);
            Group<?> group;
            switch (life.get("kind").asText()) {
                case "consumer":
                    group = new ConsumerGroup(life.get("assignor").asText());
                    break;
                case "share":
                    group = new ShareGroup();
                    break;
                default:
                    group = new StreamsGroup();
            }
            ArrayNode answers = JSON.createArrayNode();
            for (JsonNode step : life.get("steps")) {
                answers.add(group.answerTo(step));
            }
            out.println(JSON.writeValueAsString(answers));
        }
    }

    /** What a step may change: see the Python side. */
    private abstract static class Group<M> {
        final TimelineHashMap<String, M> members =
            new TimelineHashMap<>(new SnapshotRegistry(new LogContext()), 0);
        final Map<String, String> staticMembers = new HashMap<>();
        CoordinatorMetadataImage image = CoordinatorMetadataImage.EMPTY;
        private MetadataImage metadata = MetadataImage.EMPTY;

        JsonNode answerTo(JsonNode step) {
            change(step);
            List<CoordinatorRecord> records;
            try {
                records = assign(step);
            } catch (Exception error) {
                ObjectNode failure = JSON.createObjectNode();
                failure.put("error", error.getClass().getSimpleName());
                return failure;
            } finally {
                if (step.has("replaces")) {
                    forget(step.get("replaces").asText());
                }
                if (step.has("member")) {
                    join(step.get("member"));
                }
            }
            ArrayNode answer = JSON.createArrayNode();
            for (CoordinatorRecord record : records.subList(0, records.size() - 1)) {
                replay(record, answer.addArray());
            }
            return answer;
        }

        private void change(JsonNode step) {
            step.path("leave").forEach(id -> forget(id.asText()));
            step.path("joined").forEach(this::join);
            if (step.has("topics")) {
                MetadataDelta delta = new MetadataDelta.Builder().setImage(metadata).build();
                step.get("topics").forEach(topic -> replayTopic(delta, topic));
                metadata = delta.apply(MetadataProvenance.EMPTY);
                image = new KRaftCoordinatorMetadataImage(metadata);
            }
            changeMore(step);
        }

        private void replayTopic(MetadataDelta delta, JsonNode topic) {
            Uuid id = Uuid.fromString(topic.get(1).asText());
            if (topic.get(2).isNull()) {
                delta.replay(new RemoveTopicRecord().setTopicId(id));
                return;
            }
            int first = 0;
            if (metadata.topics().getTopic(id) == null) {
                delta.replay(new TopicRecord().setName(topic.get(0).asText()).setTopicId(id));
            } else {
                first = metadata.topics().getTopic(id).partitions().size();
            }
            for (int partition = first; partition < topic.get(2).asInt(); partition++) {
                delta.replay(new PartitionRecord()
                    .setTopicId(id).setPartitionId(partition).setReplicas(List.of(1)).setIsr(List.of(1)).setLeader(1));
            }
        }

        private void join(JsonNode described) {
            String id = described.get("id").asText();
            members.put(id, member(described));
            members.put(id, member(described)); // The table grows with the second record of a member, too.
            if (described.has("instance")) {
                staticMembers.put(described.get("instance").asText(), id);
            }
        }

        void forget(String id) {
            members.remove(id);
            staticMembers.values().remove(id);
        }

        void changeMore(JsonNode step) {
        }

        abstract M member(JsonNode described);

        abstract List<CoordinatorRecord> assign(JsonNode step) throws Exception;

        abstract void replay(CoordinatorRecord record, ArrayNode answer);
    }

    private abstract static class ModernGroup<M extends ModernGroupMember> extends Group<M> {
        final Map<String, Assignment> target = new HashMap<>();

        @Override
        void forget(String id) {
            super.forget(id);
            target.remove(id);
        }

        @Override
        void changeMore(JsonNode step) {
            if (step.has("assigned")) {
                step.get("assigned").fields().forEachRemaining(entry -> {
                    Map<Uuid, Set<Integer>> assigned = new HashMap<>();
                    entry.getValue().forEach(topic -> {
                        List<Integer> partitions = new ArrayList<>();
                        topic.get(1).forEach(partition -> partitions.add(partition.asInt()));
                        assigned.put(Uuid.fromString(topic.get(0).asText()), new HashSet<>(partitions));
                    });
                    target.put(entry.getKey(), new Assignment(assigned));
                });
            }
        }

        <B extends TargetAssignmentBuilder<M, B>> List<CoordinatorRecord> build(B builder, JsonNode step)
            throws Exception {
            Map<Uuid, Map<Integer, String>> inverted = new HashMap<>();
            target.forEach((id, assignment) -> assignment.partitions().forEach((topic, partitions) ->
                partitions.forEach(partition ->
                    inverted.computeIfAbsent(topic, unused -> new HashMap<>()).put(partition, id))));
            Map<String, M> after = new HashMap<>();
            members.forEach(after::put);
            builder.withTime(Time.SYSTEM).withMembers(members).withStaticMembers(staticMembers)
                .withTargetAssignment(target).withInvertedTargetAssignment(inverted).withMetadataImage(image);
            if (step.has("member")) {
                M member = member(step.get("member"));
                builder.addOrUpdateMember(member.memberId(), member);
                after.put(member.memberId(), member);
            }
            if (step.has("replaces")) {
                builder.removeMember(step.get("replaces").asText());
                after.remove(step.get("replaces").asText());
            }
            return builder.withSubscriptionType(subscriptionType(after)).build().records();
        }

        private SubscriptionType subscriptionType(Map<String, M> after) {
            Map<String, Integer> counts = new HashMap<>();
            after.values().forEach(member -> {
                member.subscribedTopicNames().forEach(name -> counts.merge(name, 1, Integer::sum));
                expressionTopics(member).forEach(name -> counts.merge(name, 0, Integer::sum));
            });
            return counts.values().stream().allMatch(count -> count == after.size())
                ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        }

        Set<String> expressionTopics(M member) {
            return Set.of();
        }
    }

    private static final class ConsumerGroup extends ModernGroup<ConsumerGroupMember> {
        private final String assignor;
        private final Map<String, ResolvedRegularExpression> expressions = new HashMap<>();

        ConsumerGroup(String assignor) {
            this.assignor = assignor;
        }

        @Override
        void changeMore(JsonNode step) {
            super.changeMore(step);
            if (step.has("resolved")) {
                step.get("resolved").fields().forEachRemaining(entry -> expressions.put(
                    entry.getKey(), new ResolvedRegularExpression(new HashSet<>(texts(entry.getValue())), 1, 1)));
            }
        }

        @Override
        ConsumerGroupMember member(JsonNode described) {
            return new ConsumerGroupMember.Builder(described.get("id").asText())
                .setInstanceId(described.path("instance").asText(null))
                .setRackId(described.path("rack").asText(null))
                .setSubscribedTopicNames(texts(described.get("names")))
                .setSubscribedTopicRegex(described.path("regex").asText(""))
                .build();
        }

        @Override
        Set<String> expressionTopics(ConsumerGroupMember member) {
            ResolvedRegularExpression resolved = expressions.get(member.subscribedTopicRegex());
            return resolved == null ? Set.of() : resolved.topics();
        }

        @Override
        List<CoordinatorRecord> assign(JsonNode step) throws Exception {
            return build(new TargetAssignmentBuilder.ConsumerTargetAssignmentBuilder(
                "group", 1, assignor.equals("range") ? new RangeAssignor() : new UniformAssignor())
                .withResolvedRegularExpressions(expressions), step);
        }

        @Override
        void replay(CoordinatorRecord record, ArrayNode answer) {
            String id = ((ConsumerGroupTargetAssignmentMemberKey) record.key()).memberId();
            ConsumerGroupTargetAssignmentMemberValue value =
                (ConsumerGroupTargetAssignmentMemberValue) record.value().message();
            target.put(id, Assignment.fromRecord(value));
            ArrayNode topics = answer.add(id).addArray();
            value.topicPartitions().forEach(topic ->
                addPartitions(topics.addArray().add(topic.topicId().toString()), topic.partitions()));
        }
    }

    private static final class ShareGroup extends ModernGroup<ShareGroupMember> {
        private Map<Uuid, Set<Integer>> assignable = new HashMap<>();

        @Override
        void changeMore(JsonNode step) {
            super.changeMore(step);
            if (step.has("assignable")) {
                assignable = new HashMap<>();
                step.get("assignable").fields().forEachRemaining(entry -> {
                    Set<Integer> partitions = new HashSet<>();
                    entry.getValue().forEach(partition -> partitions.add(partition.asInt()));
                    assignable.put(Uuid.fromString(entry.getKey()), partitions);
                });
            }
        }

        @Override
        ShareGroupMember member(JsonNode described) {
            return new ShareGroupMember.Builder(described.get("id").asText())
                .setRackId(described.path("rack").asText(null))
                .setSubscribedTopicNames(texts(described.get("names")))
                .build();
        }

        @Override
        List<CoordinatorRecord> assign(JsonNode step) throws Exception {
            return build(
                new TargetAssignmentBuilder.ShareTargetAssignmentBuilder("group", 1, new SimpleAssignor())
                    .withTopicAssignablePartitionsMap(assignable), step);
        }

        @Override
        void replay(CoordinatorRecord record, ArrayNode answer) {
            String id = ((ShareGroupTargetAssignmentMemberKey) record.key()).memberId();
            ShareGroupTargetAssignmentMemberValue value =
                (ShareGroupTargetAssignmentMemberValue) record.value().message();
            target.put(id, Assignment.fromRecord(value));
            ArrayNode topics = answer.add(id).addArray();
            value.topicPartitions().forEach(topic ->
                addPartitions(topics.addArray().add(topic.topicId().toString()), topic.partitions()));
        }
    }

    private static final class StreamsGroup extends Group<StreamsGroupMember> {
        private final Map<String, TasksTuple> target = new HashMap<>();
        private final TreeMap<String, ConfiguredSubtopology> subtopologies = new TreeMap<>();
        private Map<String, String> configs = Map.of();

        @Override
        void forget(String id) {
            super.forget(id);
            target.remove(id);
        }

        @Override
        void changeMore(JsonNode step) {
            if (step.has("standbys")) {
                configs = Map.of("num.standby.replicas", step.get("standbys").asText());
            }
            if (step.has("subtopologies")) {
                subtopologies.clear();
                step.get("subtopologies").forEach(described -> {
                    Map<String, ConfiguredInternalTopic> changelogs = described.get(2).asBoolean()
                        ? Map.of("c", new ConfiguredInternalTopic("c", 1, Optional.empty(), Map.of())) : Map.of();
                    subtopologies.put(described.get(0).asText(), new ConfiguredSubtopology(
                        described.get(1).asInt(), Set.of("t"), Map.of(), Set.of(), changelogs));
                });
            }
        }

        @Override
        StreamsGroupMember member(JsonNode described) {
            return StreamsGroupMember.Builder.withDefaults(described.get("id").asText())
                .setInstanceId(described.path("instance").asText(null))
                .setRackId(described.path("rack").asText(null))
                .setProcessId(described.get("process").asText())
                .setClientTags(Map.of("zone", described.get("zone").asText()))
                .build();
        }

        @Override
        List<CoordinatorRecord> assign(JsonNode step) throws Exception {
            org.apache.kafka.coordinator.group.streams.TargetAssignmentBuilder builder =
                new org.apache.kafka.coordinator.group.streams.TargetAssignmentBuilder(
                    "group", 1, new StickyTaskAssignor(), configs)
                    .withTime(Time.SYSTEM).withMembers(members).withStaticMembers(staticMembers)
                    .withMetadataImage(image).withTargetAssignment(target)
                    .withTopology(new ConfiguredTopology(
                        1, 1, Optional.of(subtopologies), Map.of(), Optional.empty()));
            if (step.has("member")) {
                StreamsGroupMember member = member(step.get("member"));
                builder.addOrUpdateMember(member.memberId(), member);
            }
            if (step.has("replaces")) {
                builder.removeMember(step.get("replaces").asText());
            }
            return builder.build().records();
        }

        @Override
        void replay(CoordinatorRecord record, ArrayNode answer) {
            String id = ((StreamsGroupTargetAssignmentMemberKey) record.key()).memberId();
            StreamsGroupTargetAssignmentMemberValue value =
                (StreamsGroupTargetAssignmentMemberValue) record.value().message();
            target.put(id, TasksTuple.fromTargetAssignmentRecord(value));
            answer.add(id);
            for (List<StreamsGroupTargetAssignmentMemberValue.TaskIds> tasks
                : List.of(value.activeTasks(), value.standbyTasks(), value.warmupTasks())) {
                ArrayNode ids = answer.addArray();
                tasks.forEach(task -> addPartitions(ids.addArray().add(task.subtopologyId()), task.partitions()));
            }
        }
    }

    private static List<String> texts(JsonNode list) {
        List<String> texts = new ArrayList<>();
        list.forEach(text -> texts.add(text.asText()));
        return texts;
    }

    private static void addPartitions(ArrayNode answer, List<Integer> partitions) {
        ArrayNode numbers = answer.addArray();
        partitions.forEach(numbers::add);
    }
}
