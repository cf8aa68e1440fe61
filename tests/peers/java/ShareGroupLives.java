import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.PriorityQueue;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.message.AlterShareGroupOffsetsRequestData;
import org.apache.kafka.common.message.AlterShareGroupOffsetsRequestDataJsonConverter;
import org.apache.kafka.common.message.AlterShareGroupOffsetsResponseDataJsonConverter;
import org.apache.kafka.common.message.DeleteGroupsResponseData;
import org.apache.kafka.common.message.DeleteGroupsResponseDataJsonConverter;
import org.apache.kafka.common.message.DeleteShareGroupOffsetsRequestData;
import org.apache.kafka.common.message.DeleteShareGroupOffsetsRequestDataJsonConverter;
import org.apache.kafka.common.message.DeleteShareGroupOffsetsResponseDataJsonConverter;
import org.apache.kafka.common.message.DescribeShareGroupOffsetsRequestData;
import org.apache.kafka.common.message.DescribeShareGroupOffsetsRequestDataJsonConverter;
import org.apache.kafka.common.message.DescribeShareGroupOffsetsResponseData;
import org.apache.kafka.common.message.DescribeShareGroupOffsetsResponseDataJsonConverter;
import org.apache.kafka.common.message.ListGroupsRequestData;
import org.apache.kafka.common.message.ListGroupsResponseDataJsonConverter;
import org.apache.kafka.common.message.ShareGroupDescribeResponseData;
import org.apache.kafka.common.message.ShareGroupDescribeResponseDataJsonConverter;
import org.apache.kafka.common.message.ShareGroupHeartbeatRequestData;
import org.apache.kafka.common.message.ShareGroupHeartbeatRequestDataJsonConverter;
import org.apache.kafka.common.message.ShareGroupHeartbeatResponseData;
import org.apache.kafka.common.message.ShareGroupHeartbeatResponseDataJsonConverter;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.RemoveTopicRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.coordinator.common.runtime.CoordinatorLoader;
import org.apache.kafka.coordinator.common.runtime.CoordinatorPlayback;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.PartitionWriter;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.coordinator.group.GroupCoordinatorConfig;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.GroupCoordinatorService;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorRuntimeMetrics;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.share.persister.DeleteShareGroupStateParameters;
import org.apache.kafka.server.share.persister.DeleteShareGroupStateResult;
import org.apache.kafka.server.share.persister.GroupTopicPartitionData;
import org.apache.kafka.server.share.persister.InitializeShareGroupStateParameters;
import org.apache.kafka.server.share.persister.InitializeShareGroupStateResult;
import org.apache.kafka.server.share.persister.PartitionErrorData;
import org.apache.kafka.server.share.persister.PartitionFactory;
import org.apache.kafka.server.share.persister.PartitionIdData;
import org.apache.kafka.server.share.persister.PartitionStateData;
import org.apache.kafka.server.share.persister.PartitionStateSummaryData;
import org.apache.kafka.server.share.persister.Persister;
import org.apache.kafka.server.share.persister.ReadShareGroupStateParameters;
import org.apache.kafka.server.share.persister.ReadShareGroupStateResult;
import org.apache.kafka.server.share.persister.ReadShareGroupStateSummaryParameters;
import org.apache.kafka.server.share.persister.ReadShareGroupStateSummaryResult;
import org.apache.kafka.server.share.persister.TopicData;
import org.apache.kafka.server.share.persister.WriteShareGroupStateParameters;
import org.apache.kafka.server.share.persister.WriteShareGroupStateResult;
import org.apache.kafka.server.util.PartitionMetadataClient;
import org.apache.kafka.server.util.timer.Timer;
import org.apache.kafka.server.util.timer.TimerTask;
import org.apache.kafka.server.util.timer.TimerTaskEntry;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.VerificationGuard;

/**
 * Runs steps on Kafka's own group coordinator, with a clock, a log, a persister and a cluster of its own. Each line of
 * the file is a step, each line of the output the same step with the requests as they were made, the answers, the calls
 * of the persister and the records that were written, as JSON. The first line has the settings of the coordinator.
 */
public final class ShareGroupLives {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final TopicPartition LOG = new TopicPartition("__consumer_offsets", 0);
    private static final long START_MS = 1_000_000L;
    private static final int BROKERS = 3;

    private static final AtomicLong now = new AtomicLong(START_MS);
    private static final Deque<CompletableFuture<Void>> pending = new ArrayDeque<>();
    private static final Map<String, Long> states = new HashMap<>();
    private static final Map<String, Integer> epochs = new HashMap<>();
    private static final Map<String, Integer> previousEpochs = new HashMap<>();
    private static final List<MemoryRecords> log = new ArrayList<>();

    private static GroupCoordinatorService service;
    private static GroupConfigManager configs;
    private static SteppedTimer timer;
    private static MetadataImage image = MetadataImage.EMPTY;
    private static long metadataOffset;
    private static int leaderEpoch;
    private static String persisterMode = "ok";
    private static boolean persisterWaits;
    private static boolean isHeartbeat;
    private static ArrayNode records;
    private static ArrayNode calls;
    private static long endOffset;
    private static PartitionWriter.Listener listener;

    public static void main(String[] arguments) throws Exception {
        List<String> lines = Files.readAllLines(Path.of(arguments[0]));
        start(JSON.readTree(lines.get(0)));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        out.println(lines.get(0));
        for (String line : lines.subList(1, lines.size())) {
            records = JSON.createArrayNode();
            calls = JSON.createArrayNode();
            ObjectNode step = (ObjectNode) JSON.readTree(line);
            isHeartbeat = step.get("kind").asText().equals("heartbeat");
            perform(step);
            settle();
            if (!records.isEmpty()) step.set("records", records);
            if (!calls.isEmpty()) step.set("calls", calls);
            out.println(JSON.writeValueAsString(step));
        }
        service.shutdown();
    }

    private static void start(JsonNode settings) throws Exception {
        Map<String, String> props = new HashMap<>(Map.of("group.coordinator.append.linger.ms", "0"));
        settings.fields().forEachRemaining(setting -> props.put(setting.getKey(), setting.getValue().asText()));
        GroupCoordinatorConfig config = new GroupCoordinatorConfig(
            new AbstractConfig(GroupCoordinatorConfig.CONFIG_DEF, props, false));
        ShareGroupConfig shareConfig = new ShareGroupConfig(new AbstractConfig(
            Utils.mergeConfigs(List.of(ShareGroupConfig.CONFIG_DEF, GroupCoordinatorConfig.CONFIG_DEF)), props, false));
        configs = new GroupConfigManager(config.extractGroupConfigMap(shareConfig), config, shareConfig);
        timer = new SteppedTimer();
        service = new GroupCoordinatorService.Builder(1, config)
            .withTime(new SteppedTime())
            .withTimer(timer)
            .withLoader(new Loader())
            .withWriter(new Writer())
            .withCoordinatorRuntimeMetrics(new GroupCoordinatorRuntimeMetrics(new Metrics()))
            .withGroupCoordinatorMetrics(new GroupCoordinatorMetrics())
            .withGroupConfigManager(configs)
            .withPersister(new StatePersister())
            .withAuthorizerPlugin(Optional.empty())
            .withPartitionMetadataClient(new Ends())
            .build();
        service.startup(() -> 1);
        MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
        for (int broker = 0; broker < BROKERS; broker++) {
            delta.replay(new RegisterBrokerRecord().setBrokerId(broker).setBrokerEpoch(broker).setRack("rack-" + broker)
                .setIncarnationId(new Uuid(1, broker)).setFenced(false));
        }
        publish(delta);
        elect();
    }

    private static void publish(MetadataDelta delta) {
        metadataOffset++;
        image = delta.apply(new MetadataProvenance(metadataOffset, 1, now.get(), true));
        service.onMetadataUpdate(delta, image);
    }

    private static void elect() throws Exception {
        service.onElection(0, leaderEpoch++);
        settle();
    }

    // -- steps

    private static void perform(ObjectNode step) throws Exception {
        switch (step.get("kind").asText()) {
            case "advance" -> advance(step.get("ms").asLong());
            case "persister" -> {
                persisterMode = step.get("mode").asText();
                persisterWaits = step.get("waits").asBoolean();
            }
            case "release" -> {
                CompletableFuture<Void> oldest = pending.poll();
                if (oldest != null) oldest.complete(null);
            }
            case "topics" -> changeTopics(step);
            case "config" -> {
                Properties overrides = new Properties();
                step.get("set").fields().forEachRemaining(set -> overrides.put(set.getKey(), set.getValue().asText()));
                configs.updateGroupConfig(step.get("group").asText(), overrides);
            }
            case "failover" -> {
                service.onResignation(0, OptionalInt.of(leaderEpoch++));
                settle();
                elect();
            }
            case "heartbeat" -> heartbeat(step);
            case "describe" -> step.set("answer", ShareGroupDescribeResponseDataJsonConverter.write(
                new ShareGroupDescribeResponseData().setGroups(
                    service.shareGroupDescribe(new Context("client", 1), texts(step.get("groups"))).get()), (short) 1));
            case "list" -> step.set("answer", ListGroupsResponseDataJsonConverter.write(
                service.listGroups(new Context("client", 5), new ListGroupsRequestData()
                    .setStatesFilter(texts(step.get("states"))).setTypesFilter(texts(step.get("types")))).get(),
                (short) 5));
            case "delete groups" -> {
                DeleteGroupsResponseData.DeletableGroupResultCollection results = service.deleteGroups(
                    new Context("client", 2), texts(step.get("groups")), BufferSupplier.NO_CACHING).get();
                step.set("answer", DeleteGroupsResponseDataJsonConverter.write(
                    new DeleteGroupsResponseData().setResults(results), (short) 2));
            }
            case "alter offsets" -> {
                AlterShareGroupOffsetsRequestData request =
                    AlterShareGroupOffsetsRequestDataJsonConverter.read(step.get("request"), (short) 0);
                step.set("answer", AlterShareGroupOffsetsResponseDataJsonConverter.write(
                    service.alterShareGroupOffsets(new Context("client", 0), request.groupId(), request).get(),
                    (short) 0));
            }
            case "delete offsets" -> {
                DeleteShareGroupOffsetsRequestData request =
                    DeleteShareGroupOffsetsRequestDataJsonConverter.read(step.get("request"), (short) 0);
                step.set("answer", DeleteShareGroupOffsetsResponseDataJsonConverter.write(
                    service.deleteShareGroupOffsets(new Context("client", 0), request).get(), (short) 0));
            }
            case "describe offsets" -> describeOffsets(step);
            default -> throw new IllegalArgumentException(step.toString());
        }
    }

    private static void heartbeat(ObjectNode step) throws Exception {
        ObjectNode wanted = (ObjectNode) step.get("request");
        String key = wanted.get("groupId").asText() + "/" + wanted.get("memberId").asText();
        String epoch = wanted.get("memberEpoch").asText();
        if (epoch.equals("current")) wanted.put("memberEpoch", epochs.getOrDefault(key, 1));
        if (epoch.equals("previous")) wanted.put("memberEpoch", previousEpochs.getOrDefault(key, 1));
        ShareGroupHeartbeatRequestData request = ShareGroupHeartbeatRequestDataJsonConverter.read(wanted, (short) 1);
        ShareGroupHeartbeatResponseData answer =
            service.shareGroupHeartbeat(new Context(step.get("client").asText(), 1), request).get();
        if (answer.errorCode() == 0 && answer.memberEpoch() > 0) {
            Integer before = epochs.put(key, answer.memberEpoch());
            if (before != null && before != answer.memberEpoch()) previousEpochs.put(key, before);
        }
        step.set("answer", ShareGroupHeartbeatResponseDataJsonConverter.write(answer, (short) 1));
    }

    private static void describeOffsets(ObjectNode step) throws Exception {
        DescribeShareGroupOffsetsRequestData request =
            DescribeShareGroupOffsetsRequestDataJsonConverter.read(step.get("request"), (short) 1);
        DescribeShareGroupOffsetsResponseData response = new DescribeShareGroupOffsetsResponseData();
        for (DescribeShareGroupOffsetsRequestData.DescribeShareGroupOffsetsRequestGroup group : request.groups()) {
            Context context = new Context("client", 1);
            response.groups().add(group.topics() == null
                ? service.describeShareGroupAllOffsets(context, group).get()
                : service.describeShareGroupOffsets(context, group).get());
        }
        step.set("answer", DescribeShareGroupOffsetsResponseDataJsonConverter.write(response, (short) 1));
    }

    private static void changeTopics(JsonNode step) {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
        Uuid id = Uuid.fromString(step.get("id").asText());
        switch (step.get("change").asText()) {
            case "create" -> delta.replay(new TopicRecord().setName(step.get("topic").asText()).setTopicId(id));
            case "delete" -> delta.replay(new RemoveTopicRecord().setTopicId(id));
            default -> { }
        }
        for (JsonNode partition : step.get("partitions")) {
            int leader = partition.asInt() % BROKERS;
            delta.replay(new PartitionRecord().setTopicId(id).setPartitionId(partition.asInt())
                .setReplicas(List.of(leader, (leader + 1) % BROKERS)).setIsr(List.of(leader))
                .setDirectories(List.of(new Uuid(2, leader), new Uuid(2, (leader + 1) % BROKERS)))
                .setLeader(leader).setLeaderEpoch(0).setPartitionEpoch(0));
        }
        publish(delta);
    }

    private static List<String> texts(JsonNode array) {
        List<String> texts = new ArrayList<>();
        array.forEach(text -> texts.add(text.asText()));
        return texts;
    }

    // -- time

    private static void advance(long ms) throws Exception {
        long end = now.get() + ms;
        for (TimerTaskEntry due = timer.next(end); due != null; due = timer.next(end)) {
            now.set(Math.max(now.get(), due.expirationMs));
            due.timerTask.run();
            settle();
        }
        now.set(end);
    }

    /** Waits until the coordinator has done everything that the last step began. */
    private static void settle() throws Exception {
        for (int round = 0; round < 4; round++) {
            for (TimerTaskEntry due = timer.next(now.get()); due != null; due = timer.next(now.get())) {
                due.timerTask.run();
            }
            service.listGroups(new Context("settle", 5), new ListGroupsRequestData()).get(10, TimeUnit.SECONDS);
        }
    }

    private static final class SteppedTime implements Time {
        public long milliseconds() {
            return now.get();
        }

        public long nanoseconds() {
            return TimeUnit.MILLISECONDS.toNanos(now.get());
        }

        public void sleep(long ms) {
            throw new UnsupportedOperationException();
        }

        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }

    private static final class SteppedTimer implements Timer {
        private final PriorityQueue<TimerTaskEntry> tasks =
            new PriorityQueue<>((left, right) -> Long.compare(left.expirationMs, right.expirationMs));

        public synchronized void add(TimerTask task) {
            tasks.add(new TimerTaskEntry(task, now.get() + task.delayMs));
        }

        synchronized TimerTaskEntry next(long until) {
            while (!tasks.isEmpty() && tasks.peek().expirationMs <= until) {
                TimerTaskEntry entry = tasks.poll();
                if (!entry.cancelled()) return entry;
            }
            return null;
        }

        public boolean advanceClock(long timeoutMs) {
            return false;
        }

        public synchronized int size() {
            return tasks.size();
        }

        public void close() { }
    }

    // -- the log

    private static final class Writer implements PartitionWriter {
        public void registerListener(TopicPartition partition, Listener registered) {
            listener = registered;
        }

        public void deregisterListener(TopicPartition partition, Listener registered) { }

        public LogConfig config(TopicPartition partition) {
            return new LogConfig(Map.of());
        }

        public synchronized long append(
            TopicPartition partition, VerificationGuard guard, MemoryRecords batch, short version) {
            ByteBuffer copy = ByteBuffer.allocate(batch.sizeInBytes());
            copy.put(batch.buffer().duplicate());
            copy.flip();
            MemoryRecords kept = MemoryRecords.readableRecords(copy);
            log.add(kept);
            for (Record record : kept.records()) {
                ArrayNode pair = JSON.createArrayNode();
                pair.add(Base64.getEncoder().encodeToString(Utils.readBytes(record.key())));
                if (record.hasValue()) pair.add(Base64.getEncoder().encodeToString(Utils.readBytes(record.value())));
                else pair.addNull();
                records.add(pair);
                endOffset++;
            }
            listener.onHighWatermarkUpdated(partition, endOffset);
            return endOffset;
        }

        public CompletableFuture<VerificationGuard> maybeStartTransactionVerification(
            TopicPartition partition, String id, long producerId, short producerEpoch, int version) {
            throw new UnsupportedOperationException();
        }

        public CompletableFuture<Void> deleteRecords(TopicPartition partition, long offset) {
            throw new UnsupportedOperationException();
        }
    }

    private static final class Loader implements CoordinatorLoader<CoordinatorRecord> {
        public CompletableFuture<LoadSummary> load(
            TopicPartition partition, CoordinatorPlayback<CoordinatorRecord> playback) {
            GroupCoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
            long offset = 0;
            for (MemoryRecords batch : log) {
                for (Record record : batch.records()) {
                    playback.replay(offset++, -1L, (short) -1,
                        serde.deserialize(record.key(), record.hasValue() ? record.value() : null));
                }
                playback.updateLastWrittenOffset(offset);
                playback.updateLastCommittedOffset(offset);
            }
            return CompletableFuture.completedFuture(new LoadSummary(now.get(), now.get(), 0, offset, 0));
        }

        public void close() { }
    }

    // -- the persister

    private static final class StatePersister implements Persister {
        public CompletableFuture<InitializeShareGroupStateResult> initializeState(
            InitializeShareGroupStateParameters call) {
            return perform("initialize", call.groupTopicPartitionData(), topics -> {
                for (TopicData<PartitionStateData> topic : call.groupTopicPartitionData().topicsData()) {
                    for (PartitionStateData partition : topic.partitions()) {
                        if (error(topic.topicId(), partition.partition()) == Errors.NONE) {
                            states.put(key(call.groupTopicPartitionData(), topic.topicId(), partition.partition()),
                                partition.startOffset());
                        }
                    }
                }
                return new InitializeShareGroupStateResult.Builder().setTopicsData(errors(topics)).build();
            }, data -> ((PartitionStateData) data).stateEpoch() + "/" + ((PartitionStateData) data).startOffset());
        }

        public CompletableFuture<DeleteShareGroupStateResult> deleteState(DeleteShareGroupStateParameters call) {
            return perform("delete", call.groupTopicPartitionData(), topics -> {
                for (TopicData<PartitionIdData> topic : call.groupTopicPartitionData().topicsData()) {
                    for (PartitionIdData partition : topic.partitions()) {
                        if (error(topic.topicId(), partition.partition()) == Errors.NONE) {
                            states.remove(
                                key(call.groupTopicPartitionData(), topic.topicId(), partition.partition()));
                        }
                    }
                }
                return new DeleteShareGroupStateResult.Builder().setTopicsData(errors(topics)).build();
            }, data -> "");
        }

        public CompletableFuture<ReadShareGroupStateSummaryResult> readSummary(
            ReadShareGroupStateSummaryParameters call) {
            List<TopicData<PartitionStateSummaryData>> summaries = call.groupTopicPartitionData().topicsData().stream()
                .map(topic -> new TopicData<>(topic.topicId(), topic.partitions().stream()
                    .map(partition -> summary(call.groupTopicPartitionData(), topic.topicId(), partition.partition()))
                    .toList()))
                .toList();
            ArrayNode results = JSON.createArrayNode();
            summaries.forEach(topic -> topic.partitions().forEach(partition -> results.add(JSON.createArrayNode()
                .add(topic.topicId().toString()).add(partition.partition()).add(partition.stateEpoch())
                .add(partition.startOffset()).add(partition.deliveryCompleteCount()).add(partition.leaderEpoch())
                .add(partition.errorCode()))));
            calls.add(JSON.createObjectNode().put("call", "read summary")
                .put("group", call.groupTopicPartitionData().groupId()).set("results", results));
            return CompletableFuture.completedFuture(
                new ReadShareGroupStateSummaryResult.Builder().setTopicsData(summaries).build());
        }

        private PartitionStateSummaryData summary(GroupTopicPartitionData<?> call, Uuid topicId, int partition) {
            Errors error = error(topicId, partition);
            Long start = states.get(key(call, topicId, partition));
            if (error != Errors.NONE) {
                return PartitionFactory.newPartitionStateSummaryData(
                    partition, 0, -1, -1, 0, error.code(), error.message());
            }
            if (start == null) {
                return PartitionFactory.newPartitionStateSummaryData(partition, 0, -1, -1, 0, (short) 0, null);
            }
            int delivered = partition == 3 ? -1 : 2 * partition;
            return PartitionFactory.newPartitionStateSummaryData(partition, 1, start, delivered, 4, (short) 0, null);
        }

        public CompletableFuture<ReadShareGroupStateResult> readState(ReadShareGroupStateParameters call) {
            throw new UnsupportedOperationException();
        }

        public CompletableFuture<WriteShareGroupStateResult> writeState(WriteShareGroupStateParameters call) {
            throw new UnsupportedOperationException();
        }

        public void stop() { }

        private static String key(GroupTopicPartitionData<?> call, Uuid topicId, int partition) {
            return call.groupId() + "/" + topicId + "/" + partition;
        }

        /** "ok", or the partition whose calls fail, and the error. */
        private static Errors error(Uuid topicId, int partition) {
            if (persisterMode.equals("ok")) return Errors.NONE;
            String[] failing = persisterMode.split(" ");
            return partition == Integer.parseInt(failing[0]) ? Errors.valueOf(failing[1]) : Errors.NONE;
        }

        private static <T extends PartitionIdData, R> CompletableFuture<R> perform(
            String name, GroupTopicPartitionData<T> call, Function<List<TopicData<T>>, R> result,
            Function<Object, String> argument) {
            CompletableFuture<Void> begun = new CompletableFuture<>();
            boolean waits = persisterWaits && isHeartbeat;
            ArrayNode results = JSON.createArrayNode();
            for (TopicData<T> topic : call.topicsData()) {
                for (T partition : topic.partitions()) {
                    Errors error = error(topic.topicId(), partition.partition());
                    results.add(JSON.createArrayNode().add(topic.topicId().toString()).add(partition.partition())
                        .add(argument.apply(partition)).add(error.code()));
                }
            }
            ObjectNode described = JSON.createObjectNode().put("call", name).put("group", call.groupId());
            described.set("results", results);
            if (waits) described.put("waits", true);
            calls.add(described);
            R computed = result.apply(call.topicsData());
            CompletableFuture<R> answer = begun.thenApply(ignored -> computed);
            if (waits) pending.add(begun);
            else begun.complete(null);
            return answer;
        }

        private static <T extends PartitionIdData> List<TopicData<PartitionErrorData>> errors(
            List<TopicData<T>> topics) {
            return topics.stream().map(topic -> new TopicData<>(topic.topicId(), topic.partitions().stream()
                .map(partition -> {
                    Errors error = error(topic.topicId(), partition.partition());
                    return PartitionFactory.newPartitionErrorData(partition.partition(), error.code(),
                        error == Errors.NONE ? null : error.message());
                }).toList())).toList();
        }
    }

    private static final class Ends implements PartitionMetadataClient {
        public Map<TopicPartition, CompletableFuture<OffsetResponse>> listLatestOffsets(Set<TopicPartition> wanted) {
            return wanted.stream().collect(Collectors.toMap(Function.identity(), partition ->
                CompletableFuture.completedFuture(partition.partition() == 2
                    ? new OffsetResponse(-1, Errors.NOT_LEADER_OR_FOLLOWER)
                    : new OffsetResponse(100 + partition.partition(), Errors.NONE))));
        }

        public void close() { }
    }

    private record Context(String clientId, int requestVersion) implements AuthorizableRequestContext {
        public String listenerName() {
            return "PLAINTEXT";
        }

        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        public KafkaPrincipal principal() {
            return KafkaPrincipal.ANONYMOUS;
        }

        public InetAddress clientAddress() {
            try {
                return InetAddress.getByAddress(new byte[] {127, 0, 0, 1});
            } catch (UnknownHostException error) {
                throw new IllegalStateException(error);
            }
        }

        public int requestType() {
            return 0;
        }

        public int correlationId() {
            return 0;
        }
    }
}
