"""Requests that pause, resume and stop connectors (KIP-875), and set log levels on all workers (KIP-976).

Any worker may write the target state of a pause or resume. Stopping also removes the tasks, so the leader does it.
"""

from __future__ import annotations

from barnabas.connect.decide.backing_stores.config_records import (
    logger_level_record,
    target_state_record,
    task_commit_record,
)
from barnabas.connect.decide.herder.herder_context import HerderContext
from barnabas.connect.identifiers import TargetState

__all__ = ["StateRequests"]


class StateRequests:
    def __init__(self, context: HerderContext) -> None:
        self._context = context

    async def pause(self, name: str) -> None:
        await self._set(name, TargetState.PAUSED)

    async def resume(self, name: str) -> None:
        await self._set(name, TargetState.STARTED)

    async def stop(self, name: str) -> None:
        context = self._context
        async with context.as_leader("Only the leader can transition connectors to the STOPPED state."):
            await context.find_connector(name, f"Unknown connector {name}")
            # In one batch: a connector without tasks that starts to run would never get any.
            await context.write_configs(task_commit_record(name, 0), target_state_record(name, TargetState.STOPPED))

    async def set_cluster_logger_level(self, namespace: str, level: str) -> None:
        """Write the level to the config topic. Every worker, this one too, applies it when it reads the record."""
        await self._context.write_configs_of_any_worker(logger_level_record(namespace, level))

    async def _set(self, name: str, state: TargetState) -> None:
        await self._context.find_connector(name, f"Unknown connector {name}")
        await self._context.write_configs_of_any_worker(target_state_record(name, state))
