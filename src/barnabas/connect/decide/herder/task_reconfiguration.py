"""New task configs: requested from a connector that runs here, compared, and published.

The leader writes them to the config topic; another worker sends the leader a signed request (KIP-507). Each connector
has one attempt at a time; a request during it leads to another attempt.

* Nothing is published if the same configs, from the same connector config, are already committed.
* After a failure further attempts follow without a limit, first after 250 ms, then twice as long each time, up to a
  minute. A 403 in the first minute is logged at a low level: the session key may just have changed.
* A connector that returns more tasks than ``tasks.max`` has failed, unless ``tasks.max.enforce`` is false (KIP-1004).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from barnabas.connect.decide.backing_stores.config_records import task_commit_record, task_record
from barnabas.connect.decide.backing_stores.config_state import ClusterConfig
from barnabas.connect.decide.herder.herder_context import HerderContext
from barnabas.connect.decide.herder.outside import ConfigMap
from barnabas.connect.errors import ConnectError, NotLeader
from barnabas.connect.identifiers import ConnectorTaskId, TargetState

__all__ = ["TaskReconfiguration"]

_FIRST_PAUSE_MS = 250
_LONGEST_PAUSE_MS = 60_000
_QUIET_MS = 60_000

log = logging.getLogger(__name__)


class _TooManyTasks(Exception):
    """The connector's task configs are invalid, and a retry would not change them."""


class TaskReconfiguration:
    """``runs_here`` says whether a connector runs on this worker; ``fail`` takes it out of service with a trace;
    ``tasks_for`` returns how many tasks it is to have, at most ``tasks.max``."""

    def __init__(
        self,
        context: HerderContext,
        *,
        runs_here: Callable[[str], bool],
        fail: Callable[[str, str], None],
        tasks_for: Callable[[str, ConfigMap, int], int],
    ) -> None:
        self._context = context
        self._runs_here = runs_here
        self._fail = fail
        self._tasks_for = tasks_for
        self._wanted: set[str] = set()
        self._under_way: set[str] = set()

    def request(self, connector: str) -> None:
        """Request new task configs from the connector as soon as possible."""
        self._wanted.add(connector)
        if connector not in self._under_way:
            self._under_way.add(connector)
            self._context.outside.start(self._reconfigure(connector))

    async def write(self, connector: str, configs: Sequence[ConfigMap]) -> None:
        """Write a whole set of tasks, read it back, then write its commit. The caller ensures leadership."""
        if configs:
            tasks = (task_record(ConnectorTaskId(connector, number), config) for number, config in enumerate(configs))
            await self._context.write_configs(*tasks)
        await self._context.write_configs(task_commit_record(connector, len(configs)))

    async def _reconfigure(self, connector: str) -> None:
        began_ms = self._context.outside.monotonic_ms()
        attempts = 0
        try:
            while connector in self._wanted and self._runs_here(connector):
                self._wanted.discard(connector)
                try:
                    await self._attempt(connector)
                except _TooManyTasks as error:
                    self._fail(connector, str(error))
                except (ConnectError, OSError) as error:
                    self._wanted.add(connector)
                    self._tell(connector, error, self._context.outside.monotonic_ms() - began_ms)
                    await self._context.outside.sleep(min(_FIRST_PAUSE_MS << min(attempts, 16), _LONGEST_PAUSE_MS))
                    attempts += 1
        finally:
            self._wanted.discard(connector)
            self._under_way.discard(connector)

    async def _attempt(self, connector: str) -> None:
        config = self._context.config
        properties = config.connector_config(connector)
        if properties is None or config.target_state(connector) is not TargetState.STARTED:
            return
        max_tasks = _positive_int(properties.get("tasks.max"), 1)
        tasks = self._tasks_for(connector, properties, max_tasks)
        configs = await self._context.outside.generate_task_configs(connector, properties, tasks)
        if len(configs) > max_tasks:
            self._too_many(connector, properties, len(configs), max_tasks)
        if self._context.config.connector_config(connector) != properties or not self._runs_here(connector):
            return  # The configs are outdated; the new connector creates its own.
        if not self._has_changed(self._context.config, connector, configs):
            return
        group = self._context.group
        if group.is_leader:
            async with self._context.leader_turn:
                self._context.require_leader("Only the leader may write task configurations.")
                if self._context.config.connector_config(connector) != properties:
                    return
                if self._context.config.target_state(connector) is not TargetState.STARTED:
                    return
                await self.write(connector, configs)
        elif not group.leader_url:
            raise NotLeader("The leader's URL is unknown, so the task configurations can't be sent to it.", None)
        else:
            await self._context.outside.send_task_configs(group.leader_url, connector, configs)

    def _has_changed(self, config: ClusterConfig, connector: str, configs: Sequence[ConfigMap]) -> bool:
        if config.applied_config(connector) != config.connector_config(connector):
            return True
        return [dict(config) for config in configs] != [
            dict(config.task_config(task) or {}) for task in config.tasks(connector)
        ]

    def _too_many(self, connector: str, properties: ConfigMap, count: int, max_tasks: int) -> None:
        text = (
            f"The connector {connector} has generated {count} tasks, which is more than tasks.max = {max_tasks} allows."
        )
        if (properties.get("tasks.max.enforce") or "true").strip().lower() == "false":
            log.warning("%s", text)
            return
        raise _TooManyTasks(
            f"{text} Raise tasks.max, change how the connector divides its work, or, for a while, allow it with "
            f"tasks.max.enforce = false."
        )

    def _tell(self, connector: str, error: Exception, since_ms: float) -> None:
        is_quiet = getattr(error, "http_status", 500) == 403 and since_ms < _QUIET_MS
        if is_quiet:
            log.debug("task configs of %s were refused, possibly due to an expired session key", connector)
        else:
            log.error("task configs of %s could not be published: %s; trying again", connector, error)


def _positive_int(text: str | None, otherwise: int) -> int:
    try:
        return max(1, int(text or ""))
    except ValueError:
        return otherwise
