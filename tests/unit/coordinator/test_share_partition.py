"""A share-partition: its rules one by one. ``test_share_partition.py`` of the oracles compares it with Kafka's."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.coordinator.share.persister import StateBatch
from barnabas.coordinator.share_partition.in_flight_records import InvalidState
from barnabas.coordinator.share_partition.record_state import AcknowledgeType, RecordState
from barnabas.coordinator.share_partition.share_partition import SharePartition
from barnabas.coordinator.share_partition.share_partition_settings import SharePartitionSettings
from barnabas.coordinator.share_partition.state_batch import AcknowledgementBatch, FetchedBatch
from barnabas.coordinator.share_partition.state_write import StateWrite

LOCK_MS = 1_000
SETTINGS = SharePartitionSettings(record_lock_duration_ms=LOCK_MS)
ACCEPT, RELEASE, REJECT, RENEW = (
    int(type_)
    for type_ in (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT, AcknowledgeType.RENEW)
)


class Driver:
    """A share-partition with a clock, a persister that agrees, and a log of batches of ten records."""

    def __init__(
        self, start_offset: int = 0, batches: Sequence[StateBatch] = (), settings: SharePartitionSettings = SETTINGS
    ) -> None:
        self.now_ms = 0
        self.settings = settings
        self.partition = SharePartition(lambda: self.settings, start_offset, batches)
        self.stored: list[StateBatch] = []

    def acquire(
        self,
        member: str = "a",
        *,
        count: int = 1,
        max_records: int = 500,
        is_strict: bool = False,
        aborted: Sequence[FetchedBatch] = (),
    ) -> list[tuple[int, int, int]]:
        """Acquire from the next ``count`` batches of the log."""
        offset = self.partition.next_fetch_offset()
        if offset is None:
            return []
        first = offset // 10 * 10
        acquired = self.partition.acquire(
            member,
            [FetchedBatch(base, base + 9) for base in range(first, first + 10 * count, 10)],
            fetch_offset=offset,
            max_records=max_records,
            batch_size=500,
            is_strict=is_strict,
            aborted=aborted,
            now_ms=self.now_ms,
        )
        return [(records.first_offset, records.last_offset, records.delivery_count) for records in acquired]

    def begin(self, first: int, last: int, *types: int, member: str = "a") -> StateWrite:
        write = self.partition.acknowledge(member, [AcknowledgementBatch(first, last, types)], now_ms=self.now_ms)
        assert write is not None
        return write

    def acknowledge(self, first: int, last: int, *types: int, member: str = "a") -> None:
        acknowledged = [AcknowledgementBatch(first, last, types)]
        self.finish(self.partition.acknowledge(member, acknowledged, now_ms=self.now_ms))

    def finish(self, write: StateWrite | None, *, is_stored: bool = True) -> bool:
        if write is None:
            return False
        self.stored += write.batches if is_stored else []
        return self.partition.complete(write, is_stored=is_stored, now_ms=self.now_ms)

    def advance(self, ms: int) -> None:
        self.now_ms += ms
        self.finish(self.partition.expire_locks(self.now_ms))

    def states(self) -> list[tuple[int, int, str, int]]:
        return [
            (part.first_offset, part.last_offset, part.state.name, part.delivery_count)
            for batch in self.partition.in_flight_batches
            for part in batch.ranges
        ]


def refused(code: ErrorCode, driver: Driver, *arguments: int, member: str = "a") -> None:
    before = driver.states()
    with pytest.raises(ApiException) as error:
        driver.acknowledge(*arguments, member=member)
    assert error.value.code is code
    assert driver.states() == before


# --- delivery


def test_records_are_acquired_once_and_finished_ones_leave() -> None:
    driver = Driver()
    assert driver.acquire("a", count=2) == [(0, 19, 1)]
    assert driver.acquire("b") == [(20, 29, 1)]
    driver.acknowledge(0, 19, ACCEPT)
    assert driver.partition.start_offset == 20
    assert driver.states() == [(20, 29, "ACQUIRED", 1)]
    driver.acknowledge(20, 29, REJECT, member="b")
    assert (driver.partition.start_offset, driver.partition.end_offset, driver.states()) == (30, 30, [])
    assert driver.stored == [StateBatch(0, 19, 2, 1), StateBatch(20, 29, 4, 1)]


def test_released_records_are_the_next_to_be_fetched() -> None:
    driver = Driver()
    driver.acquire("a", count=2)
    driver.acknowledge(5, 9, RELEASE)
    assert driver.partition.next_fetch_offset() == 5
    assert driver.acquire("b", count=2) == [(5, 9, 2)]
    assert driver.acquire("b") == [(20, 29, 1)]


def test_each_record_may_have_its_own_acknowledgement() -> None:
    driver = Driver()
    driver.acquire()
    driver.acknowledge(0, 9, *[ACCEPT] * 4, *[RELEASE] * 3, *[REJECT] * 3)
    assert driver.states() == [(0, 3, "ACKNOWLEDGED", 1), (4, 6, "AVAILABLE", 1), (7, 9, "ARCHIVED", 1)]
    assert driver.partition.start_offset == 4
    assert driver.partition.delivery_complete_count == 3


def test_a_strict_limit_leaves_the_rest_of_a_batch_to_others() -> None:
    driver = Driver()
    assert driver.acquire("a", max_records=4, is_strict=True) == [(0, 3, 1)]
    assert driver.acquire("b", max_records=4, is_strict=True) == [(4, 7, 1)]
    assert driver.acquire("c", max_records=4, is_strict=True) == [(8, 9, 1)]


def test_a_soft_limit_is_exceeded_to_the_end_of_a_batch() -> None:
    assert Driver().acquire(count=3, max_records=4) == [(0, 9, 1)]


def test_no_more_records_are_in_flight_than_allowed_but_released_ones_are_delivered() -> None:
    driver = Driver(settings=SETTINGS._replace(partition_max_record_locks=20))
    assert driver.acquire(count=5) == [(0, 19, 1)]
    assert driver.partition.next_fetch_offset() is None
    driver.acknowledge(10, 14, RELEASE)
    assert driver.acquire("b", count=5) == [(10, 14, 2)]
    driver.acknowledge(0, 9, ACCEPT)
    assert driver.acquire("b") == [(20, 29, 1)]


def test_a_limit_that_changes_applies_immediately() -> None:
    driver = Driver(settings=SETTINGS._replace(partition_max_record_locks=10))
    driver.acquire()
    assert driver.partition.next_fetch_offset() is None
    driver.settings = driver.settings._replace(partition_max_record_locks=11)
    assert driver.partition.next_fetch_offset() == 10


# --- poison records


def test_a_record_that_always_fails_is_isolated_before_its_last_delivery() -> None:
    """The member dies at record 7, and releases what it has: only that record reaches the limit."""
    driver = Driver(settings=SETTINGS._replace(delivery_count_limit=5))
    deliveries = dict.fromkeys(range(10), 0)
    for _ in range(100):
        acquired = driver.acquire()
        if not acquired or acquired[0][0] > 9:
            break
        offsets = [offset for first, last, _ in acquired for offset in range(first, last + 1)]
        for offset in offsets:
            deliveries[offset] += 1
        if 7 in offsets:
            driver.finish(driver.partition.release("a", now_ms=0))
        else:
            for first, last, _ in acquired:
                driver.acknowledge(first, last, ACCEPT)
    assert deliveries[7] == 5
    archived = [batch for batch in driver.stored if batch.delivery_state == RecordState.ARCHIVED]
    assert archived == [StateBatch(7, 7, 4, 5)]
    assert driver.partition.start_offset == 10


def test_with_two_deliveries_nothing_is_isolated() -> None:
    driver = Driver(settings=SETTINGS._replace(delivery_count_limit=2))
    driver.acquire()
    driver.finish(driver.partition.release("a", now_ms=0))
    assert driver.acquire() == [(0, 9, 2)]
    driver.finish(driver.partition.release("a", now_ms=0))
    assert driver.partition.start_offset == 10


# --- what may not be acknowledged


def test_only_the_member_that_acquired_may_acknowledge() -> None:
    driver = Driver()
    driver.acquire("a")
    refused(ErrorCode.INVALID_RECORD_STATE, driver, 0, 9, ACCEPT, member="b")
    driver.acknowledge(0, 4, RELEASE)
    refused(ErrorCode.INVALID_RECORD_STATE, driver, 0, 9, ACCEPT)
    refused(ErrorCode.INVALID_RECORD_STATE, driver, 2, 3, ACCEPT)


def test_offsets_that_were_never_acquired_are_refused() -> None:
    driver = Driver(start_offset=20)
    refused(ErrorCode.INVALID_RECORD_STATE, driver, 20, 29, ACCEPT)
    driver.acquire()
    refused(ErrorCode.INVALID_REQUEST, driver, 25, 30, ACCEPT)
    refused(ErrorCode.INVALID_REQUEST, driver, 40, 41, ACCEPT)
    refused(ErrorCode.INVALID_REQUEST, driver, 20, 29, 9)


def test_acknowledgements_of_finished_records_are_ignored() -> None:
    driver = Driver(start_offset=20)
    assert driver.partition.acknowledge("a", [AcknowledgementBatch(0, 9, (ACCEPT,))], now_ms=0) is None


def test_one_invalid_batch_undoes_the_others_of_its_request() -> None:
    driver = Driver()
    driver.acquire(count=2)
    with pytest.raises(ApiException):
        driver.partition.acknowledge(
            "a", [AcknowledgementBatch(0, 4, (ACCEPT,)), AcknowledgementBatch(30, 31, (ACCEPT,))], now_ms=0
        )
    assert driver.states() == [(0, 19, "ACQUIRED", 1)]
    assert driver.partition.delivery_complete_count == 0


# --- transitions


def test_records_in_transition_belong_to_nobody_and_come_back_if_the_write_fails() -> None:
    driver = Driver()
    driver.acquire()
    write = driver.begin(0, 9, RELEASE)
    assert driver.partition.next_fetch_offset() == 10
    refused(ErrorCode.INVALID_RECORD_STATE, driver, 0, 9, ACCEPT)
    assert not driver.finish(write, is_stored=False)
    assert driver.states() == [(0, 9, "ACQUIRED", 1)]
    driver.acknowledge(0, 9, ACCEPT)


def test_the_start_offset_waits_for_the_persister() -> None:
    driver = Driver()
    driver.acquire(count=2)
    first, second = driver.begin(0, 9, ACCEPT), driver.begin(10, 19, ACCEPT)
    driver.finish(second)
    assert driver.partition.start_offset == 0
    assert driver.finish(first)
    assert driver.partition.start_offset == 20


def test_a_lock_that_ends_during_a_failing_write_releases_the_records() -> None:
    driver = Driver()
    driver.acquire()
    write = driver.begin(0, 9, ACCEPT)
    driver.advance(LOCK_MS)
    assert driver.partition.delivery_complete_count == 10
    assert driver.finish(write, is_stored=False)
    assert driver.states() == [(0, 9, "AVAILABLE", 1)]
    assert driver.partition.delivery_complete_count == 0


def test_the_lock_of_an_undone_acknowledgement_still_ends() -> None:
    driver = Driver()
    driver.acquire()
    write = driver.begin(0, 9, ACCEPT)
    driver.advance(LOCK_MS // 2)
    driver.finish(write, is_stored=False)
    assert driver.partition.next_deadline_ms is not None
    driver.advance(LOCK_MS // 2)
    assert driver.states() == [(0, 9, "AVAILABLE", 1)]


# --- locks


def test_locks_end_at_their_deadline_even_if_that_cannot_be_stored() -> None:
    driver = Driver()
    driver.acquire("a")
    driver.now_ms = 400
    driver.acquire("b")
    assert driver.partition.next_deadline_ms == LOCK_MS
    assert driver.partition.expire_locks(LOCK_MS - 1) is None
    write = driver.partition.expire_locks(LOCK_MS)
    assert write is not None
    assert write.batches == [StateBatch(0, 9, 0, 1)]
    driver.finish(write, is_stored=False)
    assert driver.states() == [(0, 9, "AVAILABLE", 1), (10, 19, "ACQUIRED", 1)]
    assert driver.partition.next_deadline_ms == LOCK_MS + 400
    assert driver.partition.locks_expired == 10


def test_a_renewed_lock_begins_again() -> None:
    driver = Driver()
    driver.acquire()
    driver.advance(600)
    assert driver.partition.acknowledge("a", [AcknowledgementBatch(0, 4, (RENEW,))], now_ms=600) is None
    driver.advance(400)
    assert driver.states() == [(0, 4, "ACQUIRED", 1), (5, 9, "AVAILABLE", 1)]
    driver.advance(600)
    assert driver.states() == [(0, 9, "AVAILABLE", 1)]


def test_a_group_may_forbid_to_renew_locks() -> None:
    driver = Driver(settings=SETTINGS._replace(renew_acknowledge_enable=False))
    driver.acquire()
    refused(ErrorCode.INVALID_RECORD_STATE, driver, 0, 9, RENEW)


def test_the_last_delivery_ends_archived() -> None:
    driver = Driver(settings=SETTINGS._replace(delivery_count_limit=2))
    driver.acquire()
    driver.advance(LOCK_MS)
    driver.acquire()
    driver.advance(LOCK_MS)
    assert driver.stored == [StateBatch(0, 9, 0, 1), StateBatch(0, 9, 4, 2)]
    assert driver.partition.start_offset == 10


def test_a_member_that_leaves_releases_its_records_only() -> None:
    driver = Driver()
    driver.acquire("a")
    driver.acquire("b")
    driver.finish(driver.partition.release("a", now_ms=0))
    assert driver.states() == [(0, 9, "AVAILABLE", 1), (10, 19, "ACQUIRED", 1)]
    assert driver.partition.release("a", now_ms=0) is None


# --- the log's start


def test_records_that_the_log_lost_are_not_delivered() -> None:
    driver = Driver()
    driver.acquire(count=2)
    driver.acknowledge(0, 9, RELEASE)
    assert driver.partition.log_start_moved(5)
    assert driver.acquire("b", count=2) == [(5, 9, 2)]
    assert not driver.partition.log_start_moved(5)


def test_what_a_member_still_has_before_the_log_start_is_archived_with_its_lock() -> None:
    driver = Driver()
    driver.acquire(count=2)
    driver.partition.log_start_moved(15)
    driver.acknowledge(0, 9, ACCEPT)  # In vain, but not an error.
    driver.advance(LOCK_MS)
    assert driver.stored == [StateBatch(0, 14, 4, 1), StateBatch(15, 19, 0, 1)]
    assert driver.acquire("b") == [(15, 19, 2)]


def test_the_start_offset_never_goes_back() -> None:
    """Kafka's does, when the lock of a record before the log's start ends."""
    driver = Driver()
    driver.acquire()
    driver.partition.log_start_moved(50)
    driver.advance(LOCK_MS)
    assert (driver.partition.start_offset, driver.partition.end_offset) == (50, 50)
    assert driver.acquire() == [(50, 59, 1)]


def test_a_transition_that_the_log_start_cuts_continues_behind_it() -> None:
    driver = Driver()
    driver.acquire()
    write = driver.begin(0, 9, RELEASE)
    driver.partition.log_start_moved(5)
    assert driver.partition.next_fetch_offset() == 10
    driver.finish(write, is_stored=False)
    assert driver.states() == [(0, 4, "ARCHIVED", 1), (5, 9, "ACQUIRED", 1)]
    driver.acknowledge(5, 9, ACCEPT)
    assert driver.partition.start_offset == 10


def test_unknown_offsets_before_the_log_start_are_not_fetched() -> None:
    """Kafka's share-partition fetches the first of them for ever."""
    driver = Driver(10, [StateBatch(20, 29, 2, 1), StateBatch(40, 49, 0, 1)])
    driver.partition.log_start_moved(15)
    assert driver.partition.next_fetch_offset() == 15
    assert driver.acquire() == [(15, 19, 1)]


def test_a_new_leader_moves_on_over_finished_records_that_no_unknown_offset_precedes() -> None:
    """Kafka's waits for a record after all that were stored, and never acquires one if those are too many."""
    limited = SharePartitionSettings(record_lock_duration_ms=LOCK_MS, partition_max_record_locks=50)
    driver = Driver(10, [StateBatch(20, 89, 2, 1)], limited)
    assert driver.acquire() == [(10, 19, 1)]
    driver.acknowledge(10, 19, ACCEPT)
    assert driver.partition.start_offset == 90
    assert driver.acquire() == [(90, 99, 1)]


def test_offsets_that_a_new_leader_has_fetched_stay_known() -> None:
    limited = SharePartitionSettings(record_lock_duration_ms=LOCK_MS, partition_max_record_locks=50)
    driver = Driver(10, [StateBatch(20, 29, 2, 1), StateBatch(30, 39, 0, 1), StateBatch(50, 89, 2, 1)], limited)
    assert driver.acquire(count=3) == [(10, 19, 1), (30, 39, 2)]
    driver.acknowledge(10, 19, RELEASE)
    driver.acknowledge(30, 39, ACCEPT)
    assert driver.acquire() == [(10, 19, 2)]
    driver.acknowledge(10, 19, ACCEPT)
    assert driver.partition.start_offset == 40
    assert driver.acquire() == [(40, 49, 1)]
    driver.acknowledge(40, 49, ACCEPT)
    assert driver.partition.start_offset == 90


@pytest.mark.parametrize("most", [50, 500])
def test_unknown_offsets_that_compaction_removed_are_not_fetched_for_ever(most: int) -> None:
    limited = SharePartitionSettings(record_lock_duration_ms=LOCK_MS, partition_max_record_locks=most)
    driver = Driver(10, [StateBatch(20, 89, 2, 1)], limited)
    found = driver.partition.acquire(
        "a", [FetchedBatch(20, 89)], fetch_offset=10, max_records=500, batch_size=500, now_ms=0
    )
    assert found == []
    assert driver.partition.start_offset == 90
    assert driver.acquire() == [(90, 99, 1)]


# --- compaction and transactions


def test_available_records_that_compaction_removed_are_archived() -> None:
    driver = Driver()
    driver.acquire(count=3)
    driver.acknowledge(0, 29, RELEASE)
    acquired = driver.partition.acquire(
        "a", [FetchedBatch(20, 29)], fetch_offset=0, max_records=500, batch_size=500, now_ms=0
    )
    assert [tuple(records) for records in acquired] == [(20, 29, 2)]
    assert driver.partition.start_offset == 20


def test_aborted_batches_are_not_delivered() -> None:
    driver = Driver()
    assert driver.acquire(count=3, aborted=[FetchedBatch(10, 19)]) == [(0, 9, 1), (20, 29, 1)]
    assert [state[2] for state in driver.states()] == ["ACQUIRED", "ARCHIVED", "ACQUIRED"]


def test_any_number_of_aborted_records_can_be_passed() -> None:
    """Kafka's share-partition stops when as many records as may be in flight are aborted."""
    driver = Driver(settings=SETTINGS._replace(partition_max_record_locks=20))
    for base in range(0, 100, 20):
        assert driver.acquire(count=2, aborted=[FetchedBatch(base, base + 9), FetchedBatch(base + 10, base + 19)]) == []
    assert driver.partition.start_offset == 100


def test_a_start_offset_within_an_aborted_batch_is_passed() -> None:
    driver = Driver(start_offset=5)
    assert driver.acquire(count=2, aborted=[FetchedBatch(0, 9)]) == [(10, 19, 1)]


# --- loading


def test_a_new_leader_continues_where_the_persister_left_off() -> None:
    driver = Driver(10, [StateBatch(10, 14, 2, 1), StateBatch(15, 19, 0, 2), StateBatch(20, 24, 4, 1)])
    assert driver.partition.start_offset == 15
    assert driver.partition.delivery_complete_count == 5
    assert driver.acquire() == [(15, 19, 3)]
    driver.acknowledge(15, 19, ACCEPT)
    assert driver.partition.start_offset == 25


def test_offsets_that_the_persister_does_not_know_are_fetched_again() -> None:
    driver = Driver(10, [StateBatch(20, 29, 2, 1), StateBatch(40, 49, 2, 1)])
    assert driver.partition.next_fetch_offset() == 10
    assert driver.acquire(count=2) == [(10, 19, 1)]
    assert driver.partition.next_fetch_offset() == 30
    assert driver.acquire() == [(30, 39, 1)]
    assert driver.acquire() == [(50, 59, 1)]


def test_records_that_were_acquired_when_the_leader_changed_are_available() -> None:
    assert Driver(0, [StateBatch(0, 9, 1, 1)]).acquire() == [(0, 9, 2)]


@pytest.mark.parametrize(
    "batches",
    [
        [StateBatch(5, 9, 0, 1)],
        [StateBatch(12, 11, 0, 1)],
        [StateBatch(10, 15, 0, 1), StateBatch(15, 19, 0, 1)],
        [StateBatch(10, 15, 3, 1)],
    ],
    ids=["before the start", "ends before it begins", "overlap", "unknown state"],
)
def test_a_contradictory_state_is_refused(batches: list[StateBatch]) -> None:
    with pytest.raises(InvalidState):
        Driver(10, batches)
