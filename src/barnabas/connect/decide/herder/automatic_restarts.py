"""Failed connectors and tasks are restarted automatically, a limited number of times with growing pauses.

Kafka leaves a failed task FAILED until a user restarts it. Here it has a budget of restarts (``RestartBudget``). The
status shows the failure, the number of attempts and the next step. A restart by a user, or a long enough run without a
failure, restores the whole budget. Permanent failures (an unknown class, refused settings) are not retried. Another
worker that takes over continues with the number of attempts in the status.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from barnabas.connect.decide.herder.herder_settings import RestartBudget
from barnabas.connect.decide.herder.local_work import Unit
from barnabas.connect.decide.herder.outside import Background, Outside

__all__ = ["AutomaticRestarts"]


@dataclass(slots=True)
class _Attempts:
    count: int = 0
    running_since_ms: float | None = None
    pending: Background | None = None
    recovery: Background | None = None

    def cancel(self) -> None:
        for background in (self.pending, self.recovery):
            if background is not None:
                background.cancel()
        self.pending = self.recovery = None


class AutomaticRestarts:
    """``restart`` is called with the connector or task that is to start again now, ``lasted`` with one that has run
    without a failure for so long that its budget is whole again."""

    def __init__(
        self,
        budget: RestartBudget,
        outside: Outside,
        restart: Callable[[Unit], None],
        lasted: Callable[[Unit], None] = lambda unit: None,
    ) -> None:
        self._budget = budget
        self._outside = outside
        self._restart = restart
        self._lasted = lasted
        self._attempts: dict[Unit, _Attempts] = {}

    @property
    def restarts_max(self) -> int:
        return self._budget.max_attempts

    def restart_count(self, unit: Unit) -> int:
        attempts = self._attempts.get(unit)
        return attempts.count if attempts is not None else 0

    def is_planned(self, unit: Unit) -> bool:
        """Return whether a restart follows."""
        attempts = self._attempts.get(unit)
        return attempts is not None and attempts.pending is not None

    def running(self, unit: Unit) -> None:
        attempts = self._attempts.get(unit)
        if attempts is not None and attempts.running_since_ms is None:
            attempts.running_since_ms = self._outside.monotonic_ms()
            attempts.recovery = self._outside.start(self._report_lasting(unit, attempts))

    def continue_with(self, unit: Unit, restarts: int) -> None:
        """Continue with the attempts of an earlier worker, unless this one has made some."""
        if restarts and unit not in self._attempts:
            self._attempts[unit] = _Attempts(min(restarts, self._budget.max_attempts))

    def failed(self, unit: Unit, *, retriable: bool) -> str:
        """Plan a restart if the budget allows one. Return a sentence for the status."""
        budget = self._budget
        if not retriable:
            self.forget(unit)
            return "It is not restarted automatically, because a restart can't help: fix the cause, then restart it."
        if budget.max_attempts == 0:
            return ""
        attempts = self._attempts.setdefault(unit, _Attempts())
        attempts.cancel()
        self._give_back_budget(attempts)
        if attempts.count >= budget.max_attempts:
            return (
                f"It was restarted automatically {attempts.count} times, the maximum that "
                f"barnabas.connect.task.restart.max.attempts allows: restart it when the cause is fixed."
            )
        attempts.count += 1
        delay_ms = budget.delay_ms(attempts.count)
        attempts.pending = self._outside.start(self._restart_later(unit, attempts, delay_ms))
        return f"Restart {attempts.count} of {budget.max_attempts} follows in {delay_ms / 1000:g} s."

    def forget(self, unit: Unit) -> None:
        """Forget the failures: another worker owns it, or a user restarts it."""
        attempts = self._attempts.pop(unit, None)
        if attempts is not None:
            attempts.cancel()

    def forget_all_but(self, units: frozenset[Unit]) -> None:
        for unit in [unit for unit in self._attempts if unit not in units]:
            self.forget(unit)

    def _give_back_budget(self, attempts: _Attempts) -> None:
        since_ms, attempts.running_since_ms = attempts.running_since_ms, None
        if since_ms is not None and self._outside.monotonic_ms() - since_ms >= self._budget.reset_ms:
            attempts.count = 0

    async def _report_lasting(self, unit: Unit, attempts: _Attempts) -> None:
        await self._outside.sleep(self._budget.reset_ms)
        attempts.recovery = None
        self._lasted(unit)

    async def _restart_later(self, unit: Unit, attempts: _Attempts, delay_ms: int) -> None:
        await self._outside.sleep(delay_ms)
        attempts.pending = None
        self._restart(unit)
