"""The number of tasks of the sinks that run here with ``barnabas.tasks.autoscale.enable``.

The owner of a connector samples its lag, decides (``task_autoscaler``) and requests new task configs, as it does when
topics grow. So the number of tasks is in the config topic like any other, and another owner continues with it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.decide.autoscaling.autoscale_settings import AutoscaleSettings
from barnabas.connect.decide.autoscaling.task_autoscaler import Decision, LagSample, Outlook, TaskAutoscaler
from barnabas.connect.decide.backing_stores.status_records import Scaling
from barnabas.connect.decide.herder.herder_context import HerderContext
from barnabas.connect.decide.herder.outside import ConfigMap
from barnabas.connect.decide.herder.status_updates import Statuses
from barnabas.connect.identifiers import TaskState

__all__ = ["Autoscaling"]

log = logging.getLogger(__name__)

_STUCK = frozenset({Outlook.LIMIT, Outlook.FRUITLESS})


class Autoscaling:
    def __init__(self, context: HerderContext, statuses: Statuses, reconfigure: Callable[[str], None]) -> None:
        """``reconfigure`` requests new task configs from a connector."""
        self._context = context
        self._statuses = statuses
        self._reconfigure = reconfigure
        self._autoscalers: dict[str, TaskAutoscaler] = {}
        self._wanted: dict[str, int] = {}
        self._outlooks: dict[str, Outlook] = {}

    def tasks_for(self, connector: str, properties: ConfigMap, tasks_max: int) -> int:
        """Return how many tasks the connector is to divide its work into."""
        settings = AutoscaleSettings.of(properties)
        if settings is None:
            return tasks_max
        committed = self._context.config.task_count(connector)
        return settings.clamped(self._wanted.get(connector, committed))

    def settings_of(self, connector: str) -> AutoscaleSettings | None:
        """Return the settings of a connector with autoscaling; None for another one."""
        return AutoscaleSettings.of(self._context.config.connector_config(connector) or {})

    def wanted_tasks(self, connector: str) -> int | None:
        """Return how many tasks it is to have; None without autoscaling."""
        properties = self._context.config.connector_config(connector)
        if properties is None or AutoscaleSettings.of(properties) is None:
            return None
        return self.tasks_for(connector, properties, 1)

    def forget_all_but(self, connectors: frozenset[str]) -> None:
        """Keep what is known about these: another worker owns the others."""
        for known in (self._autoscalers, self._wanted, self._outlooks):
            for name in [name for name in known if name not in connectors]:
                del known[name]

    def observe(
        self, connector: str, partitions: frozenset[TopicPartition], *, position: int, end: int, may_skip: bool
    ) -> None:
        """Take a sample of a connector that runs here, and change the number of its tasks if that is due."""
        settings = self.settings_of(connector)
        if settings is None:
            for known in (self._autoscalers, self._wanted, self._outlooks):
                known.pop(connector, None)
            return
        autoscaler = self._autoscalers.get(connector)
        if autoscaler is None or autoscaler.settings != settings:
            autoscaler = self._autoscalers[connector] = TaskAutoscaler(settings)
        tasks = self._context.config.task_count(connector)
        sample = LagSample(
            self._context.outside.monotonic_ms(),
            tasks,
            partitions,
            position,
            end,
            are_running=self._are_running(connector, tasks),
            may_skip=may_skip,
        )
        self._follow(connector, autoscaler.decide(sample))

    def _are_running(self, connector: str, tasks: int) -> bool:
        statuses = self._context.statuses.tasks(connector)
        states = [status.state for task, status in statuses.items() if task.task < tasks]
        return len(states) == tasks and all(state is TaskState.RUNNING for state in states)

    def _follow(self, connector: str, decision: Decision) -> None:
        if decision.outlook is Outlook.WAIT:
            return
        before, self._outlooks[connector] = self._outlooks.get(connector), decision.outlook
        is_change = decision.outlook is Outlook.CHANGE
        if is_change or (decision.outlook is not before and not _STUCK.isdisjoint({before, decision.outlook})):
            log.info("autoscaling of connector %s: %s", connector, decision.reason)
            scaling = Scaling(decision.tasks, decision.reason, self._context.outside.now_ms())
            self._statuses.scaled(connector, scaling)
        if is_change:
            self._wanted[connector] = decision.tasks
            self._reconfigure(connector)
