from __future__ import annotations

import asyncio
from collections.abc import Callable

from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from barnabas.protocol.messages.vote import VoteResponse
from barnabas.server.quorum.read_indexes import ReadIndexes


def answer(high_watermark: int, error: ErrorCode = ErrorCode.NONE) -> FetchResponse:
    partition = PartitionData(partition_index=0, high_watermark=high_watermark, error_code=error)
    return FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])])


def tell(story: Callable[[ReadIndexes], None]) -> None:
    async def main() -> None:
        story(ReadIndexes())

    asyncio.run(main())


def test_a_follower_takes_what_the_leader_says_to_a_fetch_that_began_later() -> None:
    def story(indexes: ReadIndexes) -> None:
        indexes.fetch_begins(1)
        question = indexes.ask(led_epoch=None, end_offset=50)
        indexes.fetch_ended(1, answer(60))
        assert not question.done()
        indexes.fetch_begins(2)
        later = indexes.ask(led_epoch=None, end_offset=50)
        indexes.fetch_begins(3)
        indexes.fetch_ended(2, answer(61))
        assert question.result() == 61
        assert not later.done()
        indexes.fetch_ended(3, answer(61))
        assert later.result() == 61

    tell(story)


def test_what_is_no_answer_of_a_leader_tells_nothing() -> None:
    def story(indexes: ReadIndexes) -> None:
        question = indexes.ask(led_epoch=None, end_offset=50)
        answers = (
            None,
            VoteResponse(),
            FetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR),
            answer(70, ErrorCode.NOT_LEADER_OR_FOLLOWER),
            answer(-1),
        )
        for number, each in enumerate(answers):
            indexes.fetch_begins(number)
            indexes.fetch_ended(number, each)
        assert not question.done()

    tell(story)


def test_a_leader_waits_until_something_is_committed_that_it_wrote_later() -> None:
    def story(indexes: ReadIndexes) -> None:
        question = indexes.ask(led_epoch=3, end_offset=50)
        indexes.committed(50, 3)
        assert not question.done()
        indexes.committed(51, 3)
        assert question.result() == 51

    tell(story)


def test_a_leader_of_the_past_asks_the_new_one() -> None:
    """What was committed before the question may be more than its log had."""

    def story(indexes: ReadIndexes) -> None:
        question = indexes.ask(led_epoch=3, end_offset=50)
        indexes.committed(60, None)
        indexes.committed(60, 5)
        assert not question.done()
        indexes.fetch_begins(1)
        indexes.fetch_ended(1, answer(90))
        assert question.result() == 90

    tell(story)


def test_who_does_not_want_to_know_any_more_is_in_nobodys_way() -> None:
    def story(indexes: ReadIndexes) -> None:
        indexes.ask(led_epoch=None, end_offset=50).cancel()
        question = indexes.ask(led_epoch=None, end_offset=50)
        indexes.fetch_begins(1)
        indexes.fetch_ended(1, answer(90))
        assert question.result() == 90

    tell(story)
