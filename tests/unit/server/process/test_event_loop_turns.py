"""How long the loop was held up, as a running node reports it."""

from __future__ import annotations

import asyncio
import gc

import pytest

from barnabas.server.process import garbage_collection
from barnabas.server.process.event_loop_turns import LONG_TURN_S, LoopTurns, TurnTimes, measured_loop, turns_of
from barnabas.server.process.garbage_collection import BoundedPauses


class Watch:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def test_the_longest_turn_is_kept_for_a_minute_at_least_and_two_at_most() -> None:
    watch = Watch()
    turns = LoopTurns(watch)
    turns.took(0.5, watch.now_s)
    for _ in range(6):
        watch.now_s += 9.9
        turns.took(0.001, watch.now_s)
        assert turns.longest_s == 0.5
    for _ in range(8):
        watch.now_s += 9.9
        turns.took(0.001, watch.now_s)
    assert turns.longest_s == 0.001


def test_a_loop_that_rests_forgets_its_longest_turn() -> None:
    watch = Watch()
    turns = LoopTurns(watch)
    turns.took(0.5, watch.now_s)
    watch.now_s += 200
    assert turns.longest_s == 0.0


def test_long_turns_are_counted() -> None:
    turns = LoopTurns(Watch())
    turns.took(LONG_TURN_S, 0)
    turns.took(LONG_TURN_S * 2, 0)
    assert turns.long_turns == 1


def test_decisions_are_told_apart_by_kind_also_those_that_fail() -> None:
    watch = Watch()
    times = TurnTimes(watch)
    with times.of("CreateTopics"):
        watch.now_s += 0.25

    def fails() -> None:
        with times.of("tick"):
            watch.now_s += 0.5
            raise ValueError("cannot decide")

    with pytest.raises(ValueError, match="cannot decide"):
        fails()
    assert times.longest_s() == {"CreateTopics": 0.25, "tick": 0.5}


def test_a_measured_loop_knows_its_turns_and_another_has_none() -> None:
    async def turns() -> LoopTurns | None:
        await asyncio.sleep(0)
        return turns_of(asyncio.get_running_loop())

    with asyncio.Runner(loop_factory=measured_loop) as runner:
        found = runner.run(turns())
    assert found is not None
    assert found.longest_s > 0
    assert asyncio.run(turns()) is None


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is asked of the collector; the tests' own objects are left alone."""
    asked: list[str] = []
    monkeypatch.setattr(gc, "freeze", lambda: asked.append("freeze"))
    monkeypatch.setattr(gc, "unfreeze", lambda: asked.append("unfreeze"))
    return asked


def collect(pauses: BoundedPauses, watch: Watch, took_s: float, generation: int = 2) -> None:
    pauses._heard("start", {"generation": generation})
    watch.now_s += took_s
    pauses._heard("stop", {"generation": generation})


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    made = Watch()
    monkeypatch.setattr(garbage_collection, "perf_counter", made)
    return made


def test_what_survives_a_long_full_collection_is_set_aside(frozen: list[str], watch: Watch) -> None:
    pauses = BoundedPauses()
    collect(pauses, watch, 0.001)
    collect(pauses, watch, 0.5, generation=1)
    assert frozen == []
    collect(pauses, watch, 0.5)
    assert frozen == ["freeze"]
    assert pauses.longest_s == 0.5


def test_a_process_that_grew_by_half_is_looked_through_again(
    frozen: list[str], watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    resident = [1_000_000_000]
    monkeypatch.setattr(garbage_collection, "_resident_bytes", lambda: resident[0])
    pauses = BoundedPauses()
    resident[0] = 1_400_000_000
    collect(pauses, watch, 0.5)
    assert frozen == ["freeze"]
    resident[0] = 1_600_000_000
    collect(pauses, watch, 0.5)
    assert frozen == ["freeze", "freeze", "unfreeze"]
    collect(pauses, watch, 2.0)
    assert frozen == ["freeze", "freeze", "unfreeze", "freeze"], "from here on growth counts from this size"


def test_it_hears_of_collections_until_it_is_removed() -> None:
    pauses = BoundedPauses()
    pauses.install()
    assert pauses._heard in gc.callbacks
    pauses.remove()
    assert pauses._heard not in gc.callbacks
