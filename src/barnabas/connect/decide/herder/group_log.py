"""Log lines about the group: joins, assignments, and workers that come and go.

Only the leader knows the other workers, so only its log names those that are lost, with the new owners of their work.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from urllib.parse import urlsplit

from barnabas.connect.decide.group.membership_events import (
    Assigned,
    Joining,
    MembershipEvent,
    StopWork,
    WorkerGone,
    WorkersChanged,
)
from barnabas.connect.decide.herder.herder_context import HerderContext
from barnabas.connect.decide.herder.local_work import Unit, named
from barnabas.connect.identifiers import ConnectorTaskId, TaskState

__all__ = ["GroupLog", "listed"]

log = logging.getLogger(__name__)

_LISTED_MAX = 30


def listed(units: Iterable[Unit]) -> str:
    """Return the names of at most 30 connectors and tasks, and the number of the others."""
    ordered = sorted(units, key=lambda unit: (isinstance(unit, ConnectorTaskId), str(unit)))
    texts = [named(unit) for unit in ordered[:_LISTED_MAX]]
    if len(ordered) > _LISTED_MAX:
        texts.append(f"and {len(ordered) - _LISTED_MAX} more")
    return ", ".join(texts) or "nothing"


class GroupLog:
    def __init__(self, context: HerderContext) -> None:
        self._context = context
        self._group = context.settings.group_id
        self._reported: set[str] = set()
        """Workers, by ``host:port``, whose loss was logged."""

    def noticed(self, notice: MembershipEvent) -> None:
        match notice:
            case Joining(reason):
                log.info("joining group %s again: %s", self._group, reason)
            case Assigned():
                self._assigned(notice)
            case StopWork(_, connectors, tasks, reason):
                log.info("stopping %s: %s", listed((*connectors, *tasks)), reason)
            case WorkersChanged(joined, gone, delay_ms):
                for url in joined:
                    log.info("worker %s has joined group %s", url, self._group)
                for worker in gone:
                    self._gone(worker, delay_ms)
            case _:
                pass

    def leads(self) -> None:
        """Report lost workers that no earlier round of this leader had as members, such as the leader before.

        Their last statuses say that work runs on them. Called after an assignment by this worker.
        """
        members = self._context.group.member_worker_ids
        self._reported -= members
        for worker, units in self._work_elsewhere().items():
            if worker not in members | self._reported:
                owners = self._context.group.owners
                self._gone(WorkerGone(worker, {unit: owners.get(unit) for unit in units}), 0)

    def _work_elsewhere(self) -> dict[str, list[Unit]]:
        """Return the configured connectors and tasks that are said to run, by their worker."""
        statuses = self._context.statuses
        units: list[Unit] = [*statuses.connectors(), *statuses.all_tasks()]
        found: dict[str, list[Unit]] = {}
        for unit in units:
            status = statuses.task(unit) if isinstance(unit, ConnectorTaskId) else statuses.connector(unit)
            if status is not None and status.state is not TaskState.UNASSIGNED and self._is_configured(unit):
                found.setdefault(status.worker_id, []).append(unit)
        return found

    def _assigned(self, notice: Assigned) -> None:
        assignment = notice.assignment
        added: tuple[Unit, ...] = (*notice.added_connectors, *notice.added_tasks)
        log.info(
            "assigned in generation %d of group %s (protocol %s, leader %s): %s%s",
            notice.generation,
            self._group,
            notice.protocol.config_value,
            "this worker" if notice.is_leader else assignment.leader_url,
            listed((*assignment.connectors, *assignment.tasks)),
            f"; new: {listed(added)}" if added else "",
        )

    def _gone(self, worker: WorkerGone, delay_ms: int) -> None:
        moves = [
            f"{url} receives {listed(unit for unit, owner in worker.new_owners.items() if owner == url)}"
            for url in sorted({owner for owner in worker.new_owners.values() if owner is not None})
        ]
        waiting = [unit for unit, owner in worker.new_owners.items() if owner is None and self._is_configured(unit)]
        if waiting and delay_ms:
            moves.append(f"{listed(waiting)} waits up to {delay_ms / 1000:g} s for its return")
        self._reported.add(urlsplit(worker.url).netloc or worker.url)
        is_lost = any(self._is_said_to_run(unit) for unit in worker.new_owners)
        log.log(
            logging.WARNING if is_lost else logging.INFO,
            "worker %s %s group %s%s",
            worker.url,
            "is lost to" if is_lost else "has left",
            self._group,
            f": {'; '.join(moves)}" if moves else "",
        )

    def _is_configured(self, unit: Unit) -> bool:
        config = self._context.config
        return unit in config.tasks(unit.connector) if isinstance(unit, ConnectorTaskId) else config.contains(unit)

    def _is_said_to_run(self, unit: Unit) -> bool:
        """Return whether its worker has not given it up: a worker that stops writes UNASSIGNED before it leaves."""
        statuses = self._context.statuses
        status = statuses.task(unit) if isinstance(unit, ConnectorTaskId) else statuses.connector(unit)
        return status is not None and status.state is not TaskState.UNASSIGNED
