"""Batches driven by a thread of the worker: their order, their end, and their interruption."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas.connect.plugins.api import SourceOffset
from barnabas.connect_spark.queries import batch_loop
from barnabas.connect_spark.queries.batch_gate import BatchGate, QueryEnds
from barnabas.connect_spark.queries.batch_loop import BatchLoop, PolledBatches
from barnabas.connect_spark.queries.polled_source import Polled


class Steps:
    last: dict[str, Any] | None = None
    frame: Any = None

    def __init__(self, step: Callable[[], None]) -> None:
        self.step = step


class Server:
    version = "4.0.5"

    def __init__(self) -> None:
        self.interrupted = threading.Event()
        self.tags: list[str] = []

    def addTag(self, tag: str) -> None:
        self.tags.append(tag)

    def interruptAll(self) -> list[str]:
        self.interrupted.set()
        return ["operation"]


def loop_of(step: Callable[[], None], gate: BatchGate, server: Server | None = None) -> BatchLoop:
    return BatchLoop("q-0", Steps(step), gate, 0.0, server or Server()).begin()  # type: ignore[arg-type]


def test_a_failed_step_ends_the_loop_with_its_reason() -> None:
    gate = BatchGate()

    def step() -> None:
        raise RuntimeError("no disk")

    loop = loop_of(step, gate)
    loop._thread.join()
    assert not loop.isActive
    assert str(loop.exception()) == str(gate.failure) == "no disk"


def test_a_loop_whose_gate_is_closed_ends_without_a_reason() -> None:
    gate, stepped = BatchGate(), threading.Event()
    loop = loop_of(stepped.set, gate)
    stepped.wait()
    assert gate.close(None)
    loop.stop()
    assert (loop.isActive, loop.exception(), gate.failure) == (False, None, None)


def test_a_batch_that_takes_too_long_is_interrupted_on_the_server() -> None:
    gate, server, begun = BatchGate(), Server(), threading.Event()

    def step() -> None:
        begun.set()
        server.interrupted.wait()
        raise RuntimeError("the operation was cancelled")

    loop = loop_of(step, gate, server)
    begun.wait()
    assert not gate.close(0)
    gate.fence()
    loop.stop()
    assert not loop.isActive
    assert gate.failure is None


def test_a_batch_that_cannot_be_ended_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_loop, "_STOP_WAIT_S", 0.0)
    gate, begun, release = BatchGate(), threading.Event(), threading.Event()

    def step() -> None:
        begun.set()
        release.wait()

    loop = loop_of(step, gate)
    begun.wait()
    gate.close(0)
    with pytest.raises(TimeoutError, match="a batch of q-0 runs on"):
        loop.stop()
    release.set()
    loop._thread.join()


class Source:
    """Returns the data that the test provides."""

    def __init__(self, *found: str) -> None:
        self.left = list(found)

    def poll(self, spark: Any) -> Polled | None:
        if not self.left:
            return None
        name = self.left.pop(0)
        return Polled(name, [SourceOffset({"file": name}, {"at": 1})])  # type: ignore[arg-type]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_loop, "_counted", lambda records: (records, lambda: 7))


@pytest.mark.usefixtures("counted")
def test_several_frames_are_delivered_together_and_none_advances_the_position() -> None:
    done: list[Any] = []
    found = [Polled(cast(Any, ["a", "b"]), []), Polled([], []), None]
    steps = PolledBatches(
        SimpleNamespace(poll=lambda spark: found.pop(0)),  # type: ignore[arg-type]
        SimpleNamespace(),  # type: ignore[arg-type]
        BatchGate(),
        lambda frames, offsets: done.append(frames),
        lambda rows, _: done.append(rows),
    )
    steps.step()
    assert done == [["a", "b"], 14, [], 0]


@pytest.mark.usefixtures("counted")
def test_data_is_delivered_with_its_position_until_none_is_left() -> None:
    done: list[Any] = []
    steps = PolledBatches(
        Source("a", "b"),  # type: ignore[arg-type]
        SimpleNamespace(),  # type: ignore[arg-type]
        BatchGate(),
        lambda records, offsets: done.append((records, offsets[0].partition["file"])),
        lambda rows, _: done.append(rows),
    )
    steps.step()
    assert done == [(["a"], "a"), 7, (["b"], "b"), 7]
    assert steps.last is not None
    assert steps.last["batchId"] == 1


@pytest.mark.usefixtures("counted")
def test_a_batch_that_was_not_delivered_is_not_noted() -> None:
    def deliver(records: Any, offsets: Any) -> None:
        raise QueryEnds

    steps = PolledBatches(
        Source("a"),  # type: ignore[arg-type]
        SimpleNamespace(),  # type: ignore[arg-type]
        BatchGate(),
        deliver,
        lambda rows, _: pytest.fail("the batch has not ended"),
    )
    with pytest.raises(QueryEnds):
        steps.step()
