"""A sink in simulated time: tasks with a rate each, a limit for all together, and a pause when their number changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.decide.autoscaling.autoscale_settings import AutoscaleSettings
from barnabas.connect.decide.autoscaling.task_autoscaler import Decision, LagSample, TaskAutoscaler

SAMPLE_S = 30


@dataclass
class SimulatedSink:
    """Rates are records per second."""

    settings: AutoscaleSettings
    partitions: int
    task_rate: float
    arrival: Callable[[float], float]
    """Of the time in seconds."""
    tasks: int = 1
    total_rate: float = float("inf")
    """What the target takes from all tasks together."""
    pause_s: float = 10
    now_s: float = 0
    position: float = 0
    end: float = 0
    history: list[tuple[float, int]] = field(default_factory=list)
    """The changes: when, and to how many tasks."""
    decisions: list[Decision] = field(default_factory=list)
    paused_until_s: float = 0

    def __post_init__(self) -> None:
        self._autoscaler = TaskAutoscaler(self.settings)

    @property
    def lag(self) -> float:
        return self.end - self.position

    def run(self, seconds: float) -> None:
        for _ in range(int(seconds / SAMPLE_S)):
            self._advance()
            decision = self._autoscaler.decide(self._sample())
            self.decisions.append(decision)
            if decision.tasks != self.tasks:
                self.tasks = decision.tasks
                self.history.append((self.now_s, self.tasks))
                self.paused_until_s = self.now_s + self.pause_s

    def _advance(self) -> None:
        self.end += self.arrival(self.now_s) * SAMPLE_S
        working_s = min(SAMPLE_S, max(0, self.now_s + SAMPLE_S - self.paused_until_s))
        self.position += min(self.lag, min(self.tasks * self.task_rate, self.total_rate) * working_s)
        self.now_s += SAMPLE_S

    def _sample(self) -> LagSample:
        partitions = frozenset(TopicPartition("t", number) for number in range(self.partitions))
        return LagSample(
            self.now_s * 1000,
            self.tasks,
            partitions,
            int(self.position),
            int(self.end),
            are_running=self.now_s >= self.paused_until_s,
        )
