"""What our assignors and Kafka's (``java/Assignors.java``) do in the life of a group.

An answer is the list of the records that Kafka writes, in order: each has the member and its assignment, with the order
of topics and partitions. For an error, the answer names its class.

Kafka's ``simple`` fails with a NoSuchElementException if partitions are assigned that may not be, and all members have
enough. ``compared_steps`` ends a life before such a step.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from barnabas.common.steps import whole
from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.assignor.assignors import assignor_named
from barnabas.coordinator.group.assignor.group_spec import (
    GroupSpec,
    MemberSubscription,
    PartitionAssignorError,
)
from barnabas.coordinator.group.assignor.hash_order import in_order, names_in_order, ordered
from barnabas.coordinator.group.assignor.member_assignment import iterated
from barnabas.coordinator.group.assignor.sticky_tasks import StickyTaskAssignor
from barnabas.coordinator.group.assignor.task_group_spec import (
    MemberTasks,
    StreamsMember,
    Subtopology,
    TaskAssignorError,
    TaskGroupSpec,
    Tasks,
)
from barnabas.coordinator.group.group_state import GroupType
from tests.peers.assignor_lives import SHARE, STREAMS, Life
from tests.peers.java import run_source

__all__ = ["answers_of_kafka", "answers_of_ours", "compared_steps"]

Answer = Any

# -- Kafka's answers


def answers_of_kafka(lives: Sequence[Life]) -> list[list[Answer]]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "lives.jsonl"
        file.write_text("".join(json.dumps(life) + "\n" for life in lives))
        lines = run_source("Assignors", str(file), timeout_s=600).splitlines()
    assert len(lines) == len(lives)
    return [json.loads(line) for line in lines]


def compared_steps(answers: Sequence[Answer]) -> int:
    """Return how many of Kafka's answers have to be ours."""
    for number, answer in enumerate(answers):
        if answer == {"error": "NoSuchElementException"}:
            return number
    return len(answers)


# -- our answers


def answers_of_ours(life: Life) -> list[Answer]:
    group = _StreamsGroup() if life["kind"] == STREAMS else _ModernGroup(life)
    return [group.answer_to(step) for step in life["steps"]]


class _Topics:
    """The topics by name, and their partition counts."""

    def __init__(self) -> None:
        self.ids: dict[str, Uuid] = {}
        self._counts: dict[Uuid, int] = {}

    def change(self, name: str, topic_id: Uuid, count: int | None) -> None:
        if count is None:
            del self._counts[self.ids.pop(name)]
        else:
            self.ids[name] = topic_id
            self._counts[topic_id] = count

    def partition_count(self, topic_id: Uuid) -> int:
        return self._counts.get(topic_id, -1)

    def racks(self, topic_id: Uuid, partition: int) -> frozenset[str]:
        return frozenset()


class _ModernGroup:
    def __init__(self, life: Life) -> None:
        kind = GroupType.SHARE if life["kind"] == SHARE else GroupType.CONSUMER
        assignor = assignor_named(life["assignor"], kind)
        assert assignor is not None
        self._assignor = assignor
        self._topics = _Topics()
        self._members: dict[str, dict[str, Any]] = {}
        self._member_count_max = 0
        self._target: dict[str, Mapping[Uuid, frozenset[int]]] = {}
        self._resolved: dict[str, list[str]] = {}
        self._assignable: dict[Uuid, frozenset[int]] | None = {} if life["kind"] == SHARE else None

    def answer_to(self, step: Mapping[str, Any]) -> Answer:
        self._change(step)
        members = {**self._members, **_updates(step)}
        try:
            return self._assign(step, {id_: member for id_, member in members.items() if member is not None})
        except PartitionAssignorError:
            return {"error": "PartitionAssignorException"}
        finally:
            if "replaces" in step:
                self._forget(step["replaces"])
            if "member" in step:
                self._join(step["member"])

    def _change(self, step: Mapping[str, Any]) -> None:
        for member_id in step.get("leave", ()):
            self._forget(member_id)
        for member in step.get("joined", ()):
            self._join(member)
        for name, topic_id, count in step.get("topics", ()):
            self._topics.change(name, Uuid.from_string(topic_id), count)
        for member_id, topics in step.get("assigned", {}).items():
            self._target[member_id] = {
                Uuid.from_string(topic_id): ordered(partitions) for topic_id, partitions in topics
            }
        self._resolved.update(step.get("resolved", {}))
        if "assignable" in step:
            self._assignable = {
                Uuid.from_string(topic_id): frozenset(partitions) for topic_id, partitions in step["assignable"].items()
            }

    def _join(self, member: dict[str, Any]) -> None:
        self._members[member["id"]] = member
        self._member_count_max = max(self._member_count_max, len(self._members))

    def _forget(self, member_id: str) -> None:
        self._members.pop(member_id, None)
        self._target.pop(member_id, None)

    def _assign(self, step: Mapping[str, Any], after: Mapping[str, Mapping[str, Any]]) -> Answer:
        shared: dict[tuple[tuple[Uuid, ...], int], frozenset[Uuid]] = {}
        updates = _updates(step)

        def subscription(member_id: str, member: Mapping[str, Any] | None) -> MemberSubscription | None:
            if member is None:
                return None
            names = self._names(member)
            ids = tuple(self._topics.ids[name] for name in names if name in self._topics.ids)
            previous = step["replaces"] if "replaces" in step and member_id in updates else member_id
            return MemberSubscription(
                member.get("rack"),
                member.get("instance"),
                shared.setdefault((ids, len(names)), ordered(ids, len(names))),
                self._target.get(member_id, {}) if previous == member_id else iterated(self._target.get(previous, {})),
            )

        members = {id_: subscription(id_, member) for id_, member in self._members.items()}
        changed = {id_: subscription(id_, member) for id_, member in updates.items()}
        spec = GroupSpec(
            members,
            updates=changed,
            member_count_max=self._member_count_max,
            is_homogeneous=self._is_homogeneous(after),
            assignable=self._assignable,
        )
        target = self._assignor.assign(spec, self._topics)
        answer = []
        for member_id in whole(spec.ordered_members()):
            assigned = target.get(member_id, {})
            if assigned != self._target.get(member_id):
                answer.append([member_id, _listed(assigned)])
                self._target[member_id] = assigned
        return answer

    def _names(self, member: Mapping[str, Any]) -> list[str]:
        named = names_in_order(member["names"])
        found = names_in_order(self._resolved.get(member.get("regex", ""), []))
        large, small = (named, found) if len(named) > len(found) else (found, named)
        return list(dict.fromkeys((*large, *small)))

    def _is_homogeneous(self, members: Mapping[str, Mapping[str, Any]]) -> bool:
        counts: Counter[str] = Counter()
        for member in members.values():
            counts.update(set(member["names"]))
            counts.update(dict.fromkeys(self._resolved.get(member.get("regex", ""), ()), 0))
        return all(count == len(members) for count in counts.values())


class _StreamsGroup:
    def __init__(self) -> None:
        self._members: dict[str, dict[str, Any]] = {}
        self._member_count_max = 0
        self._target: dict[str, MemberTasks] = {}
        self._subtopologies: dict[str, Subtopology] = {}
        self._standbys = 0

    def answer_to(self, step: Mapping[str, Any]) -> Answer:
        for member_id in step.get("leave", ()):
            self._forget(member_id)
        for member in step.get("joined", ()):
            self._join(member)
        if "subtopologies" in step:
            self._subtopologies = {id_: Subtopology(count, stateful) for id_, count, stateful in step["subtopologies"]}
        self._standbys = step.get("standbys", self._standbys)
        try:
            return self._assign(step)
        except TaskAssignorError:
            return {"error": "TaskAssignorException"}
        finally:
            if "replaces" in step:
                self._forget(step["replaces"])
            if "member" in step:
                self._join(step["member"])

    def _join(self, member: dict[str, Any]) -> None:
        self._members[member["id"]] = member
        self._member_count_max = max(self._member_count_max, len(self._members))

    def _forget(self, member_id: str) -> None:
        self._members.pop(member_id, None)
        self._target.pop(member_id, None)

    def _assign(self, step: Mapping[str, Any]) -> Answer:
        updates = _updates(step)

        def described(member_id: str, member: Mapping[str, Any] | None) -> StreamsMember | None:
            if member is None:
                return None
            previous = step["replaces"] if "replaces" in step and member_id in updates else member_id
            return StreamsMember(member["process"], self._target.get(previous, MemberTasks()))

        spec = TaskGroupSpec(
            {id_: described(id_, member) for id_, member in self._members.items()},
            {id_: described(id_, member) for id_, member in updates.items()},
            self._standbys,
            self._member_count_max,
        )
        target = StickyTaskAssignor().assign(spec, self._subtopologies)
        answer = []
        for member_id in whole(spec.ordered_members()):
            if target[member_id] != self._target.get(member_id):
                self._target[member_id] = target[member_id]
                answer.append([member_id, *map(_listed_tasks, target[member_id])])
        return answer


def _listed_tasks(tasks: Tasks) -> list[list[Any]]:
    return [[subtopology_id, sorted(tasks[subtopology_id])] for subtopology_id in sorted(tasks)]


def _updates(step: Mapping[str, Any]) -> dict[str, Any]:
    updates: dict[str, Any] = {}
    if "member" in step:
        updates[step["member"]["id"]] = step["member"]
    if "replaces" in step:
        updates[step["replaces"]] = None
    return updates


def _listed(assigned: Mapping[Uuid, frozenset[int]]) -> list[list[Any]]:
    return [[str(topic_id), list(in_order(partitions))] for topic_id, partitions in assigned.items()]
