"""Read indexes: the offset up to which the log must be applied here to include all commits before a moment.

A follower takes the high watermark from the answer to a Fetch that was sent after that moment. The leader waits until a
record is committed that it appended after that moment: by then a majority has acknowledged it as their leader. (NoOp
records are written twice a second.)
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from barnabas.protocol.schema import Message

__all__ = ["ReadIndexes"]


class _Question(NamedTuple):
    number: int
    led_epoch: int | None
    """The epoch in which this replica led when the request arrived."""
    end_offset: int
    future: asyncio.Future[int]


class ReadIndexes:
    def __init__(self) -> None:
        self._newest = 0
        self._questions: list[_Question] = []
        self._fetches: dict[int, int] = {}
        """The newest question before each Fetch in flight, by correlation id, if a question was open when it began."""

    def ask(self, *, led_epoch: int | None, end_offset: int) -> asyncio.Future[int]:
        self._newest += 1
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._questions.append(_Question(self._newest, led_epoch, end_offset, future))
        return future

    def fetch_begins(self, correlation_id: int) -> None:
        if self._questions:
            self._fetches[correlation_id] = self._newest

    def fetch_ended(self, correlation_id: int, answer: Message | None) -> None:
        """Handle the end of a fetch; ``answer`` is None if it failed."""
        number = self._fetches.pop(correlation_id, None)
        reported = None if number is None else _high_watermark(answer)
        if number is not None and reported is not None:
            self._answer([question for question in self._questions if question.number <= number], reported)

    def committed(self, high_watermark: int, led_epoch: int | None) -> None:
        if self._questions and led_epoch is not None:
            sure = [
                question
                for question in self._questions
                if question.led_epoch == led_epoch and question.end_offset < high_watermark
            ]
            self._answer(sure, high_watermark)

    def _answer(self, questions: list[_Question], index: int) -> None:
        for question in questions:
            self._questions.remove(question)
            if not question.future.done():
                question.future.set_result(index)


def _high_watermark(answer: Message | None) -> int | None:
    """Return the high watermark in a leader's answer; None if the replica does not lead or does not know it yet."""
    from barnabas.protocol.messages.fetch import FetchResponse  # The only voter never fetches.

    if not isinstance(answer, FetchResponse) or answer.error_code:
        return None
    for topic in answer.responses:
        for partition in topic.partitions:
            if not partition.error_code and partition.high_watermark >= 0:
                return int(partition.high_watermark)
    return None
