"""What a follower asks a leader, and what it makes of each answer."""

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
    asked,
    data,
    fetch,
    forgotten,
    new_fetcher,
    response,
)

# --- what is asked


def test_a_fetch_says_who_asks_and_where_its_logs_are() -> None:
    fetcher = new_fetcher()
    fetcher.follow(MemoryReplica(0, [3, 3, 4], start=10), 5)
    request = fetch(fetcher)
    assert request.replica_state is not None
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (2, 41)
    assert (request.replica_id, request.max_wait_ms, request.min_bytes) == (-1, 500, 1)
    assert asked(request) == {0: (13, 5, 4, 10)}


def test_a_leader_that_knows_no_replica_state_gets_the_id_alone() -> None:
    fetcher = new_fetcher()
    fetcher.follow(MemoryReplica(), 5)
    request = fetcher.next_request(0, fetch_version=14)
    assert isinstance(request, FetchRequest)
    assert (request.replica_state, request.replica_id) == (None, 2)


def test_rounds_name_only_what_has_changed() -> None:
    fetcher = new_fetcher()
    for partition in range(1000):
        fetcher.follow(MemoryReplica(partition), 0)
    first = fetch(fetcher)
    assert (first.session_id, first.session_epoch, len(asked(first))) == (0, 0, 1000)
    answer(fetcher, first, response(*(data(partition) for partition in range(1000))))
    quiet = fetch(fetcher)
    assert (quiet.session_id, quiet.session_epoch, quiet.topics, quiet.forgotten_topics_data) == (9, 1, [], [])
    answer(fetcher, quiet, response(data(7, [0, 0], high_watermark=1)))
    assert asked(fetch(fetcher)) == {7: (2, 0, 0, 0)}


def test_what_is_stopped_is_forgotten_and_what_is_followed_is_added() -> None:
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
    assert asked(request) == {2: (0, 1, -1, 0), 3: (0, 1, -1, 0)}


def test_following_in_the_same_epoch_again_changes_nothing() -> None:
    fetcher = new_fetcher()
    fetcher.follow(MemoryReplica(), 3)
    answer(fetcher, fetch(fetcher), response(data()))
    fetcher.follow(MemoryReplica(), 3)
    assert asked(fetch(fetcher)) == {}


def test_a_topic_of_the_same_name_made_anew_takes_the_place_of_the_old_one() -> None:
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
    assert asked(fetch(fetcher)) == {0: (4, 2, 2, 1)}


def test_the_high_watermark_never_goes_beyond_the_own_log() -> None:
    fetcher, replica = new_fetcher(), MemoryReplica()
    fetcher.follow(replica, 2)
    answer(fetcher, fetch(fetcher), response(data(0, [2], high_watermark=50)))
    assert replica.high_watermark == 1
    partition = fetcher.partitions.get(replica.topic_partition)
    assert partition is not None
    assert partition.lag == 49


def test_an_answer_for_an_earlier_offset_or_epoch_is_left_alone() -> None:
    fetcher, old, new = new_fetcher(), MemoryReplica(), MemoryReplica()
    fetcher.follow(old, 2)
    request = fetch(fetcher)
    fetcher.follow(new, 3)
    assert answer(fetcher, request, response(data(0, [2]), data(5, [2]))) == 0
    assert old.epochs == new.epochs == []
    assert asked(fetch(fetcher)) == {0: (0, 3, -1, 0)}


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
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What the log of the node says about cuts: each of them with offsets and reason."""
    caplog.set_level(logging.INFO)
    return lambda: [record.getMessage() for record in caplog.records if "is truncated" in record.getMessage()]


def test_a_log_that_diverges_is_cut_where_the_leaders_epoch_ends(said: Callable[[], list[str]]) -> None:
    fetcher, replica = new_fetcher(), MemoryReplica(0, [1, 1, 1, 1])
    fetcher.follow(replica, 5)
    answer(fetcher, fetch(fetcher), response(data(0, diverging=(1, 2))))
    assert replica.epochs == [1, 1]
    assert said() == ["t-0 is truncated from offset 4 to 2: its leader's epoch 1 ends at 2"]
    assert asked(fetch(fetcher)) == {0: (2, 5, 1, 0)}


def test_a_cut_below_the_high_watermark_is_told_as_one(said: Callable[[], list[str]]) -> None:
    fetcher, replica = new_fetcher(), MemoryReplica(0, [1, 1, 1, 1])
    replica.high_watermark = 3
    fetcher.follow(replica, 5)
    answer(fetcher, fetch(fetcher), response(data(0, diverging=(1, 2))))
    assert said() == [
        "t-0 is truncated from offset 4 to 2, below its high watermark 3: its leader's epoch 1 ends at 2; "
        "its leader was elected uncleanly"
    ]


def test_an_epoch_that_only_the_leader_knows_is_approached_step_by_step() -> None:
    fetcher, replica = new_fetcher(), MemoryReplica(0, [1, 1, 4, 4])
    fetcher.follow(replica, 5)
    answer(fetcher, fetch(fetcher), response(data(0, diverging=(3, 7))))
    assert replica.epochs == [1, 1]  # We don't know epoch 3: both may agree up to the end of our epoch 1.
    assert asked(fetch(fetcher)) == {0: (2, 5, 1, 0)}


def test_a_log_without_epochs_is_cut_at_its_high_watermark_first(said: Callable[[], list[str]]) -> None:
    class Old(MemoryReplica):
        latest_epoch = -1

    replica = Old(0, [0, 0, 0])
    replica.high_watermark = 1
    fetcher = new_fetcher()
    fetcher.follow(replica, 2)
    assert replica.log_end_offset == 1
    assert said() == [
        "t-0 is truncated from offset 3 to 1: without leader epochs it cannot be compared with its leader"
    ]
    assert asked(fetch(fetcher)) == {0: (1, 2, -1, 0)}


# --- out of range


def _located(timestamp_offset: int, error: ErrorCode = ErrorCode.NONE) -> ListOffsetsResponse:
    partition = ListOffsetsPartitionResponse(partition_index=0, offset=timestamp_offset, error_code=error)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[partition])])


def _list_offsets(fetcher: object, now_ms: int = 0) -> ListOffsetsRequest:
    request = fetcher.next_request(now_ms, fetch_version=FETCH_VERSION)  # type: ignore[attr-defined]
    assert isinstance(request, ListOffsetsRequest)
    return request


def test_a_log_that_is_longer_than_its_leaders_is_cut_at_the_leaders_end(said: Callable[[], list[str]]) -> None:
    fetcher, replica = new_fetcher(), MemoryReplica(0, [1] * 10)
    fetcher.follow(replica, 5)
    answer(fetcher, fetch(fetcher), response(data(error=ErrorCode.OFFSET_OUT_OF_RANGE)))
    request = _list_offsets(fetcher)
    asked_for = request.topics[0].partitions[0]
    assert (request.replica_id, asked_for.timestamp, asked_for.current_leader_epoch) == (2, -1, 5)
    answer(fetcher, request, _located(4))
    assert replica.log_end_offset == 4
    assert said() == ["t-0 is truncated from offset 10 to 4: its leader's log ends there"]
    assert asked(fetch(fetcher)) == {0: (4, 5, 1, 0)}


def test_a_log_that_ends_before_its_leaders_start_begins_anew_there() -> None:
    fetcher, replica = new_fetcher(), MemoryReplica(0, [1] * 10)
    fetcher.follow(replica, 5)
    answer(fetcher, fetch(fetcher), response(data(error=ErrorCode.OFFSET_OUT_OF_RANGE)))
    answer(fetcher, _list_offsets(fetcher), _located(900))
    request = _list_offsets(fetcher)
    assert request.topics[0].partitions[0].timestamp == -2
    answer(fetcher, request, _located(600))
    assert (replica.log_start_offset, replica.log_end_offset) == (600, 600)
    assert asked(fetch(fetcher)) == {0: (600, 5, -1, 600)}


def test_an_offset_that_is_in_range_after_all_is_fetched_again_later() -> None:
    fetcher = new_fetcher()
    fetcher.follow(MemoryReplica(0, [1] * 10), 5)
    answer(fetcher, fetch(fetcher), response(data(error=ErrorCode.OFFSET_OUT_OF_RANGE)))
    answer(fetcher, _list_offsets(fetcher), _located(900))
    answer(fetcher, _list_offsets(fetcher), _located(0))
    assert fetcher.next_request(999, fetch_version=FETCH_VERSION) is None
    assert asked(fetch(fetcher, 1000)) == {0: (10, 5, 1, 0)}


@pytest.mark.parametrize(
    ("error", "goes_on"), [(ErrorCode.FENCED_LEADER_EPOCH, False), (ErrorCode.NOT_LEADER_OR_FOLLOWER, True)]
)
def test_a_leader_that_does_not_tell_its_offsets_is_asked_again(error: ErrorCode, goes_on: bool) -> None:
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
def test_a_partition_with_an_error_is_left_out_for_a_while(error: ErrorCode, delay_ms: int) -> None:
    fetcher = new_fetcher()
    fetcher.follow(MemoryReplica(0), 5)
    fetcher.follow(MemoryReplica(1), 5)
    answer(fetcher, fetch(fetcher), response(data(0, error=error), data(1)))
    meanwhile = fetch(fetcher, 1)
    assert (forgotten(meanwhile), asked(meanwhile)) == ([0], {})
    assert meanwhile.max_wait_ms == min(500, delay_ms - 1)  # So that it is not late.
    answer(fetcher, meanwhile, response())
    assert asked(fetch(fetcher, delay_ms)) == {0: (0, 5, -1, 0)}


def test_what_is_left_out_again_and_again_is_left_out_for_longer() -> None:
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
    assert asked(fetch(fetcher)) == {0: (0, 6, -1, 0)}


@pytest.mark.parametrize("error", [OSError("no space"), StorageError("no space")])
def test_a_log_that_cannot_be_written_is_given_up_and_the_others_go_on(error: Exception) -> None:
    fetcher, bad, good = new_fetcher(), MemoryReplica(0), MemoryReplica(1)
    bad.fails_with = error
    fetcher.follow(bad, 5)
    fetcher.follow(good, 5)
    answer(fetcher, fetch(fetcher), response(data(0, [5]), data(1, [5])))
    assert good.epochs == [5]
    assert fetcher.failed == {bad.topic_partition: 5}


@pytest.mark.parametrize("is_damaged", [True, False])
def test_records_that_are_damaged_or_only_a_part_of_a_batch_are_fetched_again_later(is_damaged: bool) -> None:
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
    assert asked(fetch(fetcher, 1000)) == {0: (0, 5, -1, 0)}


# --- the session and the connection


def test_a_lost_answer_begins_the_session_anew_after_a_pause_that_grows() -> None:
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
    assert (request.session_id, request.session_epoch) == (9, 0)  # The leader closes what it has of us.
    assert asked(request) == {0: (0, 5, -1, 0)}


def test_news_of_a_leader_ends_the_pause() -> None:
    fetcher = new_fetcher()
    fetcher.follow(MemoryReplica(0), 5)
    fetcher.lost(0)
    fetcher.follow(MemoryReplica(1), 5)
    assert set(asked(fetch(fetcher))) == {0, 1}


@pytest.mark.parametrize(
    ("error", "session_id"),
    [(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0), (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 9)],
)
def test_a_session_that_the_leader_has_given_up_is_replaced_at_once(error: ErrorCode, session_id: int) -> None:
    fetcher = new_fetcher()
    fetcher.follow(MemoryReplica(), 5)
    answer(fetcher, fetch(fetcher), response(data()))
    answer(fetcher, fetch(fetcher), FetchResponse(error_code=error))
    request = fetch(fetcher)
    assert (request.session_id, request.session_epoch) == (session_id, 0)
    answer(fetcher, request, FetchResponse(error_code=error))  # That can't be: we ask for a new one.
    assert fetcher.wakeup_ms() == 50


def test_a_leader_without_room_for_a_session_is_told_everything_each_time() -> None:
    fetcher = new_fetcher()
    for partition in range(3):
        fetcher.follow(MemoryReplica(partition), 5)
    answer(fetcher, fetch(fetcher), response(data(0, [5]), data(1), data(2), session_id=0))
    request = fetch(fetcher)
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert list(asked(request)) == [1, 2, 0]  # What gave something comes last.


def test_a_leader_that_throttles_is_left_alone_so_long() -> None:
    fetcher = new_fetcher()
    fetcher.follow(MemoryReplica(), 5)
    throttled = response(data())
    throttled.throttle_time_ms = 300
    answer(fetcher, fetch(fetcher), throttled)
    assert fetcher.wakeup_ms() == 300
    assert fetcher.next_request(299, fetch_version=FETCH_VERSION) is None


def test_a_leader_that_diverges_where_nothing_can_be_cut_is_not_asked_without_a_pause() -> None:
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


def test_a_silent_leader_has_more_time_with_each_request_that_it_leaves_without_an_answer() -> None:
    fetcher = new_fetcher()
    fetcher.follow(MemoryReplica(), 5)
    limits = []
    for _ in range(6):
        limits.append(fetcher.silence_limit_ms)
        fetcher.lost(0)
    assert limits == [2500, 5000, 10_000, 20_000, 30_000, 30_000]
    assert fetcher.connect_limit_ms == 2500, "a connection is ready at once or not at all"
    answer(fetcher, fetch(fetcher, 60_000), response(data()))
    assert fetcher.silence_limit_ms == 2500
