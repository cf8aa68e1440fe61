from __future__ import annotations

import asyncio
import logging
from itertools import pairwise

import pytest

from barnabas.connect.run.retries import Retries
from tests.simulation.cluster.virtual_loop import VirtualLoop


def run(loop: VirtualLoop, problems: list[str], **options: float) -> tuple[list[float], Retries]:
    """Fail with each problem in turn. Return the times of the attempts."""
    times: list[float] = []
    retries = Retries(**options)

    async def story() -> None:
        for problem in problems:
            times.append(loop.time())
            await retries.failed(problem)

    task = loop.create_task(story())
    loop.run_until(loop.time() + 1_000)
    assert task.done()
    return times, retries


@pytest.fixture
def loop() -> VirtualLoop:
    return VirtualLoop()


def test_pauses_grow_up_to_five_seconds(loop: VirtualLoop) -> None:
    times, _ = run(loop, ["a"] * 8)
    pauses = [after - before for before, after in pairwise(times)]
    assert pauses == pytest.approx([0.25, 0.5, 1, 2, 4, 5, 5])


def test_a_cause_is_logged_once_in_half_a_minute(loop: VirtualLoop, caplog: pytest.LogCaptureFixture) -> None:
    times, retries = run(loop, ["no broker"] * 20)
    assert times[-1] > 60
    assert [record.getMessage() for record in caplog.records] == ["no broker; trying again"] * 3
    assert retries.problem == "no broker"


def test_another_cause_is_logged_at_once(loop: VirtualLoop, caplog: pytest.LogCaptureFixture) -> None:
    run(loop, ["a", "a", "b", "b"])
    assert [record.getMessage() for record in caplog.records] == ["a; trying again", "b; trying again"]


def test_a_cause_that_passes_by_itself_is_not_logged(loop: VirtualLoop, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    run(loop, ["a", "b", "a"], grace_s=2.0)
    assert not caplog.records
    run(loop, ["a"] * 5, grace_s=2.0)
    assert len(caplog.records) == 1


def test_a_wait_can_be_cancelled(loop: VirtualLoop) -> None:
    task = loop.create_task(Retries().failed("a"))
    loop.run_until(loop.time())
    task.cancel()
    loop.run_until(loop.time())
    assert task.cancelled()
    assert isinstance(loop, asyncio.AbstractEventLoop)
