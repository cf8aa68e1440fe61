"""Which connections are served immediately, which wait, and how long, on a clock that the test controls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from barnabas.connect.rest.loop_sharing import Account, LoopSharing


class Clock:
    """Timers run when the clock passes them; the time spent is a number."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.spent_s = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, delay_s: float, run: Callable[[], None]) -> None:
        self.timers.append((self.now_s + max(delay_s, 0.0), run))

    def pass_by(self, seconds: float) -> None:
        until = self.now_s + seconds
        while self.timers and min(at for at, _ in self.timers) <= until:
            at, run = min(self.timers, key=lambda timer: timer[0])
            self.timers.remove((at, run))
            self.now_s = max(self.now_s, at)
            run()
        self.now_s = until


class Connection:
    def __init__(self, loop_sharing: LoopSharing, account: Account, turns: int, cost_s: float, clock: Clock) -> None:
        self.account = account
        self.served_at: list[float] = []
        self._loop_sharing, self._turns, self._cost_s, self._clock = loop_sharing, turns, cost_s, clock

    def take_turn(self) -> bool:
        self.served_at.append(self._clock.now_s)
        self._loop_sharing.charge(self.account, self._cost_s)
        self._turns -= 1
        return self._turns > 0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def loop_sharing(clock: Clock) -> LoopSharing:
    return LoopSharing(lambda: clock.now_s, lambda: clock.spent_s, clock.call_later)


def test_a_connection_that_uses_little_time_never_waits(loop_sharing: LoopSharing, clock: Clock) -> None:
    good, greedy = Account(), Account()
    for _ in range(1000):
        clock.pass_by(0.01)
        loop_sharing.charge(greedy, 0.008)
        assert not loop_sharing.must_wait(good)
        loop_sharing.charge(good, 0.0005)


def test_a_connection_that_uses_much_time_waits_in_proportion(loop_sharing: LoopSharing, clock: Clock) -> None:
    good, greedy = Account(), Account()
    loop_sharing.charge(good, 0.0001)
    loop_sharing.charge(greedy, 0.02)
    assert not loop_sharing.must_wait(greedy)
    loop_sharing.charge(greedy, 0.004)
    assert loop_sharing.must_wait(greedy)
    clock.pass_by(0.0081)
    assert not loop_sharing.must_wait(greedy)


def test_a_single_connection_never_waits(loop_sharing: LoopSharing, clock: Clock) -> None:
    alone = Account()
    for _ in range(1000):
        assert not loop_sharing.must_wait(alone)
        loop_sharing.charge(alone, 0.01)
        clock.pass_by(0.01)


def test_waiting_connections_take_turns(loop_sharing: LoopSharing, clock: Clock) -> None:
    accounts = [Account() for _ in range(3)]
    for account in accounts:
        loop_sharing.charge(account, 0.05)
    connections = [Connection(loop_sharing, account, 4, 0.001, clock) for account in accounts]
    for connection in connections:
        loop_sharing.wait(connection)
    clock.pass_by(1)
    order = sorted((at, number) for number, connection in enumerate(connections) for at in connection.served_at)
    assert [number for _, number in order] == [0, 1, 2] * 4


def test_new_connections_share_one_account(loop_sharing: LoopSharing, clock: Clock) -> None:
    known = Account()
    for account in (known, loop_sharing.newcomers):
        loop_sharing.charge(account, 0.05)
    strangers = [Connection(loop_sharing, loop_sharing.newcomers, 1, 0.001, clock) for _ in range(50)]
    for connection in strangers:
        loop_sharing.wait(connection)
    late = Connection(loop_sharing, known, 1, 0.001, clock)
    loop_sharing.wait(late)
    clock.pass_by(1)
    assert sum(stranger.served_at < late.served_at for stranger in strangers) <= 1
    assert all(stranger.served_at for stranger in strangers)


def test_the_share_shrinks_when_more_connections_are_active(loop_sharing: LoopSharing, clock: Clock) -> None:
    accounts = [Account() for _ in range(100)]
    for account in accounts:
        loop_sharing.charge(account, 0.001)
    loop_sharing.charge(accounts[0], 0.02)
    assert all(loop_sharing.must_wait(account) for account in accounts)


def test_a_failed_turn_does_not_block_the_others(loop_sharing: LoopSharing, clock: Clock) -> None:
    class Failing(Connection):
        def take_turn(self) -> bool:
            raise ValueError("in its turn")

    for account in (first := Account(), second := Account()):
        loop_sharing.charge(account, 0.05)
    loop_sharing.wait(Failing(loop_sharing, first, 1, 0.0, clock))
    loop_sharing.wait(other := Connection(loop_sharing, second, 1, 0.0, clock))
    with pytest.raises(ValueError, match="in its turn"):
        clock.pass_by(1)
    clock.pass_by(1)
    assert other.served_at


def test_each_step_on_the_loop_is_charged_and_the_waits_between_are_not(
    loop_sharing: LoopSharing, clock: Clock
) -> None:
    account = Account()

    async def work(awaited: asyncio.Future[int]) -> int:
        clock.spent_s += 0.001
        found = await awaited
        clock.spent_s += 0.002
        return found

    async def scenario() -> None:
        awaited = asyncio.get_running_loop().create_future()

        async def waiting() -> int:
            return await loop_sharing.steps_charged(lambda: account, work(awaited))

        task = asyncio.create_task(waiting())
        await asyncio.sleep(0)
        clock.spent_s += 1.0  # Time of other connections.
        awaited.set_result(7)
        assert await task == 7

    asyncio.run(scenario())
    assert account.used_s == pytest.approx(0.003)


def test_a_cancellation_reaches_the_work(loop_sharing: LoopSharing) -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def waiting() -> None:
        await loop_sharing.steps_charged(Account, work())

    async def scenario() -> None:
        task = asyncio.create_task(waiting())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    assert ended == ["cancelled"]
