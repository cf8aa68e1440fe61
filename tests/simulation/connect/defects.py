"""Defects that the simulation must find: each disables a rule of the product while it is inserted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from barnabas.connect.decide.group.heartbeat import Heartbeat
from barnabas.connect.decide.herder.assigned_work import AssignedWork
from barnabas.connect.decide.herder.automatic_restarts import AutomaticRestarts
from barnabas.connect.decide.herder.config_writes import ConfigWrites
from barnabas.connect.decide.herder.herder_context import HerderContext
from barnabas.connect.decide.herder.leader_requests import InternalRequests
from barnabas.connect.decide.herder.local_work import LocalWork
from barnabas.connect.decide.herder.rebalance_listener import RebalanceListener
from barnabas.connect.decide.herder.status_updates import Statuses
from barnabas.connect.decide.herder.task_reconfiguration import TaskReconfiguration
from barnabas.connect.decide.herder.zombie_fencing import ZombieFencing
from barnabas.connect.decide.session_key import KeyRotation
from barnabas.connect.errors import ConnectError

__all__ = ["DEFECTS", "Defect"]

Defect = Callable[[], Any]


async def _report_immediately(self: RebalanceListener, notice: Any) -> None:
    self._stops_under_way -= 1
    await self._context.outside.report_work_stopped(notice.stop_id)
    self._update()


async def _acknowledge_unread(self: HerderContext, *records: Any) -> None:
    self.outside.start(_write_quietly(self, records))


async def _write_quietly(context: HerderContext, records: Any) -> None:
    try:
        await context.outside.write_configs(records)
    except ConnectError:
        return


async def _write_without_waiting(self: HerderContext, *records: Any) -> None:
    await self.outside.write_configs(records)


async def _publish_once(self: TaskReconfiguration, connector: str) -> None:
    self._wanted.discard(connector)
    try:
        await self._attempt(connector)
    except ConnectError:
        return
    finally:
        self._under_way.discard(connector)


@contextmanager
def _patched(*patches: Any) -> Iterator[None]:
    with mock.patch.multiple(patches[0], **patches[1]):
        yield


DEFECTS: dict[str, Defect] = {
    "work is reported as stopped before it has stopped": lambda: _patched(
        RebalanceListener, {"_report_stopped": _report_immediately}
    ),
    "work is not stopped when the group takes it away": lambda: _patched(
        AssignedWork, {"revoke": lambda self, units: None}
    ),
    "a configuration is acknowledged before it is safe": lambda: _patched(
        HerderContext, {"write_configs": _acknowledge_unread}
    ),
    "a new connector is not shared out": lambda: _patched(
        RebalanceListener, {"needed": lambda self, offset, reason: None}
    ),
    "task configs that could not be published are forgotten": lambda: _patched(
        TaskReconfiguration, {"_reconfigure": _publish_once}
    ),
    "failed units are not restarted": lambda: _patched(AutomaticRestarts, {"failed": lambda self, unit, retriable: ""}),
    "an existing key is not adopted": lambda: _patched(KeyRotation, {"adopt": lambda self, key, now_ms: None}),
    "a key is used before it was read back": lambda: _patched(KeyRotation, {"poll": _eager_key}),
    "a restarted connector keeps its old settings": lambda: _patched(
        AssignedWork, {"restart": lambda self, units: None}
    ),
    "no worker removes the statuses of deleted connectors": lambda: _patched(
        Statuses, {"_remove_unconfigured": lambda self: None}
    ),
    "held tasks are never let go again": lambda: _patched(AssignedWork, {"assign": _assign_and_hold}),
    "a member keeps its work however long a rebalance does without it": lambda: _patched(
        Heartbeat, {"lost_at_ms": property(_lost_by_silence_alone)}
    ),
    "a successor on the same worker starts beside its predecessor": lambda: _patched(
        LocalWork, {"_stop": _forget_immediately}
    ),
}

_TRANSACTIONS: dict[str, Defect] = {
    "tasks start before earlier ones are fenced": lambda: _patched(ZombieFencing, {"_fence": _fence_nothing}),
    "the leader notes a fencing that it has not done": lambda: _patched(InternalRequests, {"_fence": _fence_nothing}),
    "a leader that was fenced claims the topic no more": lambda: _patched(ConfigWrites, {"_claim": _claim_once}),
    "a fenced leader writes without a claim": lambda: _patched(ConfigWrites, {"_claim": _fence_nothing}),
}

DEFECTS.update(_TRANSACTIONS)


async def _fence_nothing(self: Any, *arguments: Any) -> None:
    return


async def _claim_once(self: ConfigWrites) -> None:
    if self._claimed_at is None and self._assignments <= 1:
        await _claim(self)


_claim = ConfigWrites._claim
_poll = KeyRotation.poll
_assign = AssignedWork.assign


def _lost_by_silence_alone(self: Heartbeat) -> float:
    at_ms = self._heard_ms + self._silence_max_ms
    since_ms = self._unreachable_since_ms
    return at_ms if since_ms is None else min(at_ms, since_ms + self._unreachable_max_ms)


def _eager_key(self: KeyRotation, now_ms: int, monotonic_ms: float, **options: Any) -> Any:
    key = _poll(self, now_ms, monotonic_ms, **options)
    if key is not None:
        self.key = key
    return key


def _assign_and_hold(self: AssignedWork, units: Any, generation: int, *, is_outdated: bool = False) -> None:
    _assign(self, units, generation, is_outdated=True)


async def _forget_immediately(self: LocalWork, unit: Any) -> None:
    self._running.pop(unit, None)
    self._listener.unit_stopped(unit)
