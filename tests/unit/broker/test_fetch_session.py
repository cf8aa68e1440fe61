from __future__ import annotations

import tracemalloc
from itertools import count

import pytest

from barnabas.broker.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, FetchContext, FetchSessionCache
from barnabas.common.errors import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

TOPIC = Uuid.from_int(1000)


def request(
    session_id: int, epoch: int, *partitions: int, offset: int = 0, forgotten: tuple[int, ...] = ()
) -> FetchRequest:
    topics = [FetchPartition(partition=p, fetch_offset=offset, partition_max_bytes=100) for p in partitions]
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic_id=TOPIC, partitions=topics)] if topics else [],
        forgotten_topics_data=[ForgottenTopic(topic_id=TOPIC, partitions=list(forgotten))] if forgotten else [],
    )


@pytest.fixture
def cache() -> FetchSessionCache:
    ids = count(1)
    return FetchSessionCache(slots=2, eviction_ms=1000, new_session_id=lambda: next(ids))


def context(cache: FetchSessionCache, wanted: FetchRequest, *, now_ms: int = 0, version: int = 17) -> FetchContext:
    return cache.context(wanted, version, now_ms, is_follower=False)


def answer_all(made: FetchContext, *, high_watermark: int = 5, records: bytes = b"") -> list[int]:
    """Return the partitions that the response contains."""
    answers = [
        (wanted, PartitionData(partition_index=wanted.key.partition, high_watermark=high_watermark, records=records))
        for wanted in made.wanted
    ]
    return [wanted.key.partition for wanted, _ in made.select(answers)]


def test_a_full_fetch_with_the_final_epoch_creates_no_session(cache: FetchSessionCache) -> None:
    made = context(cache, request(0, FINAL_EPOCH, 0, 1))
    assert made.session_id == 0
    assert len(cache) == 0
    assert answer_all(made) == [0, 1]


def test_a_full_fetch_with_epoch_0_creates_a_session_that_returns_everything(cache: FetchSessionCache) -> None:
    made = context(cache, request(0, INITIAL_EPOCH, 0, 1))
    assert made.session_id == 1
    assert answer_all(made) == [0, 1]


def test_an_incremental_fetch_returns_only_changed_partitions(cache: FetchSessionCache) -> None:
    answer_all(context(cache, request(0, INITIAL_EPOCH, 0, 1, 2)))
    made = context(cache, request(1, 1))
    assert [wanted.key.partition for wanted in made.wanted] == [0, 1, 2]
    assert answer_all(made) == []
    assert answer_all(context(cache, request(1, 2)), high_watermark=6) == [0, 1, 2]
    assert answer_all(context(cache, request(1, 3)), high_watermark=6) == []


def test_a_partition_is_returned_once_more_after_an_error(cache: FetchSessionCache) -> None:
    first = context(cache, request(0, INITIAL_EPOCH, 0))
    first.select([(w, PartitionData(error_code=6, high_watermark=-1, records=b"")) for w in first.wanted])
    assert answer_all(context(cache, request(1, 1)), high_watermark=0) == [0]


def test_partitions_with_data_move_behind_the_others(cache: FetchSessionCache) -> None:
    made = context(cache, request(0, INITIAL_EPOCH, 0, 1))
    answers = [(w, PartitionData(high_watermark=1, records=b"x" if w.key.partition == 0 else b"")) for w in made.wanted]
    made.select(answers)
    assert [wanted.key.partition for wanted in context(cache, request(1, 1)).wanted] == [1, 0]


def test_forgotten_partitions_leave_and_new_ones_join(cache: FetchSessionCache) -> None:
    answer_all(context(cache, request(0, INITIAL_EPOCH, 0, 1)))
    made = context(cache, request(1, 1, 2, forgotten=(0,)))
    assert [wanted.key.partition for wanted in made.wanted] == [1, 2]


def test_an_incremental_fetch_moves_the_offset_of_named_partitions(cache: FetchSessionCache) -> None:
    answer_all(context(cache, request(0, INITIAL_EPOCH, 0, 1)))
    made = context(cache, request(1, 1, 1, offset=77))
    assert [wanted.fetch_offset for wanted in made.wanted] == [0, 77]


@pytest.mark.parametrize(
    ("session_id", "epoch", "version", "code"),
    [
        (99, 1, 17, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (1, 2, 17, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (1, 1, 12, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ],
)
def test_a_wrong_session_is_refused(
    cache: FetchSessionCache, session_id: int, epoch: int, version: int, code: ErrorCode
) -> None:
    context(cache, request(0, INITIAL_EPOCH, 0))
    assert context(cache, request(session_id, epoch), version=version).error_code is code


def test_the_final_epoch_closes_the_named_session(cache: FetchSessionCache) -> None:
    context(cache, request(0, INITIAL_EPOCH, 0))
    context(cache, request(1, FINAL_EPOCH, 0))
    assert len(cache) == 0


def test_a_full_cache_creates_no_session_while_all_are_young(cache: FetchSessionCache) -> None:
    for _ in range(2):
        context(cache, request(0, INITIAL_EPOCH, 0))
    assert context(cache, request(0, INITIAL_EPOCH, 0, 1)).session_id == 0


def test_an_idle_session_makes_room(cache: FetchSessionCache) -> None:
    for _ in range(2):
        context(cache, request(0, INITIAL_EPOCH, 0))
    context(cache, request(2, 1), now_ms=1500)
    assert context(cache, request(0, INITIAL_EPOCH, 0), now_ms=2000).session_id == 3
    assert context(cache, request(1, 1), now_ms=2000).error_code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert cache.evictions == 1


def test_an_old_smaller_session_makes_room_for_a_larger_one(cache: FetchSessionCache) -> None:
    context(cache, request(0, INITIAL_EPOCH, 0))
    context(cache, request(0, INITIAL_EPOCH, 0, 1, 2))
    for session_id in (1, 2):
        context(cache, request(session_id, 1), now_ms=1500)
    assert context(cache, request(0, INITIAL_EPOCH, 0), now_ms=1600).session_id == 0
    assert context(cache, request(0, INITIAL_EPOCH, 0, 1), now_ms=1600).session_id == 3


def test_the_epoch_wraps_to_1(cache: FetchSessionCache) -> None:
    made = context(cache, request(0, INITIAL_EPOCH, 0))
    assert made.session is not None
    made.session.epoch = 2147483647
    context(cache, request(1, 2147483647))
    assert made.session.epoch == 1


def small_cache(consumer_partitions_max: int = 5) -> FetchSessionCache:
    ids = count(1)
    return FetchSessionCache(
        slots=10,
        eviction_ms=1000,
        new_session_id=lambda: next(ids),
        consumer_partitions_max=consumer_partitions_max,
    )


def test_a_consumer_fetches_without_a_session_if_the_cache_has_no_room() -> None:
    cache = small_cache()
    assert context(cache, request(0, INITIAL_EPOCH, 0, 1, 2)).session_id == 1
    refused = context(cache, request(0, INITIAL_EPOCH, 3, 4, 5))
    assert (refused.session_id, refused.error_code) == (0, ErrorCode.NONE)
    assert answer_all(refused) == [3, 4, 5]
    assert context(cache, request(0, INITIAL_EPOCH, 3, 4)).session_id == 2
    assert cache.partition_count() == 5


def test_a_session_that_grows_beyond_the_room_is_given_up() -> None:
    cache = small_cache()
    context(cache, request(0, INITIAL_EPOCH, 0, 1, 2))
    grown = context(cache, request(1, 1, 3, 4, 5))
    assert grown.error_code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert cache.partition_count() == 0
    assert context(cache, request(0, INITIAL_EPOCH, 0, 1, 2, 3, 4)).session_id == 2


def test_forgotten_partitions_and_abandoned_sessions_of_consumers_make_room() -> None:
    cache = small_cache()
    context(cache, request(0, INITIAL_EPOCH, 0, 1, 2, 3))
    context(cache, request(1, 1, forgotten=(0, 1, 2)))
    assert context(cache, request(0, INITIAL_EPOCH, 5, 6, 7, 8)).session_id == 2
    assert context(cache, request(0, INITIAL_EPOCH, 9), now_ms=500).session_id == 0
    assert context(cache, request(0, INITIAL_EPOCH, 9), now_ms=2000).session_id == 3


def test_followers_have_room_however_much_consumers_use() -> None:
    cache = small_cache(0)
    assert context(cache, request(0, INITIAL_EPOCH, 0)).session_id == 0
    followed = cache.context(request(0, INITIAL_EPOCH, *range(1000)), 17, 0, is_follower=True)
    assert followed.session_id == 1
    cache.context(request(1, 1, 1001), 17, 0, is_follower=True)
    assert cache.partition_count() == 1001


def test_a_request_of_many_partitions_is_added_in_steps() -> None:
    cache = small_cache(100_000)
    steps = cache.context_in_steps(request(0, INITIAL_EPOCH, *range(5_000)), 17, 0, is_follower=False)
    assert sum(1 for _ in steps) == 10
    steps = cache.context_in_steps(request(1, 1, *range(5_000, 8_000)), 17, 0, is_follower=False)
    assert sum(1 for _ in steps) == 6
    assert cache.partition_count() == 8_000


def test_a_session_closed_between_two_steps_adds_no_more_partitions() -> None:
    cache = small_cache(100_000)
    context(cache, request(0, INITIAL_EPOCH, 0))
    steps = cache.context_in_steps(request(1, 1, *range(2_000)), 17, 0, is_follower=False)
    next(steps)
    assert context(cache, request(1, 1)).error_code is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    context(cache, request(1, FINAL_EPOCH))
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value.error_code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert cache.partition_count() == 0
    assert context(cache, request(0, INITIAL_EPOCH, *range(100_000))).session_id == 2, "room is counted as taken"


def test_later_partitions_come_after_the_one_that_was_served(cache: FetchSessionCache) -> None:
    made = context(cache, request(0, INITIAL_EPOCH, 0, 1))
    answers = {0: b"records", 1: b""}
    made.select(
        (wanted, PartitionData(partition_index=0, high_watermark=1, records=answers[wanted.key.partition]))
        for wanted in made.wanted
    )
    assert [wanted.key.partition for wanted in context(cache, request(1, 1, 2, 3)).wanted] == [1, 0, 2, 3]


def test_a_session_uses_little_memory_for_each_partition() -> None:
    """A login without rights may have 100,000 partitions in sessions: the test measures their memory."""
    cache, size = small_cache(100_000), 10_000
    encoded = request(0, INITIAL_EPOCH, *range(size)).encode(17)
    context(cache, request(0, INITIAL_EPOCH, 1))
    tracemalloc.start()
    try:
        context(cache, FetchRequest.decode(encoded, 17))
        assert tracemalloc.get_traced_memory()[0] / size < 320
    finally:
        tracemalloc.stop()
