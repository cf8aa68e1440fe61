from __future__ import annotations

import asyncio
import logging

import pytest

from barnabas.clients.errors import ClientError
from barnabas.connect.errors import BadRequest, ConnectError
from barnabas.connect.run.herder_tasks import HerderTasks
from tests.simulation.cluster.virtual_loop import VirtualLoop
from tests.unit.connect.decide.herder.herder_driver import VirtualClock


class Scene:
    """Tasks on a loop whose time the test sets, in milliseconds."""

    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.failures: list[Exception] = []
        self.tasks = HerderTasks(self.loop, VirtualClock(self.loop), self.failures.append)

    def run(self, until_ms: float) -> None:
        self.loop.run_until(until_ms / 1000 + 1e-6)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_call_returns_the_result_of_its_work(scene: Scene) -> None:
    async def work(text: str) -> str:
        await asyncio.sleep(0.01)
        return text

    async def steps() -> str:
        return await scene.tasks.call(work("one")) + await scene.tasks.call(work("two"))

    calling = scene.loop.create_task(steps())
    scene.run(15)
    assert not calling.done()
    scene.run(20)
    assert calling.result() == "onetwo"


@pytest.mark.parametrize("error", [OSError("no disk"), BadRequest("no number")])
def test_errors_that_the_herder_expects_are_raised_unchanged(scene: Scene, error: Exception) -> None:
    async def work() -> None:
        raise error

    calling = scene.loop.create_task(scene.tasks.call(work()))
    scene.run(0)
    assert calling.exception() is error


def test_errors_of_clients_become_connect_errors(scene: Scene) -> None:
    async def work() -> None:
        raise ClientError("no broker answers")

    calling = scene.loop.create_task(scene.tasks.call(work()))
    scene.run(0)
    assert type(calling.exception()) is ConnectError
    assert str(calling.exception()) == "no broker answers"


def test_an_unexpected_error_becomes_a_connect_error_and_is_logged(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        raise KeyError("x")

    calling = scene.loop.create_task(scene.tasks.call(work()))
    with caplog.at_level(logging.ERROR):
        scene.run(0)
    assert isinstance(calling.exception(), ConnectError)
    assert "unexpected" in caplog.text
    assert scene.failures == []


def test_a_call_finishes_even_if_its_caller_is_cancelled(scene: Scene) -> None:
    finished: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0.01)
        finished.append("work")

    calling = scene.loop.create_task(scene.tasks.call(work()))
    scene.run(5)
    calling.cancel()
    scene.run(9)
    assert calling.cancelled()
    assert finished == []
    scene.run(10)
    assert finished == ["work"]


def test_a_pause_ends_after_its_time(scene: Scene) -> None:
    ends: list[float] = []

    async def steps() -> None:
        await scene.tasks.sleep(100)
        ends.append(scene.tasks.monotonic_ms())

    scene.loop.now_s = 0.005
    scene.tasks.start(steps())
    scene.run(104)
    assert not ends
    scene.run(105)
    assert ends == [105]


def test_a_wait_ends_with_its_condition_or_its_timeout(scene: Scene) -> None:
    results: list[bool] = []
    is_open = False

    async def steps(timeout_ms: float) -> None:
        results.append(await scene.tasks.until(lambda: is_open, timeout_ms))

    scene.tasks.start(steps(10))
    scene.tasks.start(steps(1_000))
    scene.run(9)
    assert results == []
    scene.run(10)
    assert results == [False]
    is_open = True
    scene.tasks.state_changed()
    scene.run(11)
    assert results == [False, True]


def test_a_condition_that_already_holds_is_not_waited_for(scene: Scene) -> None:
    results: list[bool] = []

    async def steps() -> None:
        results.append(await scene.tasks.until(lambda: True, 0))
        results.append(await scene.tasks.until(lambda: False, 0))

    scene.tasks.start(steps())
    scene.run(0)
    assert results == [True, False]


def test_a_second_waiter_keeps_waiting_if_the_first_makes_the_condition_false(scene: Scene) -> None:
    free = 0
    order: list[str] = []

    async def take(name: str) -> None:
        nonlocal free
        await scene.tasks.until(lambda: free > 0)
        free -= 1
        order.append(name)

    for name in ("a", "b"):
        scene.tasks.start(take(name))
    scene.run(0)
    free = 1
    scene.tasks.state_changed()
    scene.run(1)
    assert order == ["a"]
    free = 1
    scene.tasks.state_changed()
    scene.run(2)
    assert order == ["a", "b"]


def test_changes_by_a_coroutine_after_any_wait_wake_waiters(scene: Scene) -> None:
    state: list[str] = []
    results: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0)

    async def change() -> None:
        await scene.tasks.sleep(1)
        state.append("after a pause")
        await scene.tasks.call(work())
        state.append("after a call")

    async def watch(text: str) -> None:
        await scene.tasks.until(lambda: text in state)
        results.append(text)

    for text in ("after a call", "after a pause"):
        scene.tasks.start(watch(text))
    scene.run(0)
    scene.loop.create_task(change())
    scene.run(1)
    assert results == ["after a pause", "after a call"]


def test_exceptions_of_background_coroutines_are_reported(scene: Scene) -> None:
    async def steps() -> None:
        raise ValueError("a mistake")

    scene.tasks.start(steps())
    scene.run(0)
    assert [str(error) for error in scene.failures] == ["a mistake"]


def test_an_exception_of_a_condition_is_reported(scene: Scene) -> None:
    state: list[bool] = [False]

    async def steps() -> None:
        await scene.tasks.until(lambda: state[0])

    scene.tasks.start(steps())
    scene.run(0)
    state.clear()
    scene.tasks.state_changed()
    scene.run(1)
    assert [type(error) for error in scene.failures] == [IndexError]


def test_a_cancelled_background_coroutine_runs_no_further_steps(scene: Scene) -> None:
    ends: list[str] = []

    async def steps() -> None:
        await scene.tasks.sleep(10)
        ends.append("late")

    running = scene.tasks.start(steps())
    scene.run(5)
    running.cancel()
    scene.tasks.start(steps()).cancel()
    scene.run(100)
    assert ends == []
    assert scene.failures == []


def test_nothing_runs_after_close(scene: Scene) -> None:
    ends: list[str] = []

    async def sleep() -> None:
        await scene.tasks.sleep(10)
        ends.append("sleep")

    async def wait() -> None:
        await scene.tasks.until(lambda: False)
        ends.append("wait")

    async def call() -> None:
        await scene.tasks.call(asyncio.sleep(0.01))
        ends.append("call")

    for steps in (sleep(), wait(), call()):
        scene.tasks.start(steps)
    scene.run(1)
    closing = scene.loop.create_task(scene.tasks.close())
    scene.run(2)
    assert closing.done()
    scene.tasks.start(sleep())
    scene.run(100)
    assert ends == []
    assert scene.failures == []
