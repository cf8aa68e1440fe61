"""The state of share-partitions: epochs, snapshots and updates, commits, time, loading."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.coordinator.coordinator_loader import CoordinatorLoader
from barnabas.coordinator.deferred import Deferred
from barnabas.coordinator.share.persister import (
    SUCCESS,
    SharePartitionKey,
    SharePartitionState,
    SharePartitionSummary,
    StateBatch,
    StateOutcome,
)
from barnabas.coordinator.share.share_coordinator_config import ShareCoordinatorConfig
from barnabas.protocol.compression import Compression
from barnabas.protocol.record_batch import iter_batches
from barnabas.protocol.records.share_snapshot_value import ShareSnapshotValue
from barnabas.protocol.records.share_update_value import ShareUpdateValue
from tests.unit.coordinator.share_driver import (
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    INTERVAL_MS,
    KEY,
    OTHER_KEY,
    OTHER_TOPIC,
    TOPIC,
    ShareDriver,
)

FIRST = StateBatch(0, 9, AVAILABLE, 1)
SECOND = StateBatch(10, 14, ACKNOWLEDGED, 1)


@pytest.fixture
def driver() -> ShareDriver:
    return ShareDriver().load()


def code(outcome: StateOutcome | SharePartitionState | SharePartitionSummary) -> ErrorCode:
    assert (outcome.error_message is None) == (outcome.error_code == 0), "an error is explained"
    return ErrorCode(outcome.error_code)


# --- states


def test_a_leader_reads_what_it_wrote(driver: ShareDriver) -> None:
    assert driver.initialize(start_offset=5) == SUCCESS
    assert driver.write(StateBatch(5, 9, ACKNOWLEDGED, 1), start_offset=5, count=5) == SUCCESS
    assert driver.read() == SharePartitionState(0, None, 1, 5, (StateBatch(5, 9, ACKNOWLEDGED, 1),))
    assert driver.summary() == SharePartitionSummary(0, None, 1, 0, 5, 5)


def test_a_write_without_a_start_offset_keeps_it_and_a_later_one_drops_batches(driver: ShareDriver) -> None:
    driver.initialize(start_offset=0)
    driver.write(FIRST, SECOND)
    assert driver.read().start_offset == 0
    driver.write(start_offset=12)
    assert driver.read() == SharePartitionState(0, None, 1, 12, (StateBatch(12, 14, ACKNOWLEDGED, 1),))


def test_the_start_offset_may_be_unknown(driver: ShareDriver) -> None:
    driver.initialize(start_offset=-1)
    assert driver.summary() == SharePartitionSummary(0, None, 1, 0, -1, -1)
    driver.initialize(start_offset=0)
    assert driver.summary() == SharePartitionSummary(0, None, 1, 0, 0, 0)


def test_state_is_needed_to_read_and_write_it(driver: ShareDriver) -> None:
    assert code(driver.read()) is ErrorCode.INVALID_REQUEST
    assert code(driver.write(FIRST)) is ErrorCode.INVALID_REQUEST
    assert driver.summary() == SharePartitionSummary(0, None, 0, 0, -1, -1)
    assert driver.delete() == SUCCESS
    assert driver.kinds() == ""


def test_deleted_state_begins_anew(driver: ShareDriver) -> None:
    driver.initialize(state_epoch=5)
    driver.read(leader_epoch=9)
    driver.write(FIRST, state_epoch=5)
    assert driver.delete() == SUCCESS
    assert code(driver.read()) is ErrorCode.INVALID_REQUEST
    assert driver.initialize(state_epoch=0) == SUCCESS, "no epoch is remembered"
    assert driver.read(leader_epoch=0).batches == ()
    assert driver.kinds() == "suuts"


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (KEY._replace(partition=-1), ErrorCode.INVALID_REQUEST),
        (KEY._replace(partition=2), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (KEY._replace(topic_id=Uuid.from_int(77)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_the_partition_must_exist(driver: ShareDriver, key: SharePartitionKey, expected: ErrorCode) -> None:
    assert code(driver.initialize(key)) is expected
    assert code(driver.summary(key)) is expected
    assert code(driver.delete(key)) is expected
    assert code(driver.read(key)) is ErrorCode.INVALID_REQUEST, "that it has no state comes first"
    assert code(driver.write(key=key)) is ErrorCode.INVALID_REQUEST


def test_state_of_a_deleted_topic_cannot_be_used(driver: ShareDriver) -> None:
    driver.initialize()
    del driver.partition_counts[TOPIC]
    assert code(driver.read()) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code(driver.write(FIRST)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_batch_that_ends_before_it_begins_is_refused(driver: ShareDriver) -> None:
    driver.initialize()
    assert code(driver.write(StateBatch(5, 3, AVAILABLE, 1))) is ErrorCode.INVALID_REQUEST


# --- epochs


def test_a_leader_that_was_replaced_is_refused(driver: ShareDriver) -> None:
    driver.initialize()
    assert driver.read(leader_epoch=3).error_code == 0
    assert driver.read(leader_epoch=3).error_code == 0, "its answer was lost"
    assert code(driver.read(leader_epoch=2)) is ErrorCode.FENCED_LEADER_EPOCH
    assert code(driver.write(FIRST, leader_epoch=2)) is ErrorCode.FENCED_LEADER_EPOCH
    assert driver.write(FIRST, leader_epoch=3) == SUCCESS
    assert driver.kinds() == "suu", "only the first read of a leader is stored"


def test_a_write_of_a_later_leader_does_not_store_its_epoch(driver: ShareDriver) -> None:
    driver.initialize()
    driver.read(leader_epoch=3)
    assert driver.write(FIRST, leader_epoch=9) == SUCCESS
    assert driver.summary().leader_epoch == 3
    assert driver.write(FIRST, leader_epoch=4) == SUCCESS


def test_an_earlier_initialization_is_refused(driver: ShareDriver) -> None:
    driver.initialize(state_epoch=4)
    assert code(driver.initialize(state_epoch=3)) is ErrorCode.FENCED_STATE_EPOCH
    assert code(driver.write(FIRST, state_epoch=3)) is ErrorCode.FENCED_STATE_EPOCH
    assert driver.initialize(state_epoch=4) == SUCCESS
    assert driver.initialize(state_epoch=-1) == SUCCESS, "it is not compared"


def test_another_initialization_remembers_the_leader(driver: ShareDriver) -> None:
    driver.initialize()
    driver.read(leader_epoch=3)
    driver.initialize(state_epoch=2)
    assert driver.summary().leader_epoch == 0
    assert code(driver.read(leader_epoch=2)) is ErrorCode.FENCED_LEADER_EPOCH


def test_epochs_are_not_compared_before_it_is_known_that_state_exists(driver: ShareDriver) -> None:
    driver.initialize(state_epoch=4)
    driver.read(leader_epoch=4)
    assert code(driver.write(leader_epoch=3, state_epoch=3)) is ErrorCode.FENCED_LEADER_EPOCH, "the leader comes first"


# --- snapshots and updates


def test_a_snapshot_follows_a_number_of_updates() -> None:
    driver = ShareDriver(updates_per_snapshot=2).load()
    driver.initialize()
    for number in range(6):
        driver.write(StateBatch(number, number, ACKNOWLEDGED, 1), count=number)
    assert driver.kinds() == "suusuus"
    snapshots = [value for value in driver.values() if isinstance(value, ShareSnapshotValue)]
    assert [value.snapshot_epoch for value in snapshots] == [0, 1, 2]
    assert [value.delivery_complete_count for value in snapshots] == [0, 2, 5]
    assert [(batch.first_offset, batch.last_offset) for batch in snapshots[-1].state_batches] == [(0, 5)]
    updates = [value for value in driver.values() if isinstance(value, ShareUpdateValue)]
    assert [value.snapshot_epoch for value in updates] == [0, 0, 1, 1]


def test_without_updates_each_write_is_a_snapshot() -> None:
    driver = ShareDriver(updates_per_snapshot=0).load()
    driver.initialize()
    driver.write(FIRST)
    driver.read(leader_epoch=1)
    assert driver.kinds() == "sss"
    assert driver.read() == SharePartitionState(0, None, 1, 0, (FIRST,))


def test_an_initialization_does_not_postpone_the_next_snapshot() -> None:
    driver = ShareDriver(updates_per_snapshot=2).load()
    driver.initialize()
    driver.write(FIRST)
    driver.initialize()
    driver.write(FIRST)
    driver.write(FIRST)
    assert driver.kinds() == "susus"


def test_an_update_has_the_written_batches_and_a_snapshot_all() -> None:
    driver = ShareDriver(updates_per_snapshot=1).load()
    driver.initialize(start_offset=0)
    driver.write(SECOND, FIRST, start_offset=3, count=5)
    driver.write(StateBatch(20, 20, ARCHIVED, 1), count=6)
    _, update, snapshot = driver.values()
    assert isinstance(update, ShareUpdateValue)
    assert isinstance(snapshot, ShareSnapshotValue)
    assert [(batch.first_offset, batch.last_offset) for batch in update.state_batches] == [(3, 9), (10, 14)]
    assert (update.start_offset, update.leader_epoch) == (3, 0)
    assert [batch.first_offset for batch in snapshot.state_batches] == [3, 10, 20]
    assert (snapshot.start_offset, snapshot.create_timestamp, snapshot.write_timestamp) == (3, 1_000_000, 1_000_000)


# --- commits


def test_an_answer_waits_for_the_commit(driver: ShareDriver) -> None:
    driver.topic.auto_commit = False
    answer = driver.begin_initialize()
    assert not answer.is_complete
    driver.topic.commit(0)
    assert answer.value == SUCCESS


def test_decisions_see_writes_that_are_not_committed_yet() -> None:
    """Otherwise a snapshot would undo the updates before it."""
    driver = ShareDriver(updates_per_snapshot=1).load()
    driver.topic.auto_commit = False
    answers = [driver.begin_initialize(), driver.begin_write(FIRST), driver.begin_write(SECOND)]
    driver.topic.commit(0)
    assert [answer.value for answer in answers] == [SUCCESS] * 3
    assert driver.kinds() == "sus"
    assert driver.read().batches == (FIRST, SECOND)


def test_a_read_waits_for_the_writes_that_it_shows(driver: ShareDriver) -> None:
    driver.initialize()
    driver.topic.auto_commit = False
    driver.begin_write(FIRST)
    same_leader, new_leader = driver.begin_read(), driver.begin_read(leader_epoch=4)
    assert not same_leader.is_complete
    assert not new_leader.is_complete
    driver.topic.commit(0)
    assert same_leader.value.batches == new_leader.value.batches == (FIRST,)


def test_a_read_does_not_wait_for_writes_of_others(driver: ShareDriver) -> None:
    driver.initialize()
    driver.initialize(OTHER_KEY)
    driver.topic.auto_commit = False
    driver.begin_write(FIRST)
    assert driver.read(OTHER_KEY).error_code == 0


@pytest.mark.parametrize(
    ("refused", "answered"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_write_that_the_log_refuses_leaves_no_trace(
    driver: ShareDriver, refused: ErrorCode, answered: ErrorCode
) -> None:
    driver.initialize()
    driver.topic.refuse_with = refused
    assert code(driver.write(FIRST)) is answered
    assert code(driver.read(leader_epoch=7)) is answered
    driver.topic.refuse_with = None
    assert driver.read(leader_epoch=1).batches == ()


def test_a_write_that_commits_after_its_time_out_takes_effect(driver: ShareDriver) -> None:
    driver.initialize()
    driver.topic.auto_commit = False
    late = driver.begin_write(FIRST)
    waiting = driver.begin_read()
    driver.advance(5_000)
    assert code(late.value) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert code(waiting.value) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    following = driver.begin_write(SECOND)
    driver.topic.commit(0)
    assert following.value == SUCCESS
    assert driver.read().batches == (FIRST, SECOND)


def test_waiting_callers_search_for_another_coordinator_when_the_partition_moves(driver: ShareDriver) -> None:
    driver.initialize()
    driver.topic.auto_commit = False
    answers: list[Deferred[Any]] = [driver.begin_write(FIRST), driver.begin_read()]
    driver.coordinator.runtime.unload(0, driver.now_ms)
    assert [code(answer.value) for answer in answers] == [ErrorCode.NOT_COORDINATOR] * 2
    assert code(driver.write(FIRST)) is ErrorCode.NOT_COORDINATOR


def test_a_stopped_coordinator_is_not_available(driver: ShareDriver) -> None:
    driver.coordinator.stop(driver.now_ms)
    assert code(driver.initialize()) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert code(driver.read()) is ErrorCode.COORDINATOR_NOT_AVAILABLE


# --- loading


def test_a_new_coordinator_has_the_state_of_its_predecessor() -> None:
    driver = ShareDriver(updates_per_snapshot=3).load()
    driver.initialize(state_epoch=6)
    driver.read(leader_epoch=2)
    for number in range(8):
        driver.write(StateBatch(number * 2, number * 2, ACKNOWLEDGED, 1), state_epoch=6, count=number)
    driver.initialize(OTHER_KEY)
    driver.delete(OTHER_KEY)
    successor = driver.restarted()
    assert (successor.read(), successor.summary()) == (driver.read(), driver.summary())
    assert code(successor.read(OTHER_KEY)) is ErrorCode.INVALID_REQUEST
    assert code(successor.read(leader_epoch=1)) is ErrorCode.FENCED_LEADER_EPOCH
    assert code(successor.initialize(state_epoch=5)) is ErrorCode.FENCED_STATE_EPOCH
    written = driver.kinds()
    successor.write(FIRST, state_epoch=6)
    assert successor.kinds() == written + "u", "the updates before count for the next snapshot, and only those"


def test_a_long_log_is_loaded_in_steps_between_which_others_are_served(driver: ShareDriver) -> None:
    driver.initialize()
    for number in range(1_200):
        driver.write(StateBatch(number, number, ACKNOWLEDGED, 1))
    successor = ShareDriver(driver.config, driver.topic)
    shard = successor.coordinator.runtime.start_loading(0, 7, successor.now_ms)
    assert shard is not None
    loader = CoordinatorLoader(successor.coordinator.runtime, 0, shard, driver.topic.log(0))
    read = []
    while not loader.step(successor.now_ms):
        read.append(loader.record_count)
        assert code(successor.read()) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert read == [292, 584, 876, 1_168, 1_201]
    assert successor.read() == driver.read()


def test_records_are_compressed_as_configured() -> None:
    config = ShareCoordinatorConfig(
        share_coordinator_state_topic_num_partitions=1,
        share_coordinator_state_topic_compression_codec=Compression.GZIP,
    )
    driver = ShareDriver(config).load()
    driver.initialize()
    ((_, _, batch),) = driver.topic.log(0).batches
    (view,) = iter_batches(batch)
    assert view.compression is Compression.GZIP
    assert driver.restarted().summary().error_code == 0


# --- time


def test_a_cold_share_partition_is_written_again(driver: ShareDriver) -> None:
    driver.initialize()
    driver.write(FIRST)
    driver.advance(INTERVAL_MS)
    assert driver.kinds() == "sus"
    snapshot = driver.values()[-1]
    assert isinstance(snapshot, ShareSnapshotValue)
    assert (snapshot.create_timestamp, snapshot.write_timestamp) == (1_000_000, 1_000_000 + INTERVAL_MS)
    assert (snapshot.snapshot_epoch, len(snapshot.state_batches)) == (1, 1)
    driver.advance(INTERVAL_MS)
    assert driver.kinds() == "sus", "nothing was written since"


def test_as_long_as_one_share_partition_is_written_the_cold_ones_are_repeated(driver: ShareDriver) -> None:
    """The log can only be pruned up to the oldest snapshot."""
    driver.initialize()
    driver.advance(INTERVAL_MS)
    driver.initialize(OTHER_KEY)
    driver.advance(INTERVAL_MS)
    assert driver.kinds() == "ssss" + "s"
    driver.advance(INTERVAL_MS)
    assert driver.kinds() == "sssss"


def test_a_share_partition_with_a_young_snapshot_is_not_repeated(driver: ShareDriver) -> None:
    driver.advance(INTERVAL_MS - 10)
    driver.initialize()
    driver.advance(10)
    assert driver.kinds() == "s"


def test_many_cold_share_partitions_are_written_in_steps() -> None:
    driver = ShareDriver().load()
    driver.partition_counts[TOPIC] = 1_200
    for partition in range(1_200):
        driver.initialize(KEY._replace(partition=partition))
    driver.now_ms += INTERVAL_MS
    counts = []
    for _ in range(3):
        driver.advance(1)
        counts.append(len(driver.kinds()) - 1_200)
    assert counts == [500, 1_000, 1_200]


def test_obsolete_records_are_deleted(driver: ShareDriver) -> None:
    driver.initialize()
    driver.write(FIRST)
    driver.advance(INTERVAL_MS)
    driver.write(SECOND)
    driver.advance(INTERVAL_MS)
    assert driver.deleted_before == [2], "the snapshot at offset 2 replaces what is before it"
    assert driver.restarted().read().batches == (FIRST, SECOND)


def test_records_that_a_share_partition_still_needs_are_kept(driver: ShareDriver) -> None:
    driver.initialize(OTHER_KEY)
    for epoch in range(5):
        driver.initialize(state_epoch=epoch)
    driver.advance(INTERVAL_MS)
    assert driver.deleted_before == [], "the first record is the only one of a share-partition"
    assert driver.kinds() == "s" * 8, "both are written again"
    driver.advance(INTERVAL_MS)
    assert driver.deleted_before == [6]


def test_a_deletion_of_records_that_failed_is_repeated(driver: ShareDriver) -> None:
    driver.initialize()
    driver.initialize()
    driver.can_delete = False
    driver.advance(INTERVAL_MS)
    driver.can_delete = True
    driver.advance(INTERVAL_MS)
    driver.advance(INTERVAL_MS)
    assert driver.deleted_before == [2]


def test_the_state_of_a_deleted_topic_is_removed(driver: ShareDriver) -> None:
    driver.initialize()
    driver.initialize(OTHER_KEY)
    del driver.partition_counts[TOPIC]
    driver.coordinator.on_topics_deleted({TOPIC}, driver.now_ms)
    driver.advance(0)
    assert driver.kinds() == "sst"
    driver.partition_counts[TOPIC] = 2
    assert code(driver.read()) is ErrorCode.INVALID_REQUEST
    assert driver.read(OTHER_KEY).error_code == 0
    driver.coordinator.on_topics_deleted({TOPIC}, driver.now_ms)
    driver.advance(0)
    assert driver.kinds() == "sst"


def test_the_state_of_many_deleted_share_partitions_is_removed_in_steps(driver: ShareDriver) -> None:
    driver.partition_counts[OTHER_TOPIC] = 1_200
    for partition in range(1_200):
        driver.initialize(OTHER_KEY._replace(partition=partition))
    driver.coordinator.on_topics_deleted({OTHER_TOPIC}, driver.now_ms)
    removed = []
    for _ in range(3):
        driver.advance(1)
        removed.append(driver.kinds().count("t"))
    assert removed == [500, 1_000, 1_200]


def test_a_removal_that_failed_is_repeated(driver: ShareDriver) -> None:
    driver.initialize()
    driver.topic.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    driver.coordinator.on_topics_deleted({TOPIC}, driver.now_ms)
    driver.advance(0)
    driver.topic.refuse_with = None
    driver.advance(1_000)
    assert driver.kinds() == "st"


def test_a_partition_that_moved_has_no_timers(driver: ShareDriver) -> None:
    driver.initialize()
    shard = driver.coordinator.runtime.shard(0)
    driver.coordinator.runtime.unload(0, driver.now_ms)
    assert shard.timers.pop_due(driver.now_ms + INTERVAL_MS) is None


# --- keys


def test_the_coordinator_of_a_share_partition_is_found_by_its_key() -> None:
    key = SharePartitionKey("my:group", TOPIC, 3)
    assert key.coordinator_key == f"my:group:{TOPIC}:3"
    assert SharePartitionKey.from_coordinator_key(key.coordinator_key) == key
    assert SharePartitionKey.from_coordinator_key(f"g:{TOPIC}:+03::") == SharePartitionKey("g", TOPIC, 3)


@pytest.mark.parametrize(
    "text",
    [
        "", ":::", "group", f"group:{TOPIC}", f"{TOPIC}:0", f" :{TOPIC}:0", "g:topic:0",
        f"g:{TOPIC}:x", f"g:{TOPIC}:1_0", f"g:{TOPIC}:2147483648", f"g:{TOPIC}: 0",
    ],
)  # fmt: skip
def test_a_key_that_is_not_one_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        SharePartitionKey.from_coordinator_key(text)
