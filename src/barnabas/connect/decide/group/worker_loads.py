"""The load of each worker, and how to balance it. Connectors and tasks are balanced separately.

A connector is written as a task with the number -1 here, so that sets of work are one kind of set.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from barnabas.connect.identifiers import ConnectorTaskId

__all__ = ["CONNECTOR", "WorkerLoad", "balancing_revocations", "connector", "fill", "is_connector"]

CONNECTOR = -1


def connector(name: str) -> ConnectorTaskId:
    return ConnectorTaskId(name, CONNECTOR)


def is_connector(item: ConnectorTaskId) -> bool:
    return item.task == CONNECTOR


class WorkerLoad:
    """The work of one member, in the order of assignment."""

    __slots__ = ("connectors", "member_id", "tasks")

    def __init__(self, member_id: str, items: Iterable[ConnectorTaskId]) -> None:
        self.member_id = member_id
        self.connectors: list[ConnectorTaskId] = []
        self.tasks: list[ConnectorTaskId] = []
        for item in items:
            self.add(item)

    @property
    def is_empty(self) -> bool:
        return not self.connectors and not self.tasks

    @property
    def items(self) -> list[ConnectorTaskId]:
        return [*self.connectors, *self.tasks]

    def of_kind(self, *, connectors: bool) -> list[ConnectorTaskId]:
        return self.connectors if connectors else self.tasks

    def add(self, item: ConnectorTaskId) -> None:
        self.of_kind(connectors=is_connector(item)).append(item)

    def remove(self, gone: Collection[ConnectorTaskId]) -> None:
        self.connectors = [connector for connector in self.connectors if connector not in gone]
        self.tasks = [task for task in self.tasks if task not in gone]


def fill(loads: Sequence[WorkerLoad], items: Iterable[ConnectorTaskId]) -> None:
    """Give each item to the member with the fewest of its kind. Ties: fewer before, then by id."""
    for kind in (True, False):
        in_turn = sorted(loads, key=lambda load: (len(load.of_kind(connectors=kind)), load.member_id))
        for item in sorted(unit for unit in items if is_connector(unit) is kind):
            min(in_turn, key=lambda load: len(load.of_kind(connectors=kind))).add(item)


def balancing_revocations(
    loads: Sequence[WorkerLoad], configured: Collection[ConnectorTaskId]
) -> dict[str, set[ConnectorTaskId]]:
    """The work that members must give up so that none exceeds its share. Empty if all are within it."""
    revoked: dict[str, set[ConnectorTaskId]] = {}
    if all(load.is_empty for load in loads):
        return revoked
    for kind in (True, False):
        total = sum(1 for item in configured if is_connector(item) is kind)
        for member_id, items in _beyond_share(loads, total, connectors=kind).items():
            revoked.setdefault(member_id, set()).update(items)
    return revoked


def _beyond_share(loads: Sequence[WorkerLoad], total: int, *, connectors: bool) -> dict[str, list[ConnectorTaskId]]:
    share, extra_count = divmod(total, len(loads))
    sizes = [len(load.of_kind(connectors=connectors)) for load in loads]
    with_extra = sizes.count(share + 1)
    if with_extra == extra_count and with_extra + sizes.count(share) == len(loads):
        return {}
    beyond: dict[str, list[ConnectorTaskId]] = {}
    for load in loads:
        items = load.of_kind(connectors=connectors)
        if len(items) <= share:
            continue
        keeps = share
        if extra_count > 0:
            extra_count -= 1
            keeps += 1
        if len(items) > keeps:
            beyond[load.member_id] = items[: len(items) - keeps]
    return beyond
