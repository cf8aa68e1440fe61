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
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.PriorityQueue;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.message.CreateTopicsRequestData;
import org.apache.kafka.common.message.DeleteGroupsResponseData;
import org.apache.kafka.common.message.DeleteGroupsResponseDataJsonConverter;
import org.apache.kafka.common.message.ListGroupsRequestData;
import org.apache.kafka.common.message.ListGroupsResponseDataJsonConverter;
import org.apache.kafka.common.message.OffsetCommitRequestDataJsonConverter;
import org.apache.kafka.common.message.OffsetCommitResponseDataJsonConverter;
import org.apache.kafka.common.message.OffsetDeleteRequestDataJsonConverter;
import org.apache.kafka.common.message.OffsetDeleteResponseDataJsonConverter;
import org.apache.kafka.common.message.OffsetFetchRequestData;
import org.apache.kafka.common.message.OffsetFetchRequestDataJsonConverter;
import org.apache.kafka.common.message.OffsetFetchResponseData;
import org.apache.kafka.common.message.OffsetFetchResponseDataJsonConverter;
import org.apache.kafka.common.message.StreamsGroupDescribeResponseData;
import org.apache.kafka.common.message.StreamsGroupDescribeResponseDataJsonConverter;
import org.apache.kafka.common.message.StreamsGroupHeartbeatRequestDataJsonConverter;
import org.apache.kafka.common.message.StreamsGroupHeartbeatResponseData;
import org.apache.kafka.common.message.StreamsGroupHeartbeatResponseDataJsonConverter;
import org.apache.kafka.common.message.TxnOffsetCommitRequestDataJsonConverter;
import org.apache.kafka.common.message.TxnOffsetCommitResponseDataJsonConverter;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.RemoveTopicRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.requests.TransactionResult;
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
import org.apache.kafka.coordinator.group.streams.StreamsGroupHeartbeatResult;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.share.persister.NoOpStatePersister;
import org.apache.kafka.server.util.PartitionMetadataClient;
import org.apache.kafka.server.util.timer.Timer;
import org.apache.kafka.server.util.timer.TimerTask;
import org.apache.kafka.server.util.timer.TimerTaskEntry;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.VerificationGuard;

/**
 * Runs steps on Kafka's own group coordinator, with a clock, a log and a cluster of its own. Each line of the file is a
 * step, each line of the output the same step with the requests as they were made, the answers and the records that
 * were written, as JSON. The first line has the settings of the coordinator.
 */
public final class StreamsGroupLives {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final TopicPartition LOG = new TopicPartition("__consumer_offsets", 0);
    private static final long START_MS = 1_000_000L;
    private static final int BROKERS = 3;

    private static final AtomicLong now = new AtomicLong(START_MS);
    private static final Map<String, Known> members = new HashMap<>();
    private static final List<MemoryRecords> log = new ArrayList<>();

    private static GroupCoordinatorService service;
    private static GroupConfigManager configs;
    private static SteppedTimer timer;
    private static MetadataImage image = MetadataImage.EMPTY;
    private static long metadataOffset;
    private static int leaderEpoch;
    private static ArrayNode records;
    private static long endOffset;
    private static PartitionWriter.Listener listener;
    private static Map<String, CreateTopicsRequestData.CreatableTopic> missing = Map.of();
    private static long lastTopic = 1_000;

    /** What a member knows of itself. */
    private static final class Known {
        int epoch = 1;
        int previousEpoch = 1;
        int endpointEpoch;
        JsonNode active = JSON.createArrayNode();
        JsonNode standby = JSON.createArrayNode();
    }

    public static void main(String[] arguments) throws Exception {
        List<String> lines = Files.readAllLines(Path.of(arguments[0]));
        start(JSON.readTree(lines.get(0)));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        out.println(lines.get(0));
        try {
            for (String line : lines.subList(1, lines.size())) {
                records = JSON.createArrayNode();
                ObjectNode step = (ObjectNode) JSON.readTree(line);
                perform(step);
                settle();
                if (!records.isEmpty()) step.set("records", records);
                out.println(JSON.writeValueAsString(step));
            }
        } finally {
            service.shutdown();
        }
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
            .withPersister(new NoOpStatePersister())
            .withAuthorizerPlugin(Optional.empty())
            .withPartitionMetadataClient(new NoEnds())
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
            case "topics" -> changeTopics(step);
            case "create missing" -> createMissing(step);
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
            case "describe" -> step.set("answer", StreamsGroupDescribeResponseDataJsonConverter.write(
                new StreamsGroupDescribeResponseData().setGroups(
                    service.streamsGroupDescribe(new Context("client", 0), texts(step.get("groups"))).get()),
                (short) 0));
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
            default -> offsets(step);
        }
    }

    private static void offsets(ObjectNode step) throws Exception {
        JsonNode request = step.get("request");
        short version = (short) step.path("version").asInt();
        Context context = new Context("client", version);
        switch (step.get("kind").asText()) {
            case "commit" -> {
                withEpoch(request, "generationIdOrMemberEpoch");
                step.set("answer", OffsetCommitResponseDataJsonConverter.write(service.commitOffsets(
                    context, OffsetCommitRequestDataJsonConverter.read(request, version), null).get(), version));
            }
            case "transactional commit" -> {
                withEpoch(request, "generationId");
                step.set("answer", TxnOffsetCommitResponseDataJsonConverter.write(service.commitTransactionalOffsets(
                    context, TxnOffsetCommitRequestDataJsonConverter.read(request, version), null).get(), version));
            }
            case "end transaction" -> {
                TransactionResult result =
                    step.get("commits").asBoolean() ? TransactionResult.COMMIT : TransactionResult.ABORT;
                service.completeTransaction(LOG, step.get("producer").asLong(), (short) 0, 1, result, (short) 1).get();
            }
            case "fetch" -> {
                ObjectNode group = (ObjectNode) request.get("groups").get(0);
                withEpoch(group, "memberEpoch");
                OffsetFetchRequestData data = OffsetFetchRequestDataJsonConverter.read(request, version);
                try {
                    step.set("answer", OffsetFetchResponseDataJsonConverter.write(new OffsetFetchResponseData().setGroups(
                        List.of(service.fetchOffsets(context, data.groups().get(0), data.requireStable()).get())),
                        version));
                } catch (ExecutionException error) {
                    step.putObject("answer").put("error", Errors.forException(error.getCause()).code());
                }
            }
            case "delete offsets" -> step.set("answer", OffsetDeleteResponseDataJsonConverter.write(
                service.deleteOffsets(
                    context, OffsetDeleteRequestDataJsonConverter.read(request, version), null).get(), version));
            default -> throw new IllegalArgumentException(step.toString());
        }
    }

    /** Replaces "current", "previous" and "older" by the epoch of the member that the request names. */
    private static void withEpoch(JsonNode request, String field) {
        ObjectNode fields = (ObjectNode) request;
        Known known = members.computeIfAbsent(fields.get("groupId").asText() + "/" + fields.path("memberId").asText(),
            __ -> new Known());
        switch (fields.get(field).asText()) {
            case "current" -> fields.put(field, known.epoch);
            case "previous" -> fields.put(field, known.previousEpoch);
            case "older" -> fields.put(field, Math.max(known.epoch - 3, 1));
            default -> { }
        }
    }

    private static void heartbeat(ObjectNode step) throws Exception {
        ObjectNode wanted = (ObjectNode) step.get("request");
        withEpoch(wanted, "memberEpoch");
        Known known = members.get(wanted.get("groupId").asText() + "/" + wanted.get("memberId").asText());
        if (wanted.get("endpointInformationEpoch").asText().equals("current")) {
            wanted.put("endpointInformationEpoch", known.endpointEpoch);
        }
        if (wanted.get("activeTasks").asText().equals("assigned")) wanted.set("activeTasks", known.active);
        if (wanted.get("standbyTasks").asText().equals("assigned")) wanted.set("standbyTasks", known.standby);
        StreamsGroupHeartbeatResult result = service.streamsGroupHeartbeat(new Context(step.get("client").asText(), 0),
            StreamsGroupHeartbeatRequestDataJsonConverter.read(wanted, (short) 0)).get();
        StreamsGroupHeartbeatResponseData answer = result.data();
        ObjectNode shown = (ObjectNode) StreamsGroupHeartbeatResponseDataJsonConverter.write(answer, (short) 0);
        if (answer.errorCode() == 0 && answer.memberEpoch() >= 0) {
            if (known.epoch != answer.memberEpoch()) known.previousEpoch = known.epoch;
            known.epoch = answer.memberEpoch();
            known.endpointEpoch = answer.endpointInformationEpoch();
            if (answer.activeTasks() != null) {
                known.active = shown.get("activeTasks");
                known.standby = shown.get("standbyTasks");
            }
        }
        missing = new TreeMap<>(result.creatableTopics());
        ArrayNode create = JSON.createArrayNode();
        result.creatableTopics().forEach((name, topic) ->
            create.add(JSON.createArrayNode().add(name).add(topic.numPartitions()).add(topic.replicationFactor())));
        step.set("answer", shown);
        step.set("create", create);
    }

    private static void createMissing(ObjectNode step) {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
        ArrayNode created = step.putArray("topics");
        int left = step.get("count").asInt();
        for (CreateTopicsRequestData.CreatableTopic topic : missing.values()) {
            if (left-- == 0) break;
            if (image.topics().getTopic(topic.name()) != null) continue;
            Uuid id = new Uuid(3, lastTopic++);
            int more = topic.name().startsWith("served") ? 0 : step.get("more").asInt();
            int count = topic.numPartitions() + more;
            delta.replay(new TopicRecord().setName(topic.name()).setTopicId(id));
            for (int partition = 0; partition < count; partition++) {
                delta.replay(partitionRecord(id, partition));
            }
            created.addObject().put("topic", topic.name()).put("id", id.toString()).put("count", count);
        }
        missing = Map.of();
        publish(delta);
    }

    private static void changeTopics(ObjectNode step) {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
        String name = step.get("topic").asText();
        boolean exists = image.topics().getTopic(name) != null;
        String change = step.get("change").asText();
        if (exists != change.equals("create")) {
            Uuid id = exists ? image.topics().getTopic(name).id() : new Uuid(3, lastTopic++);
            int present = exists ? image.topics().getTopic(name).partitions().size() : 0;
            int count = change.equals("grow") ? present + step.get("count").asInt() : step.get("count").asInt();
            if (change.equals("create")) delta.replay(new TopicRecord().setName(name).setTopicId(id));
            if (change.equals("delete")) delta.replay(new RemoveTopicRecord().setTopicId(id));
            else for (int partition = present; partition < count; partition++) {
                delta.replay(partitionRecord(id, partition));
            }
            step.put("id", id.toString()).put("first", present).put("end", count);
        }
        publish(delta);
    }

    private static PartitionRecord partitionRecord(Uuid topicId, int partition) {
        int leader = partition % BROKERS;
        return new PartitionRecord().setTopicId(topicId).setPartitionId(partition)
            .setReplicas(List.of(leader, (leader + 1) % BROKERS)).setIsr(List.of(leader))
            .setDirectories(List.of(new Uuid(2, leader), new Uuid(2, (leader + 1) % BROKERS)))
            .setLeader(leader).setLeaderEpoch(0).setPartitionEpoch(0);
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
            for (MutableRecordBatch written : kept.batches()) {
                for (Record record : written) {
                    endOffset++;
                    if (written.isControlBatch()) continue;
                    ArrayNode pair = JSON.createArrayNode();
                    pair.add(Base64.getEncoder().encodeToString(Utils.readBytes(record.key())));
                    if (record.hasValue()) pair.add(Base64.getEncoder().encodeToString(Utils.readBytes(record.value())));
                    else pair.addNull();
                    records.add(pair);
                }
            }
            listener.onHighWatermarkUpdated(partition, endOffset);
            return endOffset;
        }

        public CompletableFuture<VerificationGuard> maybeStartTransactionVerification(
            TopicPartition partition, String id, long producerId, short producerEpoch, int version) {
            return CompletableFuture.completedFuture(VerificationGuard.SENTINEL);
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
            for (MemoryRecords kept : log) {
                for (MutableRecordBatch batch : kept.batches()) {
                    for (Record record : batch) {
                        if (batch.isControlBatch()) {
                            boolean commits = record.key().duplicate().position(2).getShort() == 1;
                            playback.replayEndTransactionMarker(batch.producerId(), batch.producerEpoch(),
                                commits ? TransactionResult.COMMIT : TransactionResult.ABORT);
                        } else {
                            playback.replay(offset, batch.producerId(), batch.producerEpoch(),
                                serde.deserialize(record.key(), record.hasValue() ? record.value() : null));
                        }
                        offset++;
                    }
                }
                playback.updateLastWrittenOffset(offset);
                playback.updateLastCommittedOffset(offset);
            }
            return CompletableFuture.completedFuture(new LoadSummary(now.get(), now.get(), 0, offset, 0));
        }

        public void close() { }
    }

    private static final class NoEnds implements PartitionMetadataClient {
        public Map<TopicPartition, CompletableFuture<OffsetResponse>> listLatestOffsets(Set<TopicPartition> wanted) {
            throw new UnsupportedOperationException();
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
