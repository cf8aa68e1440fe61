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


def run_scenario(scenario: Callable[[ReadIndexes], None]) -> None:
    async def main() -> None:
        scenario(ReadIndexes())

    asyncio.run(main())


def test_a_follower_uses_the_high_watermark_of_a_fetch_that_began_later() -> None:
    def scenario(indexes: ReadIndexes) -> None:
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

    run_scenario(scenario)


def test_other_responses_provide_no_read_index() -> None:
    def scenario(indexes: ReadIndexes) -> None:
        question = indexes.ask(led_epoch=None, end_offset=50)
        answers = (
            None,
            VoteResponse(),
            FetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR),
            answer(70, ErrorCode.NOT_LEADER_OR_FOLLOWER),
            answer(-1),
        )
        for number, response in enumerate(answers):
            indexes.fetch_begins(number)
            indexes.fetch_ended(number, response)
        assert not question.done()

    run_scenario(scenario)


def test_a_leader_waits_until_a_later_record_of_its_own_is_committed() -> None:
    def scenario(indexes: ReadIndexes) -> None:
        question = indexes.ask(led_epoch=3, end_offset=50)
        indexes.committed(50, 3)
        assert not question.done()
        indexes.committed(51, 3)
        assert question.result() == 51

    run_scenario(scenario)


def test_a_former_leader_asks_the_new_one() -> None:
    """Records committed before the request may be beyond the end of its log."""

    def scenario(indexes: ReadIndexes) -> None:
        question = indexes.ask(led_epoch=3, end_offset=50)
        indexes.committed(60, None)
        indexes.committed(60, 5)
        assert not question.done()
        indexes.fetch_begins(1)
        indexes.fetch_ended(1, answer(90))
        assert question.result() == 90

    run_scenario(scenario)


def test_a_cancelled_wait_does_not_affect_others() -> None:
    def scenario(indexes: ReadIndexes) -> None:
        indexes.ask(led_epoch=None, end_offset=50).cancel()
        question = indexes.ask(led_epoch=None, end_offset=50)
        indexes.fetch_begins(1)
        indexes.fetch_ended(1, answer(90))
        assert question.result() == 90

    run_scenario(scenario)
