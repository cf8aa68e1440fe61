"""The target of a large group: computed in steps, between requests, and stored in several batches.

Until the last record, which has the epoch, members follow the former target. A coordinator that loads only a part of
the batches computes the target again. Members whose partitions others receive lose them first, so that at no time two
members have one partition as their target.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator

from barnabas.coordinator.coordinator_result import CoordinatorRecord, CoordinatorResult
from barnabas.coordinator.group.assignor.group_spec import WorkMeter
from barnabas.coordinator.group.cluster_view import ClusterView
from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.group.consumer.consumer_group_records import (
    target_assignment_epoch_record,
    target_assignment_record,
)
from barnabas.coordinator.group.consumer.target_assignment import AssignmentInput, Targets
from barnabas.coordinator.group.modern_group import NO_PARTITIONS, Partitions
from barnabas.coordinator.group.stepped_work import Work, in_work

__all__ = ["is_large", "store_new_target"]

_SIZE_MAX = 4_000
"""Members and partitions of a group whose target is computed in one step."""
_BATCH_PARTITIONS_MAX = 4_000
"""Members and partitions in the records of one batch: some milliseconds to write, and much smaller than a message may
be."""

Nothing = CoordinatorResult[None]
Batches = Generator[Nothing | None, int, None]


def is_large(member_count: int, topics: Iterable[str], view: ClusterView) -> bool:
    """Return whether the target of a group with these topics is computed in steps."""
    size = member_count
    for topic in topics:
        topic_id = view.id_of(topic)
        if topic_id is not None:
            size += view.partition_count(topic_id)
        if size > _SIZE_MAX:
            return True
    return size > _SIZE_MAX


def store_new_target(
    group: ConsumerGroup, assignor: str, view: ClusterView, is_present: Callable[[ConsumerGroup], bool]
) -> Work:
    """Compute and store the target for the group's present epoch, unless the group ends meanwhile."""
    epoch, input_ = group.epoch, AssignmentInput.copied(group, assignor, view)
    targets = yield from in_work(input_.targets_in_steps())
    instances = {member_id: member.instance_id for member_id, member in input_.members.items()}
    for changes in (_kept, _whole):
        yield from _store(group, _held_now(group, targets, instances), changes, is_present)
    now_ms = yield None
    if is_present(group):
        record: CoordinatorRecord = target_assignment_epoch_record(group.group_id, epoch, now_ms)
        yield CoordinatorResult([record], is_ahead=True)


def _store(
    group: ConsumerGroup,
    targets: Iterable[tuple[str, Partitions]],
    changed: Callable[[Partitions, Partitions], Partitions],
    is_present: Callable[[ConsumerGroup], bool],
) -> Batches:
    """Write what ``changed`` makes of the former and the new target of each member."""
    records: list[CoordinatorRecord] = []
    size, meter = 0, WorkMeter()
    for member_id, target in targets:
        if meter.is_full(2):
            yield None
        before = group.target.get(member_id, NO_PARTITIONS)
        after = changed(before, target)
        if after != before:
            records.append(target_assignment_record(group.group_id, member_id, after))
            size += 1 + sum(map(len, after.values()))
        if size > _BATCH_PARTITIONS_MAX:
            yield CoordinatorResult(records, is_ahead=True)
            if not is_present(group):
                return
            records, size = [], 0
    if records and is_present(group):
        yield CoordinatorResult(records, is_ahead=True)


def _held_now(
    group: ConsumerGroup, targets: Targets, instances: dict[str, str | None]
) -> Iterator[tuple[str, Partitions]]:
    """Return the targets by the ids of present members: a static one may have been replaced, others may have left."""
    for member_id, target in targets.items():
        if member_id in group.members:
            yield member_id, target
            continue
        instance_id = instances.get(member_id)
        successor = None if instance_id is None else group.static_members.get(instance_id)
        if successor is not None and successor not in targets:
            yield successor, target


def _kept(before: Partitions, target: Partitions) -> Partitions:
    if before == target:
        return before
    kept = {topic_id: of_topic & target.get(topic_id, frozenset()) for topic_id, of_topic in before.items()}
    return {topic_id: of_topic for topic_id, of_topic in kept.items() if of_topic}


def _whole(before: Partitions, target: Partitions) -> Partitions:
    return target
