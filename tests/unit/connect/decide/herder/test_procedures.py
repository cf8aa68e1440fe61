from __future__ import annotations

from dataclasses import dataclass

import pytest

from barnabas.connect.decide.herder.effects import Effect
from barnabas.connect.decide.herder.procedures import Now, Pause, ProcedureClosed, Procedures, Turn, Until


@dataclass(frozen=True)
class Ask(Effect[str]):
    what: str


@pytest.fixture
def procedures() -> Procedures:
    return Procedures(Now(0, 0))


def test_an_effect_leaves_as_a_call_and_its_result_comes_back(procedures: Procedures) -> None:
    heard: list[object] = []

    async def steps() -> str:
        return await Ask("one") + await Ask("two")

    procedures.start(steps(), lambda value, error: heard.append((value, error)))
    (first,) = procedures.run(Now(0, 0))
    assert first.effect == Ask("one")
    procedures.returned(first.call_id, "1")
    (second,) = procedures.run(Now(0, 0))
    procedures.returned(second.call_id, "2")
    procedures.run(Now(0, 0))
    assert heard == [("12", None)]


def test_an_effect_that_fails_raises_where_it_is_awaited(procedures: Procedures) -> None:
    heard: list[object] = []

    async def steps() -> None:
        await Ask("one")

    procedures.start(steps(), lambda value, error: heard.append(str(error)))
    (call,) = procedures.run(Now(0, 0))
    procedures.raised(call.call_id, OSError("no disk"))
    procedures.run(Now(0, 0))
    assert heard == ["no disk"]


def test_a_result_that_comes_twice_counts_once(procedures: Procedures) -> None:
    async def steps() -> None:
        await Ask("one")

    procedures.start(steps())
    (call,) = procedures.run(Now(0, 0))
    procedures.returned(call.call_id, "1")
    procedures.returned(call.call_id, "2")
    assert procedures.run(Now(0, 0)) == []


def test_a_pause_ends_when_its_time_has_come(procedures: Procedures) -> None:
    ends: list[float] = []

    async def steps() -> None:
        await Pause(100)
        ends.append(procedures.now.monotonic_ms)

    procedures.start(steps())
    procedures.run(Now(5, 0))
    assert procedures.next_due_ms == 105
    procedures.run(Now(104, 0))
    assert not ends
    procedures.run(Now(105, 0))
    assert ends == [105]
    assert procedures.next_due_ms is None


def test_a_condition_is_waited_for_and_given_up_in_time(procedures: Procedures) -> None:
    heard: list[bool] = []
    is_open = False

    async def steps(timeout_ms: float) -> None:
        heard.append(await Until(lambda: is_open, timeout_ms))

    procedures.start(steps(10))
    procedures.start(steps(1_000))
    procedures.run(Now(0, 0))
    procedures.run(Now(10, 0))
    assert heard == [False]
    is_open = True
    procedures.run(Now(11, 0))
    assert heard == [False, True]
    assert procedures.next_due_ms is None  # The time-out of what came about is no reason to wake up.


def test_a_turn_is_taken_by_one_at_a_time_in_the_order_of_coming(procedures: Procedures) -> None:
    turn = Turn()
    order: list[str] = []

    async def steps(name: str) -> None:
        async with turn:
            order.append(f"{name} begins")
            await Pause(10)
            order.append(f"{name} ends")

    for name in ("a", "b", "c"):
        procedures.start(steps(name))
    procedures.run(Now(0, 0))
    assert turn.is_taken
    for now_ms in (10, 20, 30):
        procedures.run(Now(now_ms, 0))
    assert order == ["a begins", "a ends", "b begins", "b ends", "c begins", "c ends"]
    assert not turn.is_taken


def test_who_is_closed_while_waiting_for_a_turn_leaves_the_queue(procedures: Procedures) -> None:
    turn = Turn()
    order: list[str] = []

    async def steps(name: str) -> None:
        async with turn:
            order.append(name)
            await Pause(10)

    procedures.start(steps("a"))
    waiting = procedures.start(steps("b"))
    procedures.start(steps("c"))
    procedures.run(Now(0, 0))
    procedures.close(waiting)
    procedures.run(Now(10, 0))
    assert order == ["a", "c"]


def test_a_closed_procedure_lets_go_of_what_it_holds_and_is_not_heard_of(procedures: Procedures) -> None:
    turn = Turn()
    heard: list[object] = []

    async def steps() -> None:
        async with turn:
            await Ask("for ever")

    procedure = procedures.start(steps(), lambda value, error: heard.append(error))
    (call,) = procedures.run(Now(0, 0))
    procedures.close(procedure)
    procedures.close(procedure)
    assert not turn.is_taken
    procedures.returned(call.call_id, "late")
    procedures.run(Now(0, 0))
    assert heard == []


def test_what_waits_on_its_way_out_is_ended_all_the_same(procedures: Procedures) -> None:
    async def steps() -> None:
        try:
            await Pause(10)
        except ProcedureClosed:
            await Pause(10)

    procedure = procedures.start(steps())
    procedures.run(Now(0, 0))
    procedures.close(procedure)
    assert procedure.is_over


def test_what_nobody_hears_of_fails_loudly(procedures: Procedures) -> None:
    async def steps() -> None:
        raise ValueError("a mistake")

    procedures.start(steps())
    with pytest.raises(ValueError, match="a mistake"):
        procedures.run(Now(0, 0))


def test_nothing_is_left_when_all_is_closed(procedures: Procedures) -> None:
    async def steps(wish: object) -> None:
        await wish  # type: ignore[misc]

    for wish in (Pause(10), Until(lambda: False), Ask("one")):
        procedures.start(steps(wish))
    procedures.run(Now(0, 0))
    procedures.start(steps(Pause(1)))
    procedures.close_all()
    assert procedures.run(Now(100, 0)) == []
    assert procedures.next_due_ms is None
