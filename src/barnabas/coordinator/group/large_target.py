"""The target of a large group: computed in steps, between requests, and stored in several batches.

Until the last record, which has the epoch, members follow the former target. A coordinator that loads only a part of
the batches computes the target again. Where a partition or task belongs to one member, members whose partitions others
receive lose them first, so that at no time two members have one partition as their target.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from barnabas.coordinator.coordinator_result import CoordinatorRecord, CoordinatorResult
from barnabas.coordinator.group.assignor.group_spec import Steps, WorkMeter
from barnabas.coordinator.group.groups import Groups
from barnabas.coordinator.group.modern_group import ModernGroup
from barnabas.coordinator.group.stepped_work import SteppedWork, Work, in_work

__all__ = ["LargeTargets", "TargetInput", "TargetKind", "is_large", "of_present"]

G = TypeVar("G", bound=ModernGroup[Any, Any])
G_contra = TypeVar("G_contra", bound=ModernGroup[Any, Any], contravariant=True)
T = TypeVar("T")

_SIZE_MAX = 4_000
"""Members and partitions of a group whose target is computed in one step."""
_BATCH_PARTITIONS_MAX = 2_000
"""Members and partitions in the records of one batch: some milliseconds to write, and much smaller than a message may
be."""
_TARGET = "target"

Nothing = CoordinatorResult[None]
Batches = Generator[Nothing | None, int, None]


class TargetKind(NamedTuple, Generic[T]):
    """The targets of one kind of group, and their records."""

    nothing: T
    member_record: Callable[[str, str, T], CoordinatorRecord]
    epoch_record: Callable[[str, int, int], CoordinatorRecord]
    size: Callable[[T], int]
    """The number of partitions or tasks of a target."""
    kept: Callable[[T, T], T] | None
    """What a member keeps of its former target; None where members may share partitions."""


class TargetInput(Protocol[G_contra, T]):
    """What a target is computed from. Nothing of it may change meanwhile."""

    @property
    def epoch(self) -> int:
        """The group epoch that the target is for."""

    def targets_in_steps(self) -> Steps[Mapping[str, T]]:
        """Compute the target of each member in steps of a few milliseconds; raise ApiException."""

    def held(self, group: G_contra, targets: Mapping[str, T]) -> Iterable[tuple[str, T]]:
        """Return the targets by the ids of members that are present now."""


def is_large(member_count: int, partition_counts: Iterable[int]) -> bool:
    """Return whether the target of a group is computed in steps."""
    size = member_count
    for count in partition_counts:
        if size > _SIZE_MAX:
            break
        size += count
    return size > _SIZE_MAX


def of_present(group: ModernGroup[Any, T], targets: Mapping[str, T]) -> Iterator[tuple[str, T]]:
    """Return the targets of members that have not left."""
    return ((member_id, target) for member_id, target in targets.items() if member_id in group.members)


class LargeTargets(Generic[G, T]):
    """Computes and stores the targets of groups of one kind, in one partition of ``__consumer_offsets``."""

    def __init__(self, groups: Groups, group_class: type[G], kind: TargetKind[T], work: SteppedWork) -> None:
        self._groups = groups
        self._group_class = group_class
        self._kind = kind
        self._work = work

    def is_running(self, group_id: str) -> bool:
        return self._work.is_running((group_id, _TARGET))

    def start(self, group_id: str, input_of: Callable[[G], TargetInput[G, T]], now_ms: int) -> None:
        """Compute the target for the epoch that the group has after the present decision."""
        self._work.start((group_id, _TARGET), self._store_new_target(group_id, input_of), now_ms)

    def _store_new_target(self, group_id: str, input_of: Callable[[G], TargetInput[G, T]]) -> Work:
        group = self._groups.find(group_id)
        if not isinstance(group, self._group_class) or group.assignment_epoch >= group.epoch:
            return
        input_ = input_of(group)
        targets = yield from in_work(input_.targets_in_steps())
        if self._kind.kept is not None:
            yield from self._store(group, input_.held(group, targets), self._kind.kept)
        yield from self._store(group, input_.held(group, targets), _whole)
        now_ms = yield None
        if self._is_present(group):
            yield CoordinatorResult([self._kind.epoch_record(group_id, input_.epoch, now_ms)], is_ahead=True)

    def _store(self, group: G, targets: Iterable[tuple[str, T]], changed: Callable[[T, T], T]) -> Batches:
        """Write what ``changed`` makes of the former and the new target of each member, while the group exists."""
        kind = self._kind
        records: list[CoordinatorRecord] = []
        size, meter = 0, WorkMeter()
        for member_id, target in targets:
            if meter.is_full(2):
                yield None
            before = group.target.get(member_id, kind.nothing)
            after = changed(before, target)
            if after != before:
                records.append(kind.member_record(group.group_id, member_id, after))
                size += 1 + kind.size(after)
            if size > _BATCH_PARTITIONS_MAX:
                yield CoordinatorResult(records, is_ahead=True)
                if not self._is_present(group):
                    return
                records, size = [], 0
        if records and self._is_present(group):
            yield CoordinatorResult(records, is_ahead=True)

    def _is_present(self, group: G) -> bool:
        return self._groups.find(group.group_id) is group


def _whole(before: T, target: T) -> T:
    return target
