"""Decides how many tasks a sink has, from samples of its positions and of the ends of its partitions.

The lag is judged by the time that it takes at the present rate, because a number of records says nothing about a
connector that writes ten or a million in a second. In words:

* **More tasks** if the lag takes longer than ``catch_up_ms`` at the measured rate: as many as would keep up with what
  arrives and work off the lag in that time, at most twice as many.
* **One task fewer** if the lag is a quarter of that or less, and the others would be busy at most ``_BUSY_MAX`` of
  their time. How much a task can do is known since the connector last had too few: only then are all tasks busy. Before
  that it is tried: if one task fewer is not enough, its rate is known from then on, and it is not tried again.
* **No change** during ``cool_down_ms`` after a change (each one restarts all tasks of the connector), while a task does
  not run, without progress, and if the last increase has not raised the rate: then the tasks are not the limit.
* Never more tasks than partitions or ``tasks_max``, and never fewer than ``tasks_min``.

So a constant load leads to a constant number of tasks, which the property tests check with simulated connectors.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from enum import Enum

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.decide.autoscaling.autoscale_settings import AutoscaleSettings

__all__ = ["Decision", "LagSample", "Outlook", "TaskAutoscaler"]

_BUSY_MAX = 0.7
"""The part of its capacity that a smaller number of tasks may need: an increase follows later, if at all."""
_HELPFUL = 1.1
"""An increase has helped if the rate is larger by this factor."""
_FRUITLESS_COOL_DOWNS = 10
"""How long an increase without effect prevents another one."""
_CALM = 0.25
"""The part of the accepted lag below which a task may be too many."""


class Outlook(Enum):
    """What a decision is about."""

    WAIT = "wait"
    """Too little is known yet, or nothing can be concluded."""
    STEADY = "steady"
    CHANGE = "change"
    LIMIT = "limit"
    """More tasks are needed than the settings or the partitions allow."""
    FRUITLESS = "fruitless"
    """More tasks do not help."""


@dataclass(frozen=True, slots=True)
class LagSample:
    now_ms: float
    """Of a monotonic clock."""
    tasks: int
    partitions: frozenset[TopicPartition]
    position: int
    """The sum of the positions of all partitions."""
    end: int
    """The sum of their ends."""
    are_running: bool = True
    """Whether all tasks run."""
    may_skip: bool = False
    """Whether a restart might skip records: a partition has no commit yet, and begins at its end."""


@dataclass(frozen=True, slots=True)
class Decision:
    tasks: int
    outlook: Outlook
    reason: str


@dataclass(frozen=True, slots=True)
class _Rates:
    """Records per millisecond, and the lag in records."""

    arrival: float
    done: float
    lag: int

    def lasts_longer_than(self, duration_ms: float) -> bool:
        return self.lag > self.done * duration_ms

    def __str__(self) -> str:
        return f"{self.lag} records behind at {self.done * 1000:.4g} records/s, {self.arrival * 1000:.4g}/s arrive"


class TaskAutoscaler:
    """``decide`` takes the samples of one connector in their order."""

    def __init__(self, settings: AutoscaleSettings) -> None:
        self.settings = settings
        self._samples: deque[LagSample] = deque()
        """Samples since the last change, of at most one cool-down."""
        self._quiet_until_ms = -math.inf
        self._task_rate: float | None = None
        """Records per millisecond of a task, measured when all tasks were busy."""
        self._before_increase: tuple[float, float] | None = None
        """The rate before the last increase, and until when it is remembered."""

    def decide(self, sample: LagSample) -> Decision:
        if self._must_restart(sample):
            self._samples.clear()
            self._quiet_until_ms = sample.now_ms + self.settings.cool_down_ms
        if not sample.are_running or sample.tasks == 0:
            self._samples.clear()
            self._quiet_until_ms = sample.now_ms + self.settings.cool_down_ms
            return _wait(sample, "not all tasks run")
        self._samples.append(sample)
        while sample.now_ms - self._samples[1 if len(self._samples) > 1 else 0].now_ms >= self.settings.cool_down_ms:
            self._samples.popleft()
        if sample.now_ms < self._quiet_until_ms or len(self._samples) < 2:
            return _wait(sample, "rates are being measured")
        if sample.may_skip:
            return _wait(sample, "a partition has no commit yet, and auto.offset.reset=latest would skip its records")
        decision = self._judge(sample, self._rates())
        if decision.outlook is Outlook.CHANGE:
            self._quiet_until_ms = sample.now_ms + self.settings.cool_down_ms
        return decision

    def _must_restart(self, sample: LagSample) -> bool:
        """Return whether earlier samples say nothing about this one: the tasks or partitions have changed, a topic was
        recreated, or a user has changed the positions."""
        if not self._samples:
            return self._quiet_until_ms == -math.inf
        last = self._samples[-1]
        is_same = (last.tasks, last.partitions) == (sample.tasks, sample.partitions)
        return not is_same or sample.position < last.position or sample.end < last.end

    def _rates(self) -> _Rates:
        first, last = self._samples[0], self._samples[-1]
        elapsed_ms = max(1.0, last.now_ms - first.now_ms)
        return _Rates(
            arrival=(last.end - first.end) / elapsed_ms,
            done=(last.position - first.position) / elapsed_ms,
            lag=max(0, last.end - last.position),
        )

    def _judge(self, sample: LagSample, rates: _Rates) -> Decision:
        tasks, limit = sample.tasks, min(self.settings.tasks_max, len(sample.partitions))
        floor = min(self.settings.tasks_min, limit)
        if not floor <= tasks <= limit:
            wanted = max(floor, min(tasks, limit))
            return _change(sample, wanted, f"{floor} to {limit} tasks are allowed")
        if rates.lag and not rates.done:
            return _wait(sample, f"no batch has ended for {self.settings.cool_down_ms / 1000:g} s")
        if rates.lasts_longer_than(self.settings.catch_up_ms):
            return self._more(sample, rates, limit)
        self._before_increase = None
        if tasks > floor and not rates.lasts_longer_than(self.settings.catch_up_ms * _CALM):
            return self._fewer(sample, rates)
        return Decision(tasks, Outlook.STEADY, f"{tasks} tasks keep up: {rates}")

    def _more(self, sample: LagSample, rates: _Rates, limit: int) -> Decision:
        tasks, accepted_s = sample.tasks, self.settings.catch_up_ms / 1000
        self._task_rate = rates.done / tasks
        why = f"{rates}, so that the lag takes more than {accepted_s:g} s"
        if tasks == limit:
            bound = "tasks.max" if limit == self.settings.tasks_max else "the number of partitions"
            return Decision(tasks, Outlook.LIMIT, f"{why}, and {bound} allows no more than {limit} tasks")
        if self._was_fruitless(sample, rates):
            return Decision(tasks, Outlook.FRUITLESS, f"{why}, but the last increase has not raised the rate")
        needed = math.ceil((rates.arrival + rates.lag / self.settings.catch_up_ms) / self._task_rate)
        wanted = min(max(needed, tasks + 1), tasks * 2, limit)
        forgotten_ms = sample.now_ms + _FRUITLESS_COOL_DOWNS * self.settings.cool_down_ms
        self._before_increase = (rates.done, forgotten_ms)
        return _change(sample, wanted, why)

    def _was_fruitless(self, sample: LagSample, rates: _Rates) -> bool:
        if self._before_increase is None:
            return False
        before, forgotten_ms = self._before_increase
        return rates.done < before * _HELPFUL and sample.now_ms < forgotten_ms

    def _fewer(self, sample: LagSample, rates: _Rates) -> Decision:
        wanted = sample.tasks - 1
        if self._task_rate is not None and rates.arrival > _BUSY_MAX * wanted * self._task_rate:
            busy = rates.arrival / (wanted * self._task_rate)
            reason = f"{rates}; {wanted} tasks would be busy {busy:.0%} of their time"
            return Decision(sample.tasks, Outlook.STEADY, reason)
        return _change(sample, wanted, str(rates))


def _wait(sample: LagSample, reason: str) -> Decision:
    return Decision(sample.tasks, Outlook.WAIT, reason)


def _change(sample: LagSample, tasks: int, reason: str) -> Decision:
    return Decision(tasks, Outlook.CHANGE, f"from {sample.tasks} to {tasks} tasks: {reason}")
