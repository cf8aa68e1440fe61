"""What a follower requests from a leader, and how it handles each response."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from barnabas.storage.errors import StorageError
from tests.unit.broker.replication.follower import (
    FETCH_VERSION,
    MemoryReplica,
    answer,
    data,
    fetch,
    forgotten,
    new_fetcher,
    requested_partitions,
    response,
)

# --- requests


def test_a_fetch_contains_the_replica_state_and_the_offsets_of_its_logs() -> None:
    fetcher = new_fetcher()
    fetcher.follow(MemoryReplica(0, [3, 3, 4], start=10), 5)
    request = fetch(fetcher)
    assert request.replica_state is not None
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (2, 41)
    assert (request.replica_id, request.max_wait_ms, request.min_bytes) == (-1, 500, 1)
    assert requested_partitions(request) == {0: (13, 5, 4, 10)}


def test_a_leader_without_replica_state_receives_only_the_replica_id() -> None:
    fetcher = new_fetcher()
    fetcher.follow(MemoryReplica(), 5)
    request = fetcher.next_request(0, fetch_version=14)
    assert isinstance(request, FetchRequest)
    assert (request.replica_state, request.replica_id) == (None, 2)


def test_later_fetches_name_only_changed_partitions() -> None:
    fetcher = new_fetcher()
    for partition in range(1000):
        fetcher.follow(MemoryReplica(partition), 0)
    first = fetch(fetcher)
    assert (first.session_id, first.session_epoch, len(requested_partitions(first))) == (0, 0, 1000)
    answer(fetcher, first, response(*(data(partition) for partition in range(1000))))
    quiet = fetch(fetcher)
    assert (quiet.session_id, quiet.session_epoch, quiet.topics, quiet.forgotten_topics_data) == (9, 1, [], [])
    answer(fetcher, quiet, response(data(7, [0, 0], high_watermark=1)))
    assert requested_partitions(fetch(fetcher)) == {7: (2, 0, 0, 0)}


def test_stopped_partitions_are_forgotten_and_followed_ones_are_added() -> None:
    fetcher = new_fetcher()
    for partition in range(3):
        fetcher.follow(MemoryReplica(partition), 0)
    answer(fetcher, fetch(fetcher), response(data(0), data(1), data(2)))
    fetcher.stop(MemoryReplica(1).topic_partition)
    fetcher.stop(MemoryReplica(2).topic_partition)
    fetcher.follow(MemoryReplica(2), 1)
    fetcher.follow(MemoryReplica(3), 1)
    request = fetch(fetcher)
    assert forgotten(request) == [1]
    assert requested_partitions(request) == {2: (0, 1, -1, 0), 3: (0, 1, -1, 0)}


def test_following_in_the_same_epoch_again_changes_nothing() -> None:
    fetcher = new_fetcher()
    fetcher.follow(MemoryReplica(), 3)
    answer(fetcher, fetch(fetcher), response(data()))
    fetcher.follow(MemoryReplica(), 3)
    assert requested_partitions(fetch(fetcher)) == {}


def test_a_recreated_topic_replaces_the_old_one_of_its_name() -> None:
    fetcher = new_fetcher()
    old, new = MemoryReplica(), MemoryReplica(topic_id=MemoryReplica().topic_id.from_int(78))
    fetcher.follow(old, 0)
    answer(fetcher, fetch(fetcher), response(data()))
    fetcher.follow(new, 0)
    request = fetch(fetcher)
    assert [topic.topic_id for topic in request.topics] == [new.topic_id]
    assert [topic.topic_id for topic in request.forgotten_topics_data] == [old.topic_id]


# --- data


def test_records_are_appended_and_the_leaders_offsets_followed() -> None:
    fetcher, replica = new_fetcher(), MemoryReplica(0, [1])
    fetcher.follow(replica, 2)
    written = answer(fetcher, fetch(fetcher), response(data(0, [1, 2, 2], high_watermark=2, start=1)))
    assert (written, replica.log_end_offset, replica.high_watermark, replica.log_start_offset) == (5, 4, 2, 1)
    assert requested_partitions(fetch(fetcher)) == {0: (4, 2, 2, 1)}


def test_the_high_watermark_never_exceeds_the_own_log_end() -> None:
    fetcher, replica = new_fetcher(), MemoryReplica()
    fetcher.follow(replica, 2)
    answer(fetcher, fetch(fetcher), response(data(0, [2], high_watermark=50)))
    assert replica.high_watermark == 1
    partition = fetcher.partitions.get(replica.topic_partition)
    assert partition is not None
    assert partition.lag == 49


def test_a_response_for_an_earlier_offset_or_epoch_is_ignored() -> None:
    fetcher, old, new = new_fetcher(), MemoryReplica(), MemoryReplica()
    fetcher.follow(old, 2)
    request = fetch(fetcher)
    fetcher.follow(new, 3)
    assert answer(fetcher, request, response(data(0, [2]), data(5, [2]))) == 0
    assert old.epochs == new.epochs == []
    assert requested_partitions(fetch(fetcher)) == {0: (0, 3, -1, 0)}


def test_nothing_is_written_after_stop() -> None:
    fetcher, replica = new_fetcher(), MemoryReplica()
    fetcher.follow(replica, 2)
    request = fetch(fetcher)
    fetcher.stop(replica.topic_partition)
    answer(fetcher, request, response(data(0, [2])))
    assert replica.epochs == []
    assert fetcher.is_empty
    assert fetcher.wakeup_ms() is None


# --- divergence


@pytest.fixture
def truncations(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Return the truncations that the node's log reports, each with offsets and reason."""
    caplog.set_level(logging.INFO)
    return lambda: [record.getMessage() for record in caplog.records if "is truncated" in record.getMessage()]


def test_a_diverging_log_is_truncated_at_the_leaders_epoch_end(truncations: Callable[[], list[str]]) -> None:
    fetcher, replica = new_fetcher(), MemoryReplica(0, [1, 1, 1, 1])
    fetcher.follow(replica, 5)
    answer(fetcher, fetch(fetcher), response(data(0, diverging=(1, 2))))
    assert replica.epochs == [1, 1]
    assert truncations() == ["t-0 is truncated from offset 4 to 2: its leader's epoch 1 ends at 2"]
    assert requested_partitions(fetch(fetcher)) == {0: (2, 5, 1, 0)}


def test_a_truncation_below_the_high_watermark_is_logged_as_such(truncations: Callable[[], list[str]]) -> None:
    fetcher, replica = new_fetcher(), MemoryReplica(0, [1, 1, 1, 1])
    replica.high_watermark = 3
    fetcher.follow(replica, 5)
    answer(fetcher, fetch(fetcher), response(data(0, diverging=(1, 2))))
    assert truncations() == [
        "t-0 is truncated from offset 4 to 2, below its high watermark 3: its leader's epoch 1 ends at 2; "
        "its leader was elected uncleanly"
    ]


def test_an_epoch_that_only_the_leader_knows_is_approached_step_by_step() -> None:
    fetcher, replica = new_fetcher(), MemoryReplica(0, [1, 1, 4, 4])
    fetcher.follow(replica, 5)
    answer(fetcher, fetch(fetcher), response(data(0, diverging=(3, 7))))
    assert replica.epochs == [1, 1]  # Epoch 3 is unknown here: both may agree up to the end of epoch 1.
    assert requested_partitions(fetch(fetcher)) == {0: (2, 5, 1, 0)}


def test_a_log_without_epochs_is_truncated_to_its_high_watermark_first(truncations: Callable[[], list[str]]) -> None:
    class Old(MemoryReplica):
        latest_epoch = -1

    replica = Old(0, [0, 0, 0])
    replica.high_watermark = 1
    fetcher = new_fetcher()
    fetcher.follow(replica, 2)
    assert replica.log_end_offset == 1
    assert truncations() == [
        "t-0 is truncated from offset 3 to 1: without leader epochs it cannot be compared with its leader"
    ]
    assert requested_partitions(fetch(fetcher)) == {0: (1, 2, -1, 0)}


# --- out of range


def _located(timestamp_offset: int, error: ErrorCode = ErrorCode.NONE) -> ListOffsetsResponse:
    partition = ListOffsetsPartitionResponse(partition_index=0, offset=timestamp_offset, error_code=error)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[partition])])


def _list_offsets(fetcher: object, now_ms: int = 0) -> ListOffsetsRequest:
    request = fetcher.next_request(now_ms, fetch_version=FETCH_VERSION)  # type: ignore[attr-defined]
    assert isinstance(request, ListOffsetsRequest)
    return request


def test_a_log_longer_than_its_leaders_is_truncated_at_the_leaders_end(truncations: Callable[[], list[str]]) -> None:
    fetcher, replica = new_fetcher(), MemoryReplica(0, [1] * 10)
    fetcher.follow(replica, 5)
    answer(fetcher, fetch(fetcher), response(data(error=ErrorCode.OFFSET_OUT_OF_RANGE)))
    request = _list_offsets(fetcher)
    partition = request.topics[0].partitions[0]
    assert (request.replica_id, partition.timestamp, partition.current_leader_epoch) == (2, -1, 5)
    answer(fetcher, request, _located(4))
    assert replica.log_end_offset == 4
    assert truncations() == ["t-0 is truncated from offset 10 to 4: its leader's log ends there"]
    assert requested_partitions(fetch(fetcher)) == {0: (4, 5, 1, 0)}


def test_a_log_that_ends_before_its_leaders_start_restarts_there() -> None:
    fetcher, replica = new_fetcher(), MemoryReplica(0, [1] * 10)
    fetcher.follow(replica, 5)
    answer(fetcher, fetch(fetcher), response(data(error=ErrorCode.OFFSET_OUT_OF_RANGE)))
    answer(fetcher, _list_offsets(fetcher), _located(900))
    request = _list_offsets(fetcher)
    assert request.topics[0].partitions[0].timestamp == -2
    answer(fetcher, request, _located(600))
    assert (replica.log_start_offset, replica.log_end_offset) == (600, 600)
    assert requested_partitions(fetch(fetcher)) == {0: (600, 5, -1, 600)}


def test_an_offset_that_is_in_range_after_all_is_fetched_again_later() -> None:
    fetcher = new_fetcher()
    fetcher.follow(MemoryReplica(0, [1] * 10), 5)
    answer(fetcher, fetch(fetcher), response(data(error=ErrorCode.OFFSET_OUT_OF_RANGE)))
    answer(fetcher, _list_offsets(fetcher), _located(900))
    answer(fetcher, _list_offsets(fetcher), _located(0))
    assert fetcher.next_request(999, fetch_version=FETCH_VERSION) is None
    assert requested_partitions(fetch(fetcher, 1000)) == {0: (10, 5, 1, 0)}


@pytest.mark.parametrize(
    ("error", "goes_on"), [(ErrorCode.FENCED_LEADER_EPOCH, False), (ErrorCode.NOT_LEADER_OR_FOLLOWER, True)]
)
def test_failed_offset_requests_are_retried_unless_the_leader_epoch_is_fenced(error: ErrorCode, goes_on: bool) -> None:
    fetcher = new_fetcher()
    fetcher.follow(MemoryReplica(), 5)
    answer(fetcher, fetch(fetcher), response(data(error=ErrorCode.OFFSET_OUT_OF_RANGE)))
    answer(fetcher, _list_offsets(fetcher), _located(-1, error))
    assert (fetcher.wakeup_ms() is not None) is goes_on


# --- errors


@pytest.mark.parametrize(
    ("error", "delay_ms"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, 50),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, 50),
        (ErrorCode.UNKNOWN_TOPIC_ID, 50),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 50),
        (ErrorCode.INCONSISTENT_TOPIC_ID, 1000),
        (ErrorCode.CORRUPT_MESSAGE, 1000),
        (ErrorCode.UNKNOWN_SERVER_ERROR, 1000),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, 1000),
    ],
)
def test_a_partition_with_an_error_is_paused(error: ErrorCode, delay_ms: int) -> None:
    fetcher = new_fetcher()
    fetcher.follow(MemoryReplica(0), 5)
    fetcher.follow(MemoryReplica(1), 5)
    answer(fetcher, fetch(fetcher), response(data(0, error=error), data(1)))
    meanwhile = fetch(fetcher, 1)
    assert (forgotten(meanwhile), requested_partitions(meanwhile)) == ([0], {})
    assert meanwhile.max_wait_ms == min(500, delay_ms - 1)  # Prevents it from being late.
    answer(fetcher, meanwhile, response())
    assert requested_partitions(fetch(fetcher, delay_ms)) == {0: (0, 5, -1, 0)}


def test_repeated_errors_pause_a_partition_for_longer() -> None:
    fetcher = new_fetcher()
    fetcher.follow(MemoryReplica(), 5)
    now_ms, delays = 0, []
    for _ in range(7):
        answer(fetcher, fetch(fetcher, now_ms), response(data(error=ErrorCode.UNKNOWN_LEADER_EPOCH)), now_ms)
        due_ms = fetcher.wakeup_ms()
        assert due_ms is not None
        delays.append(due_ms - now_ms)
        now_ms = due_ms
    assert delays == [50, 100, 200, 400, 800, 1000, 1000]


def test_a_fenced_partition_waits_for_another_epoch() -> None:
    fetcher, replica = new_fetcher(), MemoryReplica()
    fetcher.follow(replica, 5)
    answer(fetcher, fetch(fetcher), response(data(error=ErrorCode.FENCED_LEADER_EPOCH)))
    assert fetcher.failed == {replica.topic_partition: 5}
    fetcher.follow(replica, 5)
    assert fetcher.is_empty
    fetcher.follow(replica, 6)
    assert fetcher.failed == {}
    assert requested_partitions(fetch(fetcher)) == {0: (0, 6, -1, 0)}


@pytest.mark.parametrize("error", [OSError("no space"), StorageError("no space")])
def test_a_log_that_cannot_be_written_is_given_up_and_the_others_continue(error: Exception) -> None:
    fetcher, bad, good = new_fetcher(), MemoryReplica(0), MemoryReplica(1)
    bad.fails_with = error
    fetcher.follow(bad, 5)
    fetcher.follow(good, 5)
    answer(fetcher, fetch(fetcher), response(data(0, [5]), data(1, [5])))
    assert good.epochs == [5]
    assert fetcher.failed == {bad.topic_partition: 5}


@pytest.mark.parametrize("is_damaged", [True, False])
def test_damaged_records_and_partial_batches_are_fetched_again_later(is_damaged: bool) -> None:
    fetcher, replica = new_fetcher(), MemoryReplica()
    fetcher.follow(replica, 5)
    came = data(0, [5])
    if is_damaged:
        replica.fails_with = ApiException(ErrorCode.CORRUPT_MESSAGE)
    else:
        came.records = b"   "
    answer(fetcher, fetch(fetcher), response(came))
    replica.fails_with = None
    assert fetcher.next_request(999, fetch_version=FETCH_VERSION) is None
    assert requested_partitions(fetch(fetcher, 1000)) == {0: (0, 5, -1, 0)}


# --- the session and the connection


def test_a_lost_response_restarts_the_session_after_a_growing_pause() -> None:
    fetcher = new_fetcher()
    fetcher.follow(MemoryReplica(), 5)
    answer(fetcher, fetch(fetcher), response(data()))
    fetch(fetcher)
    pauses = []
    for _ in range(6):
        fetcher.lost(0)
        pauses.append(fetcher.wakeup_ms())
    assert pauses == [50, 100, 200, 400, 800, 1000]
    assert fetcher.next_request(999, fetch_version=FETCH_VERSION) is None
    request = fetch(fetcher, 1000)
    assert (request.session_id, request.session_epoch) == (9, 0)  # The leader closes its sessions with this follower.
    assert requested_partitions(request) == {0: (0, 5, -1, 0)}


def test_a_change_of_the_leader_ends_the_pause() -> None:
    fetcher = new_fetcher()
    fetcher.follow(MemoryReplica(0), 5)
    fetcher.lost(0)
    fetcher.follow(MemoryReplica(1), 5)
    assert set(requested_partitions(fetch(fetcher))) == {0, 1}


@pytest.mark.parametrize(
    ("error", "session_id"),
    [(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0), (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 9)],
)
def test_a_session_that_the_leader_has_dropped_is_replaced_immediately(error: ErrorCode, session_id: int) -> None:
    fetcher = new_fetcher()
    fetcher.follow(MemoryReplica(), 5)
    answer(fetcher, fetch(fetcher), response(data()))
    answer(fetcher, fetch(fetcher), FetchResponse(error_code=error))
    request = fetch(fetcher)
    assert (request.session_id, request.session_epoch) == (session_id, 0)
    answer(fetcher, request, FetchResponse(error_code=error))  # An invalid session epoch: open a new session.
    assert fetcher.wakeup_ms() == 50


def test_without_a_session_every_fetch_names_all_partitions() -> None:
    fetcher = new_fetcher()
    for partition in range(3):
        fetcher.follow(MemoryReplica(partition), 5)
    answer(fetcher, fetch(fetcher), response(data(0, [5]), data(1), data(2), session_id=0))
    request = fetch(fetcher)
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert list(requested_partitions(request)) == [1, 2, 0]  # A partition that returned data comes last.


def test_a_throttled_follower_waits_for_the_throttle_time() -> None:
    fetcher = new_fetcher()
    fetcher.follow(MemoryReplica(), 5)
    throttled = response(data())
    throttled.throttle_time_ms = 300
    answer(fetcher, fetch(fetcher), throttled)
    assert fetcher.wakeup_ms() == 300
    assert fetcher.next_request(299, fetch_version=FETCH_VERSION) is None


def test_a_divergence_that_truncates_nothing_is_retried_only_after_a_pause() -> None:
    fetcher, replica = new_fetcher(), MemoryReplica(0, [1, 1])
    fetcher.follow(replica, 5)
    answer(fetcher, fetch(fetcher), response(data(0, diverging=(1, 2))))
    assert replica.epochs == [1, 1]
    assert fetcher.wakeup_ms() == 1000


def test_a_partition_that_is_stopped_while_its_disk_fails_stays_stopped() -> None:
    fetcher = new_fetcher()

    class Failing(MemoryReplica):
        def append(self, records: object, leader_epoch: int) -> int:
            fetcher.stop(self.topic_partition)  # Its directory is taken out of use.
            raise OSError("input/output error")

    fetcher.follow(Failing(), 5)
    answer(fetcher, fetch(fetcher), response(data(0, [5])))
    assert (fetcher.is_empty, fetcher.failed) == (True, {})


def test_the_request_timeout_grows_with_each_unanswered_request() -> None:
    fetcher = new_fetcher()
    fetcher.follow(MemoryReplica(), 5)
    limits = []
    for _ in range(6):
        limits.append(fetcher.silence_limit_ms)
        fetcher.lost(0)
    assert limits == [2500, 5000, 10_000, 20_000, 30_000, 30_000]
    assert fetcher.connect_limit_ms == 2500, "a connection is ready immediately or never"
    answer(fetcher, fetch(fetcher, 60_000), response(data()))
    assert fetcher.silence_limit_ms == 2500
