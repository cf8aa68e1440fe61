"""Long responses: others have a turn after each step, and one response is written at a time."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from barnabas.common.long_response import LongAnswer
from barnabas.network.stepped_responses import worked_out


class Steps(LongAnswer):
    def __init__(self, count: int, journal: list[str], name: str) -> None:
        super().__init__()
        self.left = count
        self.journal = journal
        self.name = name

    def advance(self) -> bool:
        self.journal.append(self.name)
        self.left -= 1
        if self.left < 0:
            raise ValueError("a step too many")
        return self.left > 0


@pytest.mark.anyio
async def test_others_have_a_turn_after_every_step() -> None:
    journal: list[str] = []
    task = asyncio.create_task(worked_out(Steps(3, journal, "step")))
    while not task.done():
        await asyncio.sleep(0)
        journal.append("other")
    assert journal.count("step") == 3
    assert ("step", "step") not in pairwise(journal)
    assert task.result().busy_s > 0


@pytest.mark.anyio
async def test_the_second_answer_begins_when_the_first_is_done() -> None:
    journal: list[str] = []
    await asyncio.gather(*(worked_out(Steps(2, journal, name)) for name in "abc"))
    assert journal == ["a", "a", "b", "b", "c", "c"]


@pytest.mark.anyio
async def test_a_disconnected_or_failing_client_does_not_delay_the_next() -> None:
    journal: list[str] = []
    gone, waiting = (asyncio.create_task(worked_out(Steps(100, journal, name))) for name in ("gone", "waiting"))
    await asyncio.sleep(0)
    failing = asyncio.create_task(worked_out(Steps(0, journal, "failing")))
    last = asyncio.create_task(worked_out(Steps(1, journal, "last")))
    await asyncio.sleep(0)
    gone.cancel()
    waiting.cancel()
    await last
    assert gone.cancelled()
    assert waiting.cancelled()
    with pytest.raises(ValueError, match="too many"):
        await failing
    assert "waiting" not in journal
    assert journal[-2:] == ["failing", "last"]
