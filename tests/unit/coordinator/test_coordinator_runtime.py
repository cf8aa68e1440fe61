"""The runtime's one rule: decide, append, wait for the high watermark, replay, answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.coordinator.coordinator_result import CoordinatorRecord, CoordinatorResult, SingleRecord, TimerAction
from barnabas.coordinator.coordinator_runtime import CoordinatorRuntime
from barnabas.coordinator.deferred import Deferred, gather
from barnabas.coordinator.timer_queue import Timer, TimerQueue
from barnabas.coordinator.transaction_marker import TransactionMarker
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


class Turns:
    """Collects the writes of a turn; ``end`` ends it."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self.requested = 0
        talk.runtime.append_soon = self._request

    def _request(self) -> None:
        self.requested += 1

    def end(self) -> None:
        self._talk.runtime.append_shared()

    def say(self, *texts: str, partition: int = 0) -> Deferred[str]:
        answer: Deferred[str] = Deferred()
        records: list[CoordinatorRecord] = [Word(text) for text in texts]
        self._talk.runtime.write_together(
            partition,
            lambda _: CoordinatorResult(records, "+".join(texts)),
            now_ms=1,
            answer=answer,
            on_failure=lambda code: code.name,
        )
        return answer


@pytest.fixture
def turns(talk: Talk) -> Turns:
    return Turns(talk)


def test_writes_of_a_turn_are_appended_as_one_batch_and_answered_in_order(talk: Talk, turns: Turns) -> None:
    answers: list[str] = []
    for texts in (("a",), ("b", "c"), ("d",)):
        turns.say(*texts).on_complete(answers.append)
    assert (answers, talk.topic.log(0).batches) == ([], [])
    assert turns.requested == 1
    turns.end()
    assert answers == ["a", "b+c", "d"]
    assert talk.shard.words == [(0, "a"), (1, "b"), (2, "c"), (3, "d")]
    assert len(talk.topic.log(0).batches) == 1
    turns.say("e")
    assert turns.requested == 2


def test_writes_that_were_alone_in_their_turns_do_not_wait_for_others(talk: Talk, turns: Turns) -> None:
    for text in "abcd":
        assert not turns.say(text).is_complete
        turns.end()
    for text in "efgh":
        assert turns.say(text).value == text
    tried = [turns.say(text) for text in "ij"]
    assert not any(answer.is_complete for answer in tried)
    turns.end()
    assert not turns.say("k").is_complete, "others share the appends again"
    turns.end()
    assert "".join(text for _, text in talk.shard.words) == "abcdefghijk"


def test_without_turns_a_write_is_appended_at_once(talk: Talk) -> None:
    answer: Deferred[str] = Deferred()
    talk.runtime.write_together(
        0, lambda _: CoordinatorResult([Word("a")], "a"), now_ms=1, answer=answer, on_failure=lambda code: code.name
    )
    assert answer.value == "a"


def test_shared_writes_wait_for_the_high_watermark_together(talk: Talk, turns: Turns) -> None:
    talk.topic.auto_commit = False
    answers = [turns.say("a"), turns.say("b")]
    turns.end()
    assert not any(answer.is_complete for answer in answers)
    assert talk.shard.words == []
    talk.topic.commit(0)
    assert [answer.value for answer in answers] == ["a", "b"]


def test_shared_writes_that_are_not_committed_in_time_all_fail(talk: Talk, turns: Turns) -> None:
    talk.topic.auto_commit = False
    answers = [turns.say("a"), turns.say("b")]
    turns.end()
    assert talk.runtime.next_deadline_ms() == 5_001
    talk.runtime.tick(5_001)
    assert [answer.value for answer in answers] == ["REQUEST_TIMED_OUT"] * 2
    talk.topic.commit(0)
    assert talk.shard.words == [(0, "a"), (1, "b")]


def test_a_failed_append_fails_each_of_the_writes_that_share_it(talk: Talk, turns: Turns) -> None:
    answers = [turns.say("a"), turns.say("b")]
    talk.topic.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    turns.end()
    assert [answer.value for answer in answers] == ["NOT_ENOUGH_REPLICAS"] * 2
    talk.topic.refuse_with = None
    assert turns.say("c").is_complete is False
    turns.end()
    assert talk.shard.words == [(0, "c")]


def test_writes_whose_batch_is_too_large_are_appended_one_by_one(talk: Talk, turns: Turns) -> None:
    talk.topic.bytes_max = 200
    answers = [turns.say(text) for text in ("a" * 60, "b" * 500, "c" * 60)]
    turns.end()
    assert [answer.value[:3] for answer in answers] == ["aaa", "MES", "ccc"]
    assert [text[0] for _, text in talk.shard.words] == ["a", "c"]


def test_other_writes_reads_and_deadlines_come_after_shared_writes_before_them(talk: Talk, turns: Turns) -> None:
    turns.say("a")
    assert talk.say("b").value == "b"
    turns.say("c")
    assert [text for _, text in talk.runtime.shard(0).words] == ["a", "b", "c"]
    turns.say("d")
    talk.shard.timers.schedule(Timer(lambda _: CoordinatorResult([Word("e")])), 10)
    talk.runtime.tick(10)
    turns.say("f")
    talk.runtime.write_quietly(0, lambda _: CoordinatorResult([Word("g")]), now_ms=1)
    turns.end()
    assert "".join(text for _, text in talk.shard.words) == "abcdefg"


def test_a_marker_comes_after_the_shared_writes_before_it(talk: Talk, turns: Turns) -> None:
    turns.say("a")
    ended: Deferred[ErrorCode] = Deferred()
    marker = TransactionMarker(producer_id=7, producer_epoch=0, is_commit=True, coordinator_epoch=0)
    talk.runtime.end_transaction(0, marker, now_ms=1, answer=ended)
    assert ended.value is ErrorCode.NONE
    assert [base_offset for base_offset, _, _ in talk.topic.log(0).batches] == [0, 1]


def test_shared_writes_of_a_partition_that_is_led_elsewhere_fail(talk: Talk, turns: Turns) -> None:
    answers = [turns.say("a"), turns.say("b", partition=7)]
    talk.runtime.unload(0, 1)
    assert [answer.value for answer in answers] == ["NOT_COORDINATOR"] * 2
    turns.end()
    assert talk.topic.log(0).batches == []


def test_a_refused_decision_and_one_without_records_do_not_wait_for_the_append(talk: Talk, turns: Turns) -> None:
    def refuse(_: Words) -> CoordinatorResult[str]:
        raise ApiException(ErrorCode.ILLEGAL_GENERATION)

    refused: Deferred[str] = Deferred()
    talk.runtime.write_together(0, refuse, now_ms=1, answer=refused, on_failure=lambda code: code.name)
    assert refused.value == "ILLEGAL_GENERATION"
    assert turns.say().value == ""


def test_many_writes_of_a_turn_are_appended_in_several_batches(talk: Talk, turns: Turns) -> None:
    answers = [turns.say(str(number)) for number in range(1_200)]
    turns.end()
    assert all(answer.is_complete for answer in answers)
    assert [text for _, text in talk.shard.words] == [str(number) for number in range(1_200)]
    assert len(talk.topic.log(0).batches) == 3


def test_an_answer_to_a_shared_write_may_write_again(talk: Talk, turns: Turns) -> None:
    later: list[Deferred[str]] = []
    turns.say("a").on_complete(lambda _: later.append(turns.say("c")))
    turns.say("b").on_complete(lambda _: later.append(talk.say("d")))
    turns.end()
    turns.end()
    assert [answer.value for answer in later] == ["c", "d"]
    assert "".join(text for _, text in talk.shard.words) == "abcd"
