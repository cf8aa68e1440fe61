import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.StreamsGroupDescribeResponseDataJsonConverter.TopologyJsonConverter;
import org.apache.kafka.common.message.StreamsGroupHeartbeatRequestData;
import org.apache.kafka.common.message.StreamsGroupHeartbeatRequestDataJsonConverter;
import org.apache.kafka.common.message.StreamsGroupHeartbeatResponseData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.ApiError;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.GroupCoordinatorService;
import org.apache.kafka.coordinator.group.GroupMetadataManager;
import org.apache.kafka.coordinator.group.generated.StreamsGroupMemberMetadataValue;
import org.apache.kafka.coordinator.group.streams.CurrentAssignmentBuilder;
import org.apache.kafka.coordinator.group.streams.MemberState;
import org.apache.kafka.coordinator.group.streams.StreamsCoordinatorRecordHelpers;
import org.apache.kafka.coordinator.group.streams.StreamsGroup;
import org.apache.kafka.coordinator.group.streams.StreamsGroupMember;
import org.apache.kafka.coordinator.group.streams.StreamsTopology;
import org.apache.kafka.coordinator.group.streams.TasksTuple;
import org.apache.kafka.coordinator.group.streams.TasksTupleWithEpochs;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredTopology;
import org.apache.kafka.coordinator.group.streams.topics.EndpointToPartitionsManager;
import org.apache.kafka.coordinator.group.streams.topics.InternalTopicManager;
import org.apache.kafka.timeline.SnapshotRegistry;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Answers questions about streams groups with the classes of Kafka's group coordinator. Each line of the file is a
 * question in JSON (tests/peers/streams_group_questions.py), each line of the output its answer.
 */
public final class StreamsGroups {
    private static final short VERSION = 0;
    private static final String GROUP = "g";
    private static final Logger LOG = LoggerFactory.getLogger(StreamsGroups.class);
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final GroupCoordinatorRecordSerde SERDE = new GroupCoordinatorRecordSerde();

    private StreamsGroups() {
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            JsonNode question = JSON.readTree(line);
            ObjectNode answer = switch (question.get("kind").asText()) {
                case "topology" -> topologyAnswer(question);
                case "heartbeat" -> heartbeatAnswer(question);
                case "group" -> new Walk(question).answer();
                default -> throw new IllegalArgumentException(line);
            };
            out.println(JSON.writeValueAsString(answer));
        }
        out.flush();
    }

    // -- topologies

    private static ObjectNode topologyAnswer(JsonNode question) {
        ObjectNode answer = JSON.createObjectNode();
        try {
            addTopology(question, answer);
        } catch (Throwable error) {
            putError(answer, error);
        }
        return answer;
    }

    private static void addTopology(JsonNode question, ObjectNode answer) {
        StreamsGroupHeartbeatRequestData.Topology sent = heartbeat(question).topology();
        Topics topics = new Topics(question.get("topics"));
        answer.put("record", value(StreamsCoordinatorRecordHelpers.newStreamsGroupTopologyRecord(GROUP, sent)));
        StreamsTopology topology = StreamsTopology.fromHeartbeatRequest(sent);
        answer.set("described", TopologyJsonConverter.write(topology.asStreamsGroupDescribeTopology(), VERSION));
        answer.set("required", strings(new TreeSet<>(topology.requiredTopics())));
        ObjectNode sources = answer.putObject("sources");
        new TreeMap<>(topology.sourceTopicMap()).forEach((name, of) -> sources.put(name, of.subtopologyId()));
        StreamsGroup group = newGroup();
        long hash = group.computeMetadataHash(topics, new HashMap<>(), topology);
        answer.put("hash", Long.toString(hash));
        ConfiguredTopology configured =
            InternalTopicManager.configureTopics(LOG, GROUP, "m", hash, topology, topics, Time.SYSTEM);
        configured.topicConfigurationException().ifPresent(error -> {
            answer.put("status", error.status().code());
            answer.put("message", error.getMessage());
        });
        answer.set("configured", TopologyJsonConverter.write(configured.asStreamsGroupDescribeTopology(), VERSION));
        ObjectNode tasks = answer.putObject("tasks");
        configured.subtopologies().ifPresent(all -> all.forEach((id, of) -> tasks.put(id, of.numberOfTasks())));
        ArrayNode create = answer.putArray("create");
        new TreeMap<>(configured.internalTopicsToBeCreated()).forEach((name, topic) -> {
            ArrayNode entry = create.addArray().add(name).add(topic.numPartitions()).add(topic.replicationFactor());
            ObjectNode configs = entry.addObject();
            topic.configs().forEach(config -> configs.put(config.name(), config.value()));
        });
        addEndpoint(question.get("member"), group, configured, topics, answer);
    }

    private static void addEndpoint(
        JsonNode tasks, StreamsGroup group, ConfiguredTopology configured, Topics topics, ObjectNode answer
    ) {
        group.setConfiguredTopology(configured);
        StreamsGroupMember member = StreamsGroupMember.Builder.withDefaults("m")
            .setUserEndpoint(new StreamsGroupMemberMetadataValue.Endpoint().setHost("host").setPort(65535))
            .setAssignedTasks(new TasksTupleWithEpochs(
                withEpochs(tasksOf(tasks.get("active")), 1), tasksOf(tasks.get("standby")), Map.of()))
            .build();
        try {
            StreamsGroupHeartbeatResponseData.EndpointToPartitions endpoint =
                EndpointToPartitionsManager.maybeEndpointToPartitions(member, group, topics).get();
            ArrayNode entry = answer.putArray("endpoint");
            entry.add(endpoint.userEndpoint().host()).add(endpoint.userEndpoint().port());
            entry.add(partitions(endpoint.activePartitions())).add(partitions(endpoint.standbyPartitions()));
        } catch (RuntimeException error) {
            answer.put("endpoint", nameOf(error));
        }
    }

    private static ArrayNode partitions(List<StreamsGroupHeartbeatResponseData.TopicPartition> all) {
        ArrayNode result = JSON.createArrayNode();
        List<String> texts = new ArrayList<>();
        for (StreamsGroupHeartbeatResponseData.TopicPartition topic : all) {
            texts.add(topic.topic() + " " + new TreeSet<>(topic.partitions()));
        }
        texts.stream().sorted().forEach(result::add);
        return result;
    }

    // -- requests

    private static ObjectNode heartbeatAnswer(JsonNode question) throws Exception {
        ObjectNode answer = JSON.createObjectNode();
        StreamsGroupHeartbeatRequestData request = heartbeat(question);
        try {
            call(GroupCoordinatorService.class, "throwIfStreamsGroupHeartbeatRequestIsUsingUnsupportedFeatures", request);
            call(GroupCoordinatorService.class, "throwIfStreamsGroupHeartbeatRequestIsInvalid", request);
        } catch (InvocationTargetException error) {
            putError(answer, error.getCause());
        }
        return answer;
    }

    private static void putError(ObjectNode answer, Throwable error) {
        answer.put("error", nameOf(error));
        answer.put("message", messageOf(error));
    }

    private static String textOf(Throwable error) {
        return nameOf(error) + ": " + messageOf(error);
    }

    /** The text of an unexpected error never reaches a client. */
    private static String messageOf(Throwable error) {
        ApiError found = ApiError.fromThrowable(error);
        return found.error() == Errors.UNKNOWN_SERVER_ERROR ? "" : found.message();
    }

    private static StreamsGroupHeartbeatRequestData heartbeat(JsonNode question) {
        return StreamsGroupHeartbeatRequestDataJsonConverter.read(question.get("request"), VERSION);
    }

    private static void call(Class<?> owner, String name, Object... arguments) throws Exception {
        for (Method method : owner.getDeclaredMethods()) {
            if (method.getName().equals(name)) {
                method.setAccessible(true);
                method.invoke(null, arguments);
                return;
            }
        }
        throw new NoSuchMethodException(name);
    }

    // -- members

    /** One group and the steps of its members; it answers each step. */
    private static final class Walk {
        private final JsonNode question;
        private final StreamsGroup group = newGroup();
        private final Map<String, TasksTuple> targets = new HashMap<>();
        private int targetEpoch = 1;

        Walk(JsonNode question) {
            this.question = question;
        }

        ObjectNode answer() throws Exception {
            ObjectNode answer = JSON.createObjectNode();
            ArrayNode steps = answer.putArray("steps");
            for (JsonNode step : question.get("steps")) {
                steps.add(answerTo(step));
            }
            ArrayNode processes = answer.putArray("processes");
            for (JsonNode task : question.get("tasks")) {
                String subtopology = task.get(0).asText();
                int partition = task.get(1).asInt();
                ArrayNode entry = processes.addArray();
                entry.add(group.currentActiveTaskProcessId(subtopology, partition));
                entry.add(strings(new TreeSet<>(group.currentStandbyTaskProcessIds(subtopology, partition))));
                entry.add(strings(new TreeSet<>(group.currentWarmupTaskProcessIds(subtopology, partition))));
            }
            return answer;
        }

        private String answerTo(JsonNode step) throws Exception {
            String id = step.path("member").asText();
            switch (step.get("do").asText()) {
                case "join":
                    StreamsGroupMember joined = joined(id, step);
                    group.updateMember(joined);
                    return value(StreamsCoordinatorRecordHelpers.newStreamsGroupMemberRecord(GROUP, joined));
                case "leave":
                    group.removeMember(id);
                    targets.remove(id);
                    return "";
                case "forget":
                    StreamsGroupMember unknown = new StreamsGroupMember.Builder(group.getMemberOrThrow(id))
                        .setState(MemberState.UNKNOWN).build();
                    group.updateMember(unknown);
                    return "";
                case "target":
                    return newTargets(step);
                case "heartbeat":
                    return heartbeat(group.getMemberOrThrow(id), step);
                default:
                    throw new IllegalArgumentException(step.toString());
            }
        }

        private StreamsGroupMember joined(String id, JsonNode step) {
            Map<String, String> tags = new HashMap<>();
            step.get("tags").properties().forEach(tag -> tags.put(tag.getKey(), tag.getValue().asText()));
            JsonNode endpoint = step.get("endpoint");
            return StreamsGroupMember.Builder.withDefaults(id)
                .setProcessId(step.get("process").asText())
                .setRackId(step.get("rack").isNull() ? null : step.get("rack").asText())
                .setClientId(id + "-client").setClientHost("/127.0.0.1")
                .setRebalanceTimeoutMs(step.get("timeout").asInt())
                .setTopologyEpoch(step.get("topology").asInt())
                .setClientTags(tags)
                .setUserEndpoint(endpoint.isNull() ? null : new StreamsGroupMemberMetadataValue.Endpoint()
                    .setHost(endpoint.get(0).asText()).setPort(endpoint.get(1).asInt()))
                .build();
        }

        private String newTargets(JsonNode step) {
            targetEpoch = step.get("epoch").asInt();
            StringBuilder records = new StringBuilder();
            for (Map.Entry<String, JsonNode> entry : step.get("targets").properties()) {
                TasksTuple target = tasksTuple(entry.getValue());
                targets.put(entry.getKey(), target);
                records.append(value(StreamsCoordinatorRecordHelpers.newStreamsGroupTargetAssignmentRecord(
                    GROUP, entry.getKey(), target)));
            }
            return records.toString();
        }

        private String heartbeat(StreamsGroupMember member, JsonNode step) throws Exception {
            TasksTuple owned = ownedBy(member, step.get("owned"));
            int epoch = switch (step.get("epoch").asText()) {
                case "join" -> 0;
                case "current" -> member.memberEpoch();
                case "previous" -> member.previousMemberEpoch();
                case "newer" -> member.memberEpoch() + 1;
                default -> member.previousMemberEpoch() - 1;
            };
            try {
                call(
                    GroupMetadataManager.class, "throwIfStreamsGroupMemberEpochIsInvalid", member, epoch,
                    owned == null ? null : taskIds(owned.activeTasks()),
                    owned == null ? null : taskIds(owned.standbyTasks()),
                    owned == null ? null : taskIds(owned.warmupTasks()));
            } catch (InvocationTargetException error) {
                return textOf(error.getCause());
            }
            if (member.isReconciledTo(targetEpoch)) {
                return "=";
            }
            StreamsGroupMember next;
            try {
                next = new CurrentAssignmentBuilder(member)
                    .withTargetAssignment(targetEpoch, targets.getOrDefault(member.memberId(), TasksTuple.EMPTY))
                    .withCurrentActiveTaskProcessId(group::currentActiveTaskProcessId)
                    .withCurrentStandbyTaskProcessIds(group::currentStandbyTaskProcessIds)
                    .withCurrentWarmupTaskProcessIds(group::currentWarmupTaskProcessIds)
                    .withOwnedAssignment(owned)
                    .build();
            } catch (RuntimeException error) {
                return textOf(error);
            }
            if (next.equals(member)) {
                return "=";
            }
            group.updateMember(next);
            return value(StreamsCoordinatorRecordHelpers.newStreamsGroupCurrentAssignmentRecord(GROUP, next));
        }

        private static TasksTuple ownedBy(StreamsGroupMember member, JsonNode owned) {
            if (owned.isObject()) {
                return tasksTuple(owned);
            }
            return switch (owned.asText()) {
                case "none" -> null;
                case "nothing" -> TasksTuple.EMPTY;
                case "assigned" -> withoutEpochs(member.assignedTasks());
                default -> withoutEpochs(member.assignedTasks().merge(member.tasksPendingRevocation()));
            };
        }
    }

    private static StreamsGroup newGroup() {
        return new StreamsGroup(new LogContext(), new SnapshotRegistry(new LogContext()), GROUP);
    }

    private static List<StreamsGroupHeartbeatRequestData.TaskIds> taskIds(Map<String, Set<Integer>> tasks) {
        List<StreamsGroupHeartbeatRequestData.TaskIds> ids = new ArrayList<>();
        tasks.forEach((subtopology, partitions) -> ids.add(new StreamsGroupHeartbeatRequestData.TaskIds()
            .setSubtopologyId(subtopology).setPartitions(new ArrayList<>(partitions))));
        return ids;
    }

    private static TasksTuple tasksTuple(JsonNode tasks) {
        return new TasksTuple(
            tasksOf(tasks.get("active")), tasksOf(tasks.get("standby")), tasksOf(tasks.get("warmup")));
    }

    private static TasksTuple withoutEpochs(TasksTupleWithEpochs tasks) {
        Map<String, Set<Integer>> active = new HashMap<>();
        tasks.activeTasksWithEpochs().forEach((subtopology, epochs) -> active.put(subtopology, epochs.keySet()));
        return new TasksTuple(active, tasks.standbyTasks(), tasks.warmupTasks());
    }

    private static Map<String, Set<Integer>> tasksOf(JsonNode tasks) {
        Map<String, Set<Integer>> result = new HashMap<>();
        tasks.properties().forEach(entry -> {
            Set<Integer> partitions = new HashSet<>();
            entry.getValue().forEach(partition -> partitions.add(partition.asInt()));
            result.put(entry.getKey(), partitions);
        });
        return result;
    }

    private static Map<String, Map<Integer, Integer>> withEpochs(Map<String, Set<Integer>> tasks, int epoch) {
        Map<String, Map<Integer, Integer>> result = new HashMap<>();
        tasks.forEach((subtopology, partitions) -> {
            Map<Integer, Integer> epochs = new HashMap<>();
            partitions.forEach(partition -> epochs.put(partition, epoch));
            result.put(subtopology, epochs);
        });
        return result;
    }

    // -- texts

    private static String value(CoordinatorRecord record) {
        return HexFormat.of().formatHex(SERDE.serializeValue(record));
    }

    private static String nameOf(Throwable error) {
        return ApiError.fromThrowable(error).error().name();
    }

    private static ArrayNode strings(Iterable<String> texts) {
        ArrayNode result = JSON.createArrayNode();
        texts.forEach(result::add);
        return result;
    }

    /** The topics of a question: name to id and racks of each partition. */
    private static final class Topics implements CoordinatorMetadataImage {
        private final Map<String, TopicMetadata> topics = new HashMap<>();

        Topics(JsonNode topics) {
            topics.properties().forEach(entry -> this.topics.put(entry.getKey(), new Topic(entry)));
        }

        @Override
        public Set<Uuid> topicIds() {
            throw new UnsupportedOperationException();
        }

        @Override
        public Set<String> topicNames() {
            return topics.keySet();
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(String name) {
            return Optional.ofNullable(topics.get(name));
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(Uuid id) {
            throw new UnsupportedOperationException();
        }

        @Override
        public CoordinatorMetadataDelta emptyDelta() {
            throw new UnsupportedOperationException();
        }

        @Override
        public long version() {
            return 0;
        }

        @Override
        public boolean isEmpty() {
            return topics.isEmpty();
        }
    }

    private record Topic(String name, Uuid id, List<List<String>> racks) implements CoordinatorMetadataImage.TopicMetadata {
        Topic(Map.Entry<String, JsonNode> entry) {
            this(entry.getKey(), Uuid.fromString(entry.getValue().get("id").asText()), new ArrayList<>());
            for (JsonNode partition : entry.getValue().get("racks")) {
                List<String> racksOfPartition = new ArrayList<>();
                partition.forEach(rack -> racksOfPartition.add(rack.asText()));
                racks.add(racksOfPartition);
            }
        }

        @Override
        public int partitionCount() {
            return racks.size();
        }

        @Override
        public List<String> partitionRacks(int partition) {
            return racks.get(partition);
        }
    }
}
