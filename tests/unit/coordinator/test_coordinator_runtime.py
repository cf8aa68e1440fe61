"""The runtime's one rule: decide, append, wait for the high watermark, replay, answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.coordinator.coordinator_result import CoordinatorRecord, CoordinatorResult, SingleRecord, TimerAction
from barnabas.coordinator.coordinator_runtime import CoordinatorRuntime
from barnabas.coordinator.deferred import Deferred, gather
from barnabas.coordinator.timer_queue import Timer, TimerQueue
from barnabas.protocol.compression import Compression
from barnabas.protocol.record_batch import iter_batches
from tests.unit.coordinator.memory_log import MemoryTopic


class Word(SingleRecord):
    def __init__(self, text: str) -> None:
        self.text = text

    def encode_key(self) -> bytes:
        return self.text.encode()

    def encode_value(self) -> bytes | None:
        return b"said"


class Words:
    """A coordinator that stores the words of its requests, with their offsets."""

    def __init__(self) -> None:
        self.timers: TimerQueue[TimerAction] = TimerQueue()
        self.words: list[tuple[int, str]] = []
        self.unloaded = False

    def decode(self, key: bytes, value: bytes | None) -> CoordinatorRecord | None:
        return Word(key.decode())

    def replay(self, record: CoordinatorRecord, record_offset: int, producer_id: int, now_ms: int) -> None:
        assert isinstance(record, Word)
        self.words.append((record_offset, record.text))

    def replay_end_transaction_marker(self, producer_id: int, *, committed: bool, now_ms: int) -> None: ...

    def on_loaded(self, now_ms: int) -> list[CoordinatorResult[None]]:
        return []

    def on_unloaded(self, now_ms: int) -> None:
        self.unloaded = True


class Talk:
    def __init__(self, compression: Compression = Compression.NONE) -> None:
        self.topic = MemoryTopic()
        self.runtime: CoordinatorRuntime[Words] = CoordinatorRuntime(
            writer=self.topic, new_shard=lambda partition, leader_epoch: Words(), compression=compression
        )
        self.topic.runtime = self.runtime
        shard = self.runtime.start_loading(0, 0, 0)
        assert shard is not None
        self.runtime.finish_loading(0, shard, 0, 0)
        self.shard = shard

    def write(self, decide: Callable[[Words], CoordinatorResult[str]], partition: int = 0) -> Deferred[str]:
        answer: Deferred[str] = Deferred()
        self.runtime.write(partition, decide, now_ms=1, answer=answer, on_failure=lambda code: code.name)
        return answer

    def say(self, *texts: str, **options: object) -> Deferred[str]:
        records: list[CoordinatorRecord] = [Word(text) for text in texts]
        return self.write(lambda _: CoordinatorResult(records, "+".join(texts), **options))  # type: ignore[arg-type]


@pytest.fixture
def talk() -> Talk:
    return Talk()


def test_a_write_is_replayed_and_answered_when_it_is_committed(talk: Talk) -> None:
    talk.topic.auto_commit = False
    answer = talk.say("a", "b")
    assert not answer.is_complete
    assert talk.shard.words == []
    talk.topic.commit(0)
    assert talk.shard.words == [(0, "a"), (1, "b")]
    assert answer.value == "a+b"


def test_writes_are_answered_in_order_up_to_the_high_watermark(talk: Talk) -> None:
    talk.topic.auto_commit = False
    answers: list[str] = []
    for text in ("a", "b", "c"):
        talk.say(text).on_complete(answers.append)
    talk.runtime.on_high_watermark(0, 2, 1)
    assert answers == ["a", "b"]
    talk.runtime.on_high_watermark(0, 1, 1)  # It never decreases.
    talk.runtime.on_high_watermark(0, 3, 1)
    assert answers == ["a", "b", "c"]


def test_a_write_that_times_out_fails_and_still_takes_effect(talk: Talk) -> None:
    talk.topic.auto_commit = False
    undone: list[ErrorCode] = []

    def undo(code: ErrorCode, now_ms: int) -> CoordinatorResult[None]:
        undone.append(code)
        return CoordinatorResult()

    early = talk.say("a", on_error=undo)
    assert talk.runtime.next_deadline_ms() == 5_001
    talk.runtime.tick(5_000)
    assert not early.is_complete
    talk.runtime.tick(5_001)
    assert early.value == "REQUEST_TIMED_OUT"
    assert undone == [ErrorCode.REQUEST_TIMED_OUT]
    assert talk.runtime.next_deadline_ms() is None
    late = talk.say("b")
    talk.topic.commit(0)
    assert talk.shard.words == [(0, "a"), (1, "b")]
    assert late.value == "b"


def test_a_decision_without_records_is_answered_immediately(talk: Talk) -> None:
    talk.topic.auto_commit = False
    talk.say("a")
    assert talk.say().value == ""


def test_a_decision_that_raises_is_answered_with_its_error(talk: Talk) -> None:
    def decide(_: Words) -> CoordinatorResult[str]:
        raise ApiException(ErrorCode.ILLEGAL_GENERATION)

    assert talk.write(decide).value == "ILLEGAL_GENERATION"
    assert talk.write(decide, partition=7).value == "NOT_COORDINATOR"


def test_a_failed_append_is_undone_and_answered_with_the_error(talk: Talk) -> None:
    undone: list[ErrorCode] = []

    def undo(code: ErrorCode, now_ms: int) -> None:
        undone.append(code)

    talk.topic.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert talk.say("a", on_error=undo).value == "NOT_ENOUGH_REPLICAS"
    assert undone == [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert talk.shard.words == []


def test_a_continuation_after_a_commit_may_write_again(talk: Talk) -> None:
    order: list[str] = []

    def then(now_ms: int) -> CoordinatorResult[None]:
        order.append("committed")
        return CoordinatorResult([Word("b")], on_commit=lambda _: order.append("followed"))

    assert talk.say("a", on_commit=then).value == "a"
    assert talk.shard.words == [(0, "a"), (1, "b")]
    assert order == ["committed", "followed"]
    assert talk.say("c").value == "c"


def test_records_that_need_not_be_atomic_are_written_in_several_batches(talk: Talk) -> None:
    texts = [str(number) for number in range(4_500)]
    assert talk.say(*texts, is_atomic=False).is_complete
    assert [text for _, text in talk.shard.words] == texts
    assert len(talk.topic.log(0).batches) == 3
    talk.say(*texts)
    assert len(talk.topic.log(0).batches) == 4


def test_batches_are_compressed_if_the_topic_is() -> None:
    talk = Talk(Compression.GZIP)
    talk.say(*("word" for _ in range(100)))
    (_, _, batch) = talk.topic.log(0).batches[0]
    (view,) = iter_batches(batch)
    assert view.compression is Compression.GZIP
    assert view.base_timestamp == view.max_timestamp == 1
    assert [record.key for record in view.records()] == [b"word"] * 100


def test_a_deadline_may_write_and_a_failing_one_does_not_stop_the_others(talk: Talk) -> None:
    def fail(now_ms: int) -> CoordinatorResult[None]:
        raise ValueError("a bug")

    timers: list[Timer[TimerAction]] = [
        Timer(fail),
        Timer(lambda now_ms: CoordinatorResult([Word(f"at {now_ms}")])),
    ]
    for timer in timers:
        talk.shard.timers.schedule(timer, 10)
    assert talk.runtime.next_deadline_ms() == 10
    talk.runtime.tick(9)
    assert talk.shard.words == []
    talk.runtime.tick(12)
    assert talk.shard.words == [(0, "at 12")]
    assert talk.runtime.failed_deadline_count == 1
    assert talk.runtime.next_deadline_ms() is None


def test_a_tick_that_is_over_leaves_the_other_deadlines_to_the_next(talk: Talk) -> None:
    for number in range(3):
        text = str(number)
        talk.shard.timers.schedule(Timer(lambda _, text=text: CoordinatorResult([Word(text)])), 10)  # type: ignore[misc]
    talk.runtime.tick(12, is_over=lambda: True)
    assert [text for _, text in talk.shard.words] == ["0"]
    assert talk.runtime.next_deadline_ms() == 10
    talk.runtime.tick(12, is_over=lambda: len(talk.shard.words) == 3)
    assert [text for _, text in talk.shard.words] == ["0", "1", "2"]
    talk.runtime.tick(12)
    assert talk.runtime.next_deadline_ms() is None


def test_a_shard_with_many_deadlines_does_not_delay_those_of_another(talk: Talk) -> None:
    other = talk.runtime.start_loading(1, 0, 0)
    assert other is not None
    talk.runtime.finish_loading(1, other, 0, 0)
    for number in range(5):
        talk.shard.timers.schedule(Timer(lambda _: CoordinatorResult([Word("many")])), 10 + number)
    other.timers.schedule(Timer(lambda _: CoordinatorResult([Word("one")])), 12)
    while not other.words:
        talk.runtime.tick(20, is_over=lambda: True)
    assert len(talk.shard.words) < 5


def test_writes_that_time_out_together_are_answered_in_several_ticks(talk: Talk) -> None:
    talk.topic.auto_commit = False
    answers = [talk.say(str(number)) for number in range(3)]
    talk.runtime.tick(5_001, is_over=lambda: True)
    assert [answer.is_complete for answer in answers] == [True, False, False]
    assert talk.runtime.next_deadline_ms() == 5_001
    talk.runtime.tick(5_001)
    assert all(answer.value == "REQUEST_TIMED_OUT" for answer in answers)


def test_a_shard_that_is_not_ready_does_not_act_on_its_deadlines(talk: Talk) -> None:
    shard = talk.runtime.start_loading(1, 0, 0)
    assert shard is not None
    shard.timers.schedule(Timer(lambda _: CoordinatorResult([Word("too early")])), 1)
    talk.runtime.tick(5)
    assert shard.words == []


def test_a_shard_that_lost_its_partition_while_loading_is_not_used(talk: Talk) -> None:
    shard = talk.runtime.start_loading(1, 0, 0)
    assert shard is not None
    talk.runtime.unload(1, 0)
    assert shard.unloaded
    assert not talk.runtime.finish_loading(1, shard, 0, 0)
    with pytest.raises(ApiException):
        talk.runtime.shard(1)


def test_a_failed_partition_may_be_loaded_again(talk: Talk) -> None:
    shard = talk.runtime.start_loading(1, 0, 0)
    assert shard is not None
    talk.runtime.fail_loading(1, shard)
    again = talk.runtime.start_loading(1, 0, 0)
    assert again is not None
    assert again is not shard


def test_responses_can_be_gathered() -> None:
    parts: list[Deferred[int]] = [Deferred(), Deferred.completed(2)]
    whole = gather(parts)
    assert not whole.is_complete
    parts[0].complete(1)
    assert whole.map(sum).value == 3
    assert gather([]).value == []
