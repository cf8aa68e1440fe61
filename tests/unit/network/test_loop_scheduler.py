"""A connection with more work waits for its turn, and a request that arrives during a turn is read before the next."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from barnabas.common.long_response import LongAnswer
from barnabas.network.loop_scheduler import LoopShare
from barnabas.network.stepped_responses import worked_out


class Pipe:
    """Bytes written in a turn are readable when the turn ends, as a request that arrived meanwhile."""

    def __init__(self, journal: list[str]) -> None:
        self._journal = journal
        self.reader, self._writer = os.pipe()

    def write(self) -> None:
        os.write(self._writer, b"x")

    def read(self) -> None:
        os.read(self.reader, 1)
        self._journal.append("read")

    def close(self) -> None:
        os.close(self.reader)
        os.close(self._writer)


@pytest.fixture
def journal() -> list[str]:
    return []


@pytest.fixture
def pipe(journal: list[str]) -> Iterator[Pipe]:
    pipe = Pipe(journal)
    yield pipe
    pipe.close()


class Flood:
    """A connection with requests for some turns; a request of another client arrives during each."""

    def __init__(self, turns: int, pipe: Pipe, journal: list[str]) -> None:
        self.ended = asyncio.Event()
        self._left, self._pipe, self._journal = turns, pipe, journal

    def take_turn(self) -> bool:
        self._left -= 1
        self._journal.append("turn")
        self._pipe.write()
        if not self._left:
            self.ended.set()
        return self._left > 0


class Long(LongAnswer):
    def __init__(self, steps: int, pipe: Pipe, journal: list[str]) -> None:
        super().__init__()
        self._left, self._pipe, self._journal = steps, pipe, journal

    def advance(self) -> bool:
        self._left -= 1
        self._journal.append("turn")
        self._pipe.write()
        return self._left > 0


def test_a_request_that_arrives_during_a_turn_is_read_before_the_next(journal: list[str], pipe: Pipe) -> None:
    async def scenario() -> None:
        asyncio.get_running_loop().add_reader(pipe.reader, pipe.read)
        flood = Flood(3, pipe, journal)
        LoopShare().wait("another", flood)
        await flood.ended.wait()

    asyncio.run(scenario())
    assert journal == ["turn", "read", "turn", "read", "turn", "read"]


def test_a_request_that_arrives_during_a_step_is_read_before_the_next_step(journal: list[str], pipe: Pipe) -> None:
    async def scenario() -> None:
        asyncio.get_running_loop().add_reader(pipe.reader, pipe.read)
        await worked_out(Long(3, pipe, journal))

    asyncio.run(scenario())
    assert journal == ["turn", "read", "turn", "read", "turn", "read"]
