"""Lives of groups for the assignors: generated, lived by ours, and lived by Kafka's (``java/Assignors.java``).

A life is a kind of group, an assignor and steps. A step makes some changes, then the assignor computes a target
assignment:

- ``topics``: ``[name, id, partition count]`` each; more partitions than before are added, None deletes the topic.
- ``leave``: ids of members. ``joined``: members that joined before, without an assignment.
- ``assigned``: replaces what these members have: ``[topic id, partitions]`` each.
- ``resolved``: the topics of a regular expression. ``assignable``: the partitions of each topic with a share state.
- ``subtopologies``: ``[id, task count, is stateful]`` each. ``standbys``: the number of standby replicas.
- ``member``: the member that joins or changes with this step. ``replaces``: the static member in whose place it is.

An answer is the list of the records that Kafka writes, in order: the member and its assignment, with the order of topics
and partitions; or the class of an error.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
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
from tests.peers.java import run_source

__all__ = ["CONSUMER", "SHARE", "STREAMS", "Life", "answers_of_kafka", "answers_of_ours", "generated_lives"]

Life = dict[str, Any]
Answer = Any

CONSUMER, SHARE, STREAMS = "consumer", "share", "streams"
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


# -- Kafka's answers


def answers_of_kafka(lives: Sequence[Life]) -> list[list[Answer]]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "lives.jsonl"
        file.write_text("".join(json.dumps(life) + "\n" for life in lives))
        lines = run_source("Assignors", str(file), timeout_s=600).splitlines()
    assert len(lines) == len(lives)
    return [json.loads(line) for line in lines]


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


# -- generated lives


def generated_lives(random: Random, kind: str, count: int) -> list[Life]:
    author = _StreamsAuthor if kind == STREAMS else _Author
    return [author(random, kind).life() for _ in range(count)]


class _Author:
    """Writes one life. Most groups are small, because those show a difference as well and are easier to understand."""

    def __init__(self, random: Random, kind: str) -> None:
        self._random = random
        self._kind = kind
        self._assignor = {SHARE: "simple", STREAMS: "sticky"}.get(kind) or random.choice(("uniform",) * 3 + ("range",))
        self._partitions: dict[str, int] = {}
        self._topic_ids: dict[str, str] = {}
        self._members: dict[str, dict[str, Any]] = {}
        self._partition_max = random.choice((2, 6, 12, 40))
        self._member_max = random.choice((3, 6, 15, 60))
        self._subscriptions: list[list[str]] = []
        self._has_regex = kind == CONSUMER and random.random() < 0.2
        self._assignable: dict[str, list[int]] = {}

    def life(self) -> Life:
        steps = [self._first_step(), *(self._next_step() for _ in range(self._random.randint(2, 6)))]
        return {"kind": self._kind, "assignor": self._assignor, "steps": steps}

    def _first_step(self) -> dict[str, Any]:
        random = self._random
        step: dict[str, Any] = {
            "topics": [self._new_topic() for _ in range(random.randint(1, random.choice((2, 6, 20))))]
        }
        self._subscriptions = [self._some_names() for _ in range(random.choice((1, 1, 2, 4)))]
        members = [self._new_member() for _ in range(random.randint(1, self._member_max))]
        step["joined"] = members[:-1]
        step["member"] = members[-1]
        if self._has_regex:
            step["resolved"] = {"t.*": self._some_names()}
        if random.random() < 0.15:
            step["assigned"] = self._random_assignment()
        self._add_assignable(step)
        return step

    def _next_step(self) -> dict[str, Any]:
        random = self._random
        step: dict[str, Any] = {}
        happenings = [self._joins, self._joins, self._leave, self._leave, self._subscribes, self._topics_change]
        random.choice([*happenings, self._replaces, self._resolves, lambda step: None])(step)
        if random.random() < 0.2:
            self._leave(step)
        if "member" not in step and self._members:
            step["member"] = random.choice(list(self._members.values()))
        self._add_assignable(step)
        return step

    def _joins(self, step: dict[str, Any]) -> None:
        step["joined"] = [self._new_member() for _ in range(self._random.choice((0, 0, 1, 3)))]
        step["member"] = self._new_member()

    def _leave(self, step: dict[str, Any]) -> None:
        names = [name for name in self._members if name not in (step.get("member", {}).get("id"), step.get("replaces"))]
        count = min(len(names), self._random.choice((1, 1, 2, 5)))
        step["leave"] = self._random.sample(names, count)
        for name in step["leave"]:
            del self._members[name]

    def _subscribes(self, step: dict[str, Any]) -> None:
        if not self._members:
            return
        member = dict(self._random.choice(list(self._members.values())))
        member["names"] = self._random.choice((self._some_names(), self._random.choice(self._subscriptions)))
        self._members[member["id"]] = step["member"] = member

    def _topics_change(self, step: dict[str, Any]) -> None:
        random = self._random
        topics = step["topics"] = []
        if self._partitions and random.random() < 0.6:
            name = random.choice(list(self._partitions))
            self._partitions[name] += random.randint(1, self._partition_max)
            topics.append([name, self._topic_ids[name], self._partitions[name]])
        elif self._partitions and random.random() < 0.5:
            name = random.choice(list(self._partitions))
            del self._partitions[name]
            topics.append([name, self._topic_ids.pop(name), None])
            self._assignable.pop(name, None)
        else:
            topics.append(self._new_topic())

    def _replaces(self, step: dict[str, Any]) -> None:
        static = [member for member in self._members.values() if "instance" in member]
        if not static:
            return
        old = self._random.choice(static)
        new = {**old, "id": self._name()}
        del self._members[old["id"]]
        self._members[new["id"]] = new
        step["member"], step["replaces"] = new, old["id"]

    def _resolves(self, step: dict[str, Any]) -> None:
        if self._has_regex:
            step["resolved"] = {"t.*": self._some_names()}

    def _add_assignable(self, step: dict[str, Any]) -> None:
        """Most partitions have a share state; once initialized, they keep it."""
        if self._kind != SHARE:
            return
        for name, count in self._partitions.items():
            known = self._assignable.setdefault(name, [])
            known += [
                partition for partition in range(count) if partition not in known and self._random.random() < 0.95
            ]
            if self._random.random() < 0.02:
                known.clear()
        step["assignable"] = {self._topic_ids[name]: sorted(known) for name, known in self._assignable.items()}

    def _random_assignment(self) -> dict[str, Any]:
        """Any partitions: of topics without a subscription, and several members with one."""
        random = self._random
        assigned: dict[str, Any] = {}
        names = list(self._partitions)
        free = {name: random.sample(range(count), count) for name, count in self._partitions.items()}
        for member_id in random.sample(list(self._members), random.randint(1, len(self._members))):
            topics = []
            for name in random.sample(names, random.randint(0, len(names))):
                count = random.randint(0, len(free[name]))
                if self._kind == SHARE:
                    partitions = random.sample(range(self._partitions[name]), count)
                else:
                    partitions, free[name] = free[name][:count], free[name][count:]
                if partitions:
                    topics.append([self._topic_ids[name], partitions])
            assigned[member_id] = topics
        return assigned

    def _new_topic(self) -> list[Any]:
        name = f"t{self._random.choice(('', '-', 'opic.'))}{self._random.randint(0, 999)}"
        while name in self._partitions:
            name += "x"
        self._partitions[name] = self._random.randint(1, self._partition_max)
        self._topic_ids[name] = str(Uuid(self._random.randbytes(16)))
        return [name, self._topic_ids[name], self._partitions[name]]

    def _new_member(self) -> dict[str, Any]:
        random = self._random
        names = random.choice(self._subscriptions)
        if random.random() < 0.1:
            names = random.sample(names, len(names))
        member: dict[str, Any] = {"id": self._name(), "names": names}
        if random.random() < 0.4:
            member["rack"] = random.choice("abc")
        if self._kind == CONSUMER and random.random() < 0.3:
            member["instance"] = f"i{random.randint(0, 10**6)}"
        if self._has_regex and random.random() < 0.5:
            member["regex"] = "t.*"
        self._members[member["id"]] = member
        return member

    def _name(self) -> str:
        if self._random.random() < 0.1:
            return f"member-{self._random.randint(0, 10**6)}"
        return "".join(self._random.choices(_LETTERS, k=22))

    def _some_names(self) -> list[str]:
        names = list(self._partitions)
        if not names:
            return []
        chosen = self._random.sample(names, self._random.randint(0 if self._random.random() < 0.05 else 1, len(names)))
        return [*chosen, "absent"] if self._random.random() < 0.1 else chosen


class _StreamsAuthor(_Author):
    def __init__(self, random: Random, kind: str) -> None:
        super().__init__(random, kind)
        self._processes = [self._name() for _ in range(random.choice((1, 3, 10, 60)))]

    def _first_step(self) -> dict[str, Any]:
        random = self._random
        members = [self._new_member() for _ in range(random.randint(1, self._member_max))]
        return {
            "subtopologies": self._some_subtopologies(),
            "standbys": random.choice((0, 0, 1, 1, 2, 3)),
            "joined": members[:-1],
            "member": members[-1],
        }

    def _next_step(self) -> dict[str, Any]:
        random = self._random
        step: dict[str, Any] = {}
        happenings = [self._joins, self._joins, self._leave, self._leave, self._moves, self._replaces]
        random.choice([*happenings, self._topology_changes, lambda step: None])(step)
        if random.random() < 0.2:
            self._leave(step)
        if "member" not in step and self._members:
            step["member"] = random.choice(list(self._members.values()))
        return step

    def _moves(self, step: dict[str, Any]) -> None:
        """A member runs in another process."""
        if self._members:
            member = {**self._random.choice(list(self._members.values())), "process": self._name()}
            self._members[member["id"]] = step["member"] = member

    def _topology_changes(self, step: dict[str, Any]) -> None:
        if self._random.random() < 0.5:
            step["subtopologies"] = self._some_subtopologies()
        else:
            step["standbys"] = self._random.choice((0, 1, 2))

    def _some_subtopologies(self) -> list[list[Any]]:
        random = self._random
        count = random.choice((1, 2, 4, 12))
        return [[str(number), random.randint(1, self._partition_max), random.random() < 0.7] for number in range(count)]

    def _new_member(self) -> dict[str, Any]:
        random = self._random
        member = {"id": self._name(), "process": random.choice(self._processes), "zone": random.choice("abc")}
        if random.random() < 0.3:
            member["instance"] = f"i{random.randint(0, 10**6)}"
        self._members[member["id"]] = member
        return member
