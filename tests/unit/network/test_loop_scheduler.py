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


class Pipelined:
    """A connection with some requests, each of which takes a moment of the clock of the test."""

    def __init__(self, name: str, requests: int, journal: list[str]) -> None:
        self._name, self._left, self._journal = name, requests, journal

    def take_turn(self) -> bool:
        self._left -= 1
        self._journal.append(self._name)
        return self._left > 0


def test_connections_with_few_requests_share_a_turn(journal: list[str]) -> None:
    async def scenario() -> None:
        share = LoopShare(turn_s=60.0)
        for name in "abc":
            share.wait(name, Pipelined(name, 2, journal))
        for _ in range(2):
            await asyncio.sleep(0)
        assert journal == ["a", "b", "c"]
        for _ in range(2):
            await asyncio.sleep(0)

    asyncio.run(scenario())
    assert journal == ["a", "b", "c", "a", "b", "c"]


def test_a_turn_that_is_over_leaves_the_other_connections_to_the_next(journal: list[str]) -> None:
    async def scenario() -> None:
        share = LoopShare(turn_s=0.0)
        for name in "ab":
            share.wait(name, Pipelined(name, 1, journal))
        for _ in range(2):
            await asyncio.sleep(0)
        assert journal == ["a"]
        for _ in range(2):
            await asyncio.sleep(0)

    asyncio.run(scenario())
    assert journal == ["a", "b"]


def test_a_turn_that_raises_leaves_the_others_in_the_rotation(journal: list[str]) -> None:
    class Broken:
        def take_turn(self) -> bool:
            raise ValueError("a bug")

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: journal.append(context["message"][:9]))
        share = LoopShare(turn_s=60.0)
        for name, connection in (("a", Pipelined("a", 2, journal)), ("b", Broken()), ("c", Pipelined("c", 1, journal))):
            share.wait(name, connection)
        for _ in range(4):
            await asyncio.sleep(0)

    asyncio.run(scenario())
    assert journal == ["a", "Exception", "c", "a"]
