"""The work of this worker: assigned, announced for a start, and still to be stopped."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.connect.decide.group.connect_protocol import Assignment
from barnabas.connect.decide.group.membership_events import MembershipEvent, StopWork
from barnabas.connect.identifiers import ConnectorTaskId

__all__ = ["LocalAssignment"]


class LocalAssignment:
    """``allocation`` is reported to the group, even before all of it was announced to the worker."""

    def __init__(self, notify: Callable[[MembershipEvent], None], new_id: Callable[[], int]) -> None:
        self.allocation: Assignment | None = None
        self._notify = notify
        self._new_id = new_id
        self._stops: set[int] = set()
        self._announced: frozenset[str | ConnectorTaskId] = frozenset()

    @property
    def is_stopping(self) -> bool:
        return bool(self._stops)

    def take(self, assignment: Assignment, *, is_cooperative: bool) -> bool:
        """Apply the assignment of a round. Return whether work was revoked and is being stopped."""
        before = self.allocation or Assignment()
        if is_cooperative:
            self.allocation = before.followed_by(assignment)
            gone_connectors, gone_tasks = assignment.revoked_connectors, assignment.revoked_tasks
        else:
            self.allocation = assignment
            gone_connectors = tuple(
                connector for connector in before.connectors if connector not in assignment.connectors
            )
            gone_tasks = tuple(task for task in before.tasks if task not in assignment.tasks)
        if not gone_connectors and not gone_tasks:
            return False
        self._announced -= {*gone_connectors, *gone_tasks}
        self._stop(gone_connectors, gone_tasks, "it was revoked for another worker, or was deleted")
        return True

    def announce(self) -> tuple[Assignment, tuple[str, ...], tuple[ConnectorTaskId, ...]]:
        """Announce all work to the worker: the assignment, and its new connectors and tasks."""
        allocation = self.allocation or Assignment()
        connectors = tuple(connector for connector in allocation.connectors if connector not in self._announced)
        tasks = tuple(task for task in allocation.tasks if task not in self._announced)
        self._announced = frozenset((*allocation.connectors, *allocation.tasks))
        return allocation, connectors, tasks

    def give_up(self, reason: str) -> None:
        """Stop everything; the work no longer belongs to this worker."""
        allocation, self.allocation = self.allocation, None
        self._announced = frozenset()
        if allocation is not None and allocation.has_work:
            self._stop(allocation.connectors, allocation.tasks, reason)

    def clear(self) -> None:
        """Note that nothing runs."""
        self.allocation = None
        self._announced = frozenset()
        self._stops.clear()

    def stopped(self, stop_id: int) -> None:
        self._stops.discard(stop_id)

    def _stop(self, connectors: tuple[str, ...], tasks: tuple[ConnectorTaskId, ...], reason: str) -> None:
        stop_id = self._new_id()
        self._stops.add(stop_id)
        self._notify(StopWork(stop_id, connectors, tasks, reason))
