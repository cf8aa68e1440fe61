import asyncio
import gc
import threading
import weakref
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.network.fair_scheduling import FairQueue, FairThreads, FairTurns
from barnabas.protocol.errors import DecodeError

pytestmark = pytest.mark.anyio


@pytest.fixture
def threads() -> Iterator[FairThreads]:
    made = FairThreads(1, "test")
    yield made
    made.close()


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers()), max_size=40))
def test_owners_take_turns_and_each_keeps_its_order(items: list[tuple[str, int]]) -> None:
    queue: FairQueue[tuple[str, int]] = FairQueue()
    for owner, number in items:
        queue.put(owner, (owner, number))
    taken = []
    while queue:
        taken.append(queue.pop())
    for owner in "abc":
        assert [item for item in taken if item[0] == owner] == [item for item in items if item[0] == owner]
    for index, (owner, _) in enumerate(taken[1:], 1):
        # The same owner has two turns in a row only when all other queues are empty.
        if owner == taken[index - 1][0]:
            assert {left for left, _ in taken[index:]} == {owner}


async def test_threads_serve_owners_in_turn(threads: FairThreads) -> None:
    gate = threading.Event()
    done: list[str] = []
    first = asyncio.ensure_future(threads.run("flood", gate.wait))
    await asyncio.sleep(0)
    flood = [asyncio.ensure_future(threads.run("flood", lambda: done.append("flood"))) for _ in range(20)]
    await asyncio.sleep(0)
    other = asyncio.ensure_future(threads.run("other", lambda: done.append("other")))
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(first, other, *flood)
    assert done.index("other") <= 1


async def test_work_of_a_disconnected_client_never_begins(threads: FairThreads) -> None:
    gate = threading.Event()
    done: list[int] = []
    first = asyncio.ensure_future(threads.run("a", gate.wait))
    await asyncio.sleep(0)
    abandoned = asyncio.ensure_future(threads.run("a", lambda: done.append(1)))
    kept = asyncio.ensure_future(threads.run("a", lambda: done.append(2)))
    await asyncio.sleep(0)
    abandoned.cancel()
    gate.set()
    await asyncio.gather(first, kept)
    assert done == [2]
    assert abandoned.cancelled()


async def test_an_exception_of_the_work_reaches_its_caller(threads: FairThreads) -> None:
    def fail() -> None:
        raise ValueError("odd")

    with pytest.raises(ValueError, match="odd"):
        await threads.run("a", fail)
    assert await threads.run("a", lambda: 7) == 7


async def test_one_turn_at_a_time_and_owners_alternate() -> None:
    turns = FairTurns(pause_ratio=0.0)
    order: list[str] = []
    under_way = 0

    async def take(owner: str) -> None:
        nonlocal under_way
        async with turns.turn(owner):
            under_way += 1
            assert under_way == 1
            await asyncio.sleep(0)
            order.append(owner)
            under_way -= 1

    tasks = [asyncio.ensure_future(take(owner)) for owner in "aaaaab"]
    await asyncio.gather(*tasks)
    assert order.index("b") <= 2
    assert sorted(order) == list("aaaaab")


def test_the_loop_is_left_to_others_only_if_there_are_others() -> None:
    """A pause without other work makes a long request three times as long."""
    short_requests = 0
    turns = FairTurns(short_requests=lambda: short_requests)
    assert turns.pause_s(0.01) == 0
    short_requests += 1
    assert turns.pause_s(0.01) == pytest.approx(0.02)
    assert turns.pause_s(0.01) == 0
    short_requests += 5
    assert turns.pause_s(1.0) == pytest.approx(0.5)


async def test_a_cancelled_turn_passes_to_the_next() -> None:
    turns = FairTurns(pause_ratio=0.0)
    await turns.enter("a")
    waiting = [asyncio.ensure_future(turns.enter("b")) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    turns.leave(0.0)
    waiting[1].cancel()
    await asyncio.wait(waiting, timeout=5)
    assert waiting[2].done()
    assert not waiting[2].cancelled()
    turns.leave(0.0)
    await turns.enter("c")


@pytest.mark.parametrize("kind", [ApiException(ErrorCode.INVALID_RECORD), DecodeError("cut short")])
async def test_a_refusal_keeps_no_reference_to_its_work(threads: FairThreads, kind: Exception) -> None:
    class Piece:
        pass

    pieces: list[weakref.ref[Piece]] = []

    def fail() -> None:
        piece = Piece()
        pieces.append(weakref.ref(piece))
        try:
            raise ValueError(f"odd {piece}")
        except ValueError:
            raise kind from None

    gc.disable()
    try:
        with pytest.raises(type(kind)):
            await threads.run("a", fail)
        threads.close()  # A thread releases its work when it looks for the next.
        assert [piece() for piece in pieces] == [None]
    finally:
        gc.enable()
