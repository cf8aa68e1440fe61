"""Members acquire, acknowledge and die in random order, writes fail, the log's start moves, the leader is replaced.

At every moment: a record is acquired by one member at most, delivered as often as allowed at most, never again after
its acknowledgement was stored, and never lost. The start offset only moves forward. A state that was stored completely
has the same future after it is read again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from barnabas.common.errors import ApiException
from barnabas.coordinator.share.persister import StateBatch
from barnabas.coordinator.share_partition.in_flight_batch import InFlightRange
from barnabas.coordinator.share_partition.record_state import RecordState
from barnabas.coordinator.share_partition.share_partition import SharePartition
from barnabas.coordinator.share_partition.share_partition_settings import SharePartitionSettings
from barnabas.coordinator.share_partition.state_batch import AcknowledgementBatch, FetchedBatch
from barnabas.coordinator.share_partition.state_write import StateWrite

LIMIT = 4
LOCK_MS = 100
SETTINGS = SharePartitionSettings(
    record_lock_duration_ms=LOCK_MS, delivery_count_limit=LIMIT, partition_max_record_locks=40
)
BATCH_ENDS = [3, 4, 9, 10, 11, 18, 22, 23, 30, 36, 40, 41, 47, 55, 60, 64, 71, 80, 88, 99]
LOG_END = BATCH_ENDS[-1] + 1
MEMBERS = st.sampled_from(["a", "b", "c"])
TYPES = st.sampled_from([0, 1, 1, 2, 3, 4])


def batches_from(offset: int, count: int) -> list[FetchedBatch]:
    index = next(index for index, end in enumerate(BATCH_ENDS) if end >= offset)
    starts = [0, *(end + 1 for end in BATCH_ENDS)]
    return [FetchedBatch(starts[at], BATCH_ENDS[at]) for at in range(index, min(index + count, len(BATCH_ENDS)))]


class Persister:
    """Keeps what was stored, by offset."""

    def __init__(self) -> None:
        self.start_offset = 0
        self.states: dict[int, tuple[int, int]] = {}

    def store(self, start_offset: int, batches: list[StateBatch]) -> None:
        self.start_offset = start_offset
        for first, last, state, count in batches:
            self.states.update(dict.fromkeys(range(first, last + 1), (state, count)))
        self.states = {offset: state for offset, state in self.states.items() if offset >= start_offset}

    def batches(self) -> list[StateBatch]:
        return [StateBatch(offset, offset, *state) for offset, state in sorted(self.states.items())]


class SharePartitionModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.log_start = 0
        self.persister = Persister()
        self.partition = SharePartition(lambda: SETTINGS, 0)
        self.waiting: list[StateWrite] = []
        self.deliveries: Counter[int] = Counter()
        self.stored_as_finished: set[int] = set()
        self.forgotten = False
        """Whether the persister lacks something that this leader knows."""
        self.last_start = 0

    def parts(self) -> Iterator[InFlightRange]:
        for batch in self.partition.in_flight_batches:
            yield from batch.ranges

    def owners(self) -> dict[int, str]:
        return {
            offset: part.member_id
            for part in self.parts()
            if part.state is RecordState.ACQUIRED
            for offset in range(part.first_offset, part.last_offset + 1)
        }

    # --- members

    @rule(member=MEMBERS, count=st.integers(1, 5), max_records=st.integers(1, 30), is_strict=st.booleans())
    def acquire(self, member: str, count: int, max_records: int, is_strict: bool) -> None:
        self.take(member, count, max_records, is_strict)

    def take(self, member: str, count: int, max_records: int, is_strict: bool) -> list[int]:
        offset = self.partition.next_fetch_offset()
        if offset is None or offset >= LOG_END:
            return []
        before = self.owners()
        acquired = self.partition.acquire(
            member,
            batches_from(offset, count),
            fetch_offset=offset,
            max_records=max_records,
            batch_size=7,
            is_strict=is_strict,
            now_ms=self.now_ms,
        )
        taken = [offset for first, last, _ in acquired for offset in range(first, last + 1)]
        assert not before.keys() & set(taken), "acquired by two members"
        assert not self.stored_as_finished & set(taken), "delivered after its acknowledgement was stored"
        assert len(taken) == len(set(taken))
        assert not is_strict or len(taken) <= max_records
        self.deliveries.update(taken)
        for first, last, delivery_count in acquired:
            for offset in range(first, last + 1):
                assert delivery_count == self.deliveries[offset] <= LIMIT
        after = self.owners()
        assert all(after[offset] == member for offset in taken)
        return taken

    @rule(member=MEMBERS, data=st.data())
    def acknowledge(self, member: str, data: st.DataObject) -> None:
        held = [part for part in self.parts() if part.state is RecordState.ACQUIRED and part.member_id == member]
        if not held:
            return
        part = data.draw(st.sampled_from(held))
        first = data.draw(st.integers(part.first_offset, part.last_offset))
        last = data.draw(st.integers(first, part.last_offset))
        size = data.draw(st.sampled_from([1, last - first + 1]))
        types = tuple(data.draw(st.lists(TYPES, min_size=size, max_size=size)))
        self.began(self.partition.acknowledge(member, [AcknowledgementBatch(first, last, types)], now_ms=self.now_ms))

    @rule(member=MEMBERS, first=st.integers(0, LOG_END), count=st.integers(1, 20), type_=TYPES)
    def acknowledge_anything(self, member: str, first: int, count: int, type_: int) -> None:
        before = self.owners()
        try:
            acknowledged = [AcknowledgementBatch(first, first + count - 1, (type_,))]
            self.began(self.partition.acknowledge(member, acknowledged, now_ms=self.now_ms))
        except ApiException:
            assert self.owners() == before
        else:
            start = self.partition.start_offset
            concerned = set(range(max(first, start), first + count))
            assert all(before[offset] == member for offset in concerned & before.keys())

    @rule(member=MEMBERS)
    def leave(self, member: str) -> None:
        self.began(self.partition.release(member, now_ms=self.now_ms))
        assert member not in self.owners().values()

    def began(self, write: StateWrite | None) -> None:
        if write is not None:
            self.waiting.append(write)

    # --- the rest of the world

    @precondition(lambda self: self.waiting)
    @rule(is_stored=st.booleans())
    def answer(self, is_stored: bool) -> None:
        write = self.waiting.pop(0)
        if is_stored:
            self.persister.store(self.partition.start_offset, write.batches)
        else:
            self.forgotten = True  # A lock ends whether that could be stored or not.
        before = self.partition.next_fetch_offset()
        has_changed = self.partition.complete(write, is_stored=is_stored, now_ms=self.now_ms)
        assert has_changed or self.partition.next_fetch_offset() == before, "waiting fetches would not be woken"
        self.note_finished()

    def note_finished(self) -> None:
        stored = self.persister.states.items()
        self.stored_as_finished |= {offset for offset, (state, _) in stored if RecordState(state).is_terminal}
        self.stored_as_finished |= set(range(self.persister.start_offset))

    @rule(ms=st.sampled_from([1, LOCK_MS // 3, LOCK_MS]))
    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self.began(self.partition.expire_locks(self.now_ms))
        for part in self.parts():
            is_over = part.deadline_ms is not None and part.deadline_ms <= self.now_ms
            assert part.state is not RecordState.ACQUIRED or not is_over

    @rule(count=st.integers(1, 12))
    def delete_records(self, count: int) -> None:
        self.log_start = min(self.log_start + count, LOG_END)
        self.partition.log_start_moved(self.log_start)
        assert self.partition.start_offset >= self.log_start
        self.forgotten = True

    @rule()
    def replace_leader(self) -> None:
        """The new leader has only what was stored. It may deliver what was delivered without a trace."""
        self.reload()

    def reload(self) -> None:
        self.waiting = []
        self.partition = SharePartition(lambda: SETTINGS, self.persister.start_offset, self.persister.batches())
        self.partition.log_start_moved(self.log_start)
        self.deliveries = Counter({offset: count for offset, (_, count) in self.persister.states.items()})
        self.last_start, self.forgotten = self.partition.start_offset, False

    @precondition(lambda self: not self.waiting and not self.forgotten and not self.owners())
    @rule()
    def read_again(self) -> None:
        before, next_offset = self.known(), self.partition.next_fetch_offset()
        self.reload()
        assert self.known() == before
        assert self.partition.next_fetch_offset() == next_offset

    def known(self) -> dict[int, tuple[int, int]]:
        start = self.partition.start_offset
        return {
            offset: (int(part.state), part.delivery_count)
            for part in self.parts()
            for offset in range(max(part.first_offset, start), part.last_offset + 1)
        }

    # --- always

    @invariant()
    def the_start_offset_moves_forward(self) -> None:
        assert self.last_start <= self.partition.start_offset <= self.partition.end_offset + 1
        self.last_start = self.partition.start_offset

    @invariant()
    def batches_are_in_order_and_complete(self) -> None:
        end = -1
        for batch in self.partition.in_flight_batches:
            assert batch.first_offset > end
            expected = batch.first_offset
            for part in batch.ranges:
                assert part.first_offset == expected <= part.last_offset
                expected = part.last_offset + 1
            assert expected == batch.last_offset + 1
            assert batch.is_tracked_by_offset or len(batch.ranges) == 1
            end = batch.last_offset

    @invariant()
    def finished_records_are_counted(self) -> None:
        start = self.partition.start_offset
        finished = sum(
            max(0, part.last_offset - max(part.first_offset, start) + 1)
            for part in self.parts()
            if part.state.is_terminal
        )
        assert self.partition.delivery_complete_count == finished

    @invariant()
    def every_lock_is_looked_after(self) -> None:
        deadlines = [part.deadline_ms for part in self.parts() if part.state is RecordState.ACQUIRED]
        next_ms = self.partition.next_deadline_ms
        assert all(next_ms is not None and deadline is not None and next_ms <= deadline for deadline in deadlines)

    def teardown(self) -> None:
        """Everything in the log is delivered in the end, unless it was finished before."""
        while self.waiting:
            self.answer(True)
        delivered: set[int] = set()
        for _ in range(LIMIT * LOG_END):
            self.now_ms += LOCK_MS
            self.began(self.partition.expire_locks(self.now_ms))
            while self.waiting:
                self.answer(True)
            taken = self.take("a", 20, 100, False)
            delivered.update(taken)
            for offset in taken:
                acknowledged = [AcknowledgementBatch(offset, offset, (1,))]
                self.began(self.partition.acknowledge("a", acknowledged, now_ms=self.now_ms))
            while self.waiting:
                self.answer(True)
            if self.partition.start_offset >= LOG_END:
                break
        assert self.partition.start_offset == LOG_END
        exhausted = {offset for offset, count in self.deliveries.items() if count >= LIMIT}
        finished = self.stored_as_finished | exhausted | set(range(self.log_start))
        assert finished >= set(range(LOG_END))


SharePartitionModel.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestSharePartitionModel = SharePartitionModel.TestCase
