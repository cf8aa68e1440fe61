import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.internals.ShareAcquireMode;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.FetchResponseData.AbortedTransaction;
import org.apache.kafka.common.message.ShareFetchResponseData.AcquiredRecords;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.coordinator.group.GroupCoordinatorConfig;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;
import org.apache.kafka.server.share.acknowledge.ShareAcknowledgementBatch;
import org.apache.kafka.server.share.fetch.InFlightBatch;
import org.apache.kafka.server.share.fetch.InFlightState;
import org.apache.kafka.server.share.fetch.ShareAcquiredRecords;
import org.apache.kafka.server.share.persister.DeleteShareGroupStateParameters;
import org.apache.kafka.server.share.persister.DeleteShareGroupStateResult;
import org.apache.kafka.server.share.persister.InitializeShareGroupStateParameters;
import org.apache.kafka.server.share.persister.InitializeShareGroupStateResult;
import org.apache.kafka.server.share.persister.PartitionFactory;
import org.apache.kafka.server.share.persister.PartitionStateBatchData;
import org.apache.kafka.server.share.persister.Persister;
import org.apache.kafka.server.share.persister.PersisterStateBatch;
import org.apache.kafka.server.share.persister.ReadShareGroupStateParameters;
import org.apache.kafka.server.share.persister.ReadShareGroupStateResult;
import org.apache.kafka.server.share.persister.ReadShareGroupStateSummaryParameters;
import org.apache.kafka.server.share.persister.ReadShareGroupStateSummaryResult;
import org.apache.kafka.server.share.persister.TopicData;
import org.apache.kafka.server.share.persister.WriteShareGroupStateParameters;
import org.apache.kafka.server.share.persister.WriteShareGroupStateResult;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.storage.log.FetchPartitionData;
import org.apache.kafka.server.util.timer.Timer;
import org.apache.kafka.server.util.timer.TimerTask;
import org.apache.kafka.server.util.timer.TimerTaskEntry;

/**
 * Runs a script of calls on Kafka's own share-partition, with a clock and a persister of its own. Each line of the file
 * is a call, each line of the output its result and the state afterwards, as JSON.
 *
 * <pre>
 * new START MAX_IN_FLIGHT MAX_DELIVERIES LOCK_MS [FIRST-LAST:STATE:COUNT,...]
 * acquire MEMBER STRICT BATCH_SIZE MAX_RECORDS FETCH_OFFSET BASE-LAST[:PRODUCER:KIND],... [PRODUCER:FIRST,...]
 * ack MEMBER FIRST-LAST:TYPE/TYPE...,...     release MEMBER     advance MS     start OFFSET
 * persister ok|fail|wait                     finish ok|fail
 * </pre>
 *
 * KIND of a batch: 0 transactional, 1 an abort marker, 2 a commit marker. `persister` decides about the writes that
 * follow; `finish` completes the oldest one that waits.
 */
public final class SharePartitionScript {
    private static final TopicIdPartition PARTITION = new TopicIdPartition(new Uuid(1, 1), 0, "topic");
    private static final Class<?> CLASS = load("kafka.server.share.SharePartition");

    private static long now;
    private static String persisterMode = "ok";
    private static List<String> written = new ArrayList<>();
    private static List<CompletableFuture<WriteShareGroupStateResult>> waiting = new ArrayList<>();
    private static ManualTimer timer;
    private static Object partition;

    private SharePartitionScript() {
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            written = new ArrayList<>();
            String result = run(line.split(" "));
            out.println("{\"result\":" + result + ",\"written\":[" + String.join(",", written) + "]," + state() + "}");
        }
        out.flush();
    }

    private static String run(String[] call) throws Exception {
        switch (call[0]) {
            case "new":
                return create(call);
            case "acquire":
                return acquire(call);
            case "ack":
                return outcome((CompletableFuture<?>) invoke("acknowledge", call[1], acknowledgements(call[2])));
            case "release":
                return outcome((CompletableFuture<?>) invoke("releaseAcquiredRecords", call[1]));
            case "advance":
                now += Long.parseLong(call[1]);
                timer.runExpired();
                return "null";
            case "start":
                invoke("updateCacheAndOffsets", Long.parseLong(call[1]));
                return "null";
            case "persister":
                persisterMode = call[1];
                return "null";
            case "finish":
                finish(waiting.remove(0), call[1]);
                return "null";
            default:
                throw new IllegalArgumentException(call[0]);
        }
    }

    private static String create(String[] call) throws Exception {
        now = 0;
        persisterMode = "ok";
        waiting = new ArrayList<>();
        timer = new ManualTimer();
        Constructor<?> constructor = null;
        for (Constructor<?> candidate : CLASS.getDeclaredConstructors()) {
            if (candidate.getParameterCount() == 12) {
                constructor = candidate;
            }
        }
        constructor.setAccessible(true);
        GroupConfigManager configs = new GroupConfigManager(
            Map.of(), blank(GroupCoordinatorConfig.class), blank(ShareGroupConfig.class));
        Persister persister = new ScriptedPersister(Long.parseLong(call[1]), call.length > 5 ? call[5] : "");
        partition = constructor.newInstance("group", PARTITION, 7, Integer.parseInt(call[2]), Integer.parseInt(call[3]),
            Integer.parseInt(call[4]), timer, new ManualTime(), persister, null, configs, null);
        return outcome((CompletableFuture<?>) invoke("maybeInitialize"));
    }

    private static String acquire(String[] call) throws Exception {
        MemoryRecords records = records(call[6]);
        Optional<List<AbortedTransaction>> aborted = Optional.empty();
        if (call.length > 7) {
            List<AbortedTransaction> transactions = new ArrayList<>();
            for (String transaction : call[7].split(",")) {
                String[] parts = transaction.split(":");
                transactions.add(new AbortedTransaction()
                    .setProducerId(Long.parseLong(parts[0])).setFirstOffset(Long.parseLong(parts[1])));
            }
            aborted = Optional.of(transactions);
        }
        FetchPartitionData data = new FetchPartitionData(Errors.NONE, 1_000_000, 0, records, Optional.empty(),
            OptionalLong.empty(), aborted, OptionalInt.empty(), false);
        ShareAcquiredRecords acquired = (ShareAcquiredRecords) invoke("acquire", call[1],
            call[2].equals("1") ? ShareAcquireMode.RECORD_LIMIT : ShareAcquireMode.BATCH_OPTIMIZED,
            Integer.parseInt(call[3]), Integer.parseInt(call[4]), Long.parseLong(call[5]), data,
            aborted.isPresent() ? FetchIsolation.TXN_COMMITTED : FetchIsolation.HIGH_WATERMARK);
        List<String> ranges = new ArrayList<>();
        for (AcquiredRecords range : acquired.acquiredRecords()) {
            ranges.add("[" + range.firstOffset() + "," + range.lastOffset() + "," + range.deliveryCount() + "]");
        }
        return "[" + String.join(",", ranges) + "]";
    }

    private static MemoryRecords records(String batches) {
        ByteBuffer buffer = ByteBuffer.allocate(1 << 20);
        for (String batch : batches.split(",")) {
            String[] parts = batch.split(":");
            long first = first(parts[0]);
            long last = last(parts[0]);
            long producer = parts.length > 1 ? Long.parseLong(parts[1]) : -1;
            int kind = parts.length > 1 ? Integer.parseInt(parts[2]) : 0;
            if (kind > 0) {
                buffer.put(MemoryRecords.withEndTransactionMarker(first, 0, 0, producer, (short) 0,
                    new EndTransactionMarker(kind == 1 ? ControlRecordType.ABORT : ControlRecordType.COMMIT, 0))
                    .buffer());
                continue;
            }
            ByteBuffer written = ByteBuffer.allocate(4096);
            MemoryRecordsBuilder builder = MemoryRecords.builder(written, (byte) 2, Compression.NONE,
                TimestampType.CREATE_TIME, first, 0, producer, (short) (producer < 0 ? -1 : 0), producer < 0 ? -1 : 0,
                producer >= 0, 0);
            builder.appendWithOffset(first, 0, null, new byte[1]);
            if (last > first) {
                builder.appendWithOffset(last, 0, null, new byte[1]);
            }
            buffer.put(builder.build().buffer());
        }
        buffer.flip();
        return MemoryRecords.readableRecords(buffer);
    }

    private static List<ShareAcknowledgementBatch> acknowledgements(String text) {
        List<ShareAcknowledgementBatch> batches = new ArrayList<>();
        for (String batch : text.split(",")) {
            String[] parts = batch.split(":");
            List<Byte> types = new ArrayList<>();
            for (String type : parts[1].split("/")) {
                types.add(Byte.parseByte(type));
            }
            batches.add(new ShareAcknowledgementBatch(first(parts[0]), last(parts[0]), types));
        }
        return batches;
    }

    private static String outcome(CompletableFuture<?> future) throws Exception {
        if (!future.isDone()) {
            return "\"waits\"";
        }
        try {
            future.get();
            return "\"done\"";
        } catch (Exception error) {
            return "\"" + Errors.forException(error).name() + "\"";
        }
    }

    private static void finish(CompletableFuture<WriteShareGroupStateResult> future, String mode) {
        try {
            future.complete(answer(mode));
        } catch (NullPointerException noReplicaManager) {
            // It would have looked for fetches that wait.
        }
    }

    private static WriteShareGroupStateResult answer(String mode) {
        short error = mode.equals("ok") ? 0 : Errors.COORDINATOR_NOT_AVAILABLE.code();
        return new WriteShareGroupStateResult.Builder().setTopicsData(List.of(new TopicData<>(PARTITION.topicId(),
            List.of(PartitionFactory.newPartitionErrorData(0, error, null))))).build();
    }

    // ---- the state

    private static String state() throws Exception {
        List<String> batches = new ArrayList<>();
        for (InFlightBatch batch : ((NavigableMap<?, InFlightBatch>) invoke("cachedState")).values()) {
            List<String> ranges = new ArrayList<>();
            if (batch.offsetState() == null) {
                ranges.add(range(batch.firstOffset(), batch.lastOffset(), single(batch)));
            } else {
                long first = -1;
                String previous = null;
                for (Map.Entry<Long, InFlightState> entry : batch.offsetState().entrySet()) {
                    String state = text(entry.getValue());
                    if (!state.equals(previous)) {
                        if (previous != null) {
                            ranges.add(range(first, entry.getKey() - 1, previous));
                        }
                        first = entry.getKey();
                        previous = state;
                    }
                }
                ranges.add(range(first, batch.lastOffset(), previous));
            }
            batches.add("[" + String.join(",", ranges) + "]");
        }
        long next = (Long) invoke("nextFetchOffset");
        return "\"start\":" + invoke("startOffset") + ",\"end\":" + invoke("endOffset") + ",\"next\":"
            + ((Boolean) invoke("canAcquireRecords") ? next : null) + ",\"complete\":" + invoke("deliveryCompleteCount")
            + ",\"batches\":[" + String.join(",", batches) + "]";
    }

    private static String single(InFlightBatch batch) throws Exception {
        Field field = InFlightBatch.class.getDeclaredField("batchState");
        field.setAccessible(true);
        return text((InFlightState) field.get(batch));
    }

    private static String text(InFlightState state) {
        String member = state.memberId().equals(InFlightState.EMPTY_MEMBER_ID) ? "" : state.memberId();
        return state.state().id() + "," + state.deliveryCount() + ",\"" + member + "\","
            + (state.hasOngoingStateTransition() ? 1 : 0);
    }

    private static String range(long first, long last, String state) {
        return "[" + first + "," + last + "," + state + "]";
    }

    // ---- what it is given

    private static final class ManualTime implements Time {
        @Override
        public long milliseconds() {
            return now;
        }

        @Override
        public long hiResClockMs() {
            return now;
        }

        @Override
        public long nanoseconds() {
            return now * 1_000_000;
        }

        @Override
        public void sleep(long ms) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }

    private static final class ManualTimer implements Timer {
        private final List<TimerTaskEntry> entries = new ArrayList<>();

        @Override
        public void add(TimerTask task) {
            entries.add(new TimerTaskEntry(task, now + task.delayMs));
        }

        void runExpired() {
            List<TimerTaskEntry> due = new ArrayList<>();
            for (TimerTaskEntry entry : entries) {
                if (entry.expirationMs <= now) {
                    due.add(entry);
                }
            }
            entries.removeAll(due);
            due.sort(Comparator.comparingLong(entry -> entry.expirationMs));
            for (TimerTaskEntry entry : due) {
                if (!entry.cancelled()) {
                    try {
                        entry.timerTask.run();
                    } catch (NullPointerException noReplicaManager) {
                        // It would have looked for fetches that wait.
                    }
                }
            }
        }

        @Override
        public boolean advanceClock(long timeoutMs) {
            throw new UnsupportedOperationException();
        }

        @Override
        public int size() {
            return entries.size();
        }

        @Override
        public void close() {
        }
    }

    private static final class ScriptedPersister implements Persister {
        private final long startOffset;
        private final List<PersisterStateBatch> batches = new ArrayList<>();

        ScriptedPersister(long startOffset, String text) {
            this.startOffset = startOffset;
            for (String batch : text.isEmpty() ? new String[0] : text.split(",")) {
                String[] parts = batch.split(":");
                batches.add(new PersisterStateBatch(
                    first(parts[0]), last(parts[0]), Byte.parseByte(parts[1]), Short.parseShort(parts[2])));
            }
        }

        @Override
        public CompletableFuture<ReadShareGroupStateResult> readState(ReadShareGroupStateParameters request) {
            return CompletableFuture.completedFuture(new ReadShareGroupStateResult.Builder().setTopicsData(List.of(
                new TopicData<>(PARTITION.topicId(), List.of(PartitionFactory.newPartitionAllData(
                    0, 5, startOffset, (short) 0, null, batches))))).build());
        }

        @Override
        public CompletableFuture<WriteShareGroupStateResult> writeState(WriteShareGroupStateParameters request) {
            PartitionStateBatchData data =
                request.groupTopicPartitionData().topicsData().get(0).partitions().get(0);
            List<String> texts = new ArrayList<>();
            for (PersisterStateBatch batch : data.stateBatches()) {
                texts.add("[" + batch.firstOffset() + "," + batch.lastOffset() + "," + batch.deliveryState() + ","
                    + batch.deliveryCount() + "]");
            }
            written.add("{\"start\":" + data.startOffset() + ",\"complete\":" + data.deliveryCompleteCount()
                + ",\"epochs\":[" + data.stateEpoch() + "," + data.leaderEpoch() + "],\"batches\":["
                + String.join(",", texts) + "]}");
            if (persisterMode.equals("wait")) {
                CompletableFuture<WriteShareGroupStateResult> future = new CompletableFuture<>();
                waiting.add(future);
                return future;
            }
            return CompletableFuture.completedFuture(answer(persisterMode));
        }

        @Override
        public CompletableFuture<InitializeShareGroupStateResult> initializeState(
            InitializeShareGroupStateParameters request) {
            throw new UnsupportedOperationException();
        }

        @Override
        public CompletableFuture<DeleteShareGroupStateResult> deleteState(DeleteShareGroupStateParameters request) {
            throw new UnsupportedOperationException();
        }

        @Override
        public CompletableFuture<ReadShareGroupStateSummaryResult> readSummary(
            ReadShareGroupStateSummaryParameters request) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void stop() {
        }
    }

    // ---- reflection: the class is not public to others

    private static Object invoke(String name, Object... arguments) throws Exception {
        for (Method method : CLASS.getDeclaredMethods()) {
            if (method.getName().equals(name) && method.getParameterCount() == arguments.length) {
                method.setAccessible(true);
                return method.invoke(partition, arguments);
            }
        }
        throw new NoSuchMethodException(name);
    }

    @SuppressWarnings("unchecked")
    private static <T> T blank(Class<T> type) throws Exception {
        Field field = Class.forName("sun.misc.Unsafe").getDeclaredField("theUnsafe");
        field.setAccessible(true);
        return (T) ((sun.misc.Unsafe) field.get(null)).allocateInstance(type);
    }

    private static Class<?> load(String name) {
        try {
            return Class.forName(name);
        } catch (ClassNotFoundException error) {
            throw new IllegalStateException(error);
        }
    }

    private static long first(String offsets) {
        return Long.parseLong(offsets.substring(0, offsets.indexOf('-')));
    }

    private static long last(String offsets) {
        return Long.parseLong(offsets.substring(offsets.indexOf('-') + 1));
    }
}
