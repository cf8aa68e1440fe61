from __future__ import annotations

import asyncio

import pytest

from barnabas.connect.decide.herder.turn import Turn
from tests.simulation.cluster.virtual_loop import VirtualLoop
from tests.unit.connect.decide.herder.herder_driver import FakeOutside


class Scene:
    """Coroutines that take a turn for 10 ms each."""

    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.outside = FakeOutside(self.loop, lambda error: pytest.fail(str(error)))
        self.turn = Turn(self.outside)
        self.order: list[str] = []

    def enter(self, name: str) -> asyncio.Task[None]:
        return self.loop.create_task(self._take(name))

    async def _take(self, name: str) -> None:
        async with self.turn:
            self.order.append(f"{name} begins")
            await self.outside.sleep(10)
            self.order.append(f"{name} ends")


def test_turns_are_taken_one_at_a_time_in_order_of_arrival() -> None:
    scene = Scene()
    for name in ("a", "b", "c"):
        scene.enter(name)
    scene.loop.run_until(0.001)
    assert scene.order == ["a begins"]
    scene.loop.run_until(1)
    assert scene.order == ["a begins", "a ends", "b begins", "b ends", "c begins", "c ends"]


def test_a_waiter_that_is_cancelled_leaves_the_queue() -> None:
    scene = Scene()
    scene.enter("a")
    waiting = scene.enter("b")
    scene.enter("c")
    scene.loop.run_until(0.001)
    waiting.cancel()
    scene.loop.run_until(1)
    assert scene.order == ["a begins", "a ends", "c begins", "c ends"]


def test_a_holder_that_is_cancelled_releases_the_turn() -> None:
    scene = Scene()
    holder = scene.enter("a")
    scene.enter("b")
    scene.loop.run_until(0.001)
    holder.cancel()
    scene.loop.run_until(1)
    assert scene.order == ["a begins", "b begins", "b ends"]
    scene.enter("c")
    scene.loop.run_until(2)
    assert scene.order[3:] == ["c begins", "c ends"]
