"""Generated lives of groups, for our assignors and for Kafka's (``assignor_answers``).

A life is a kind of group, an assignor and steps. A step makes some changes, then the assignor computes a target
assignment:

- ``topics``: ``[name, id, partition count]`` each; more partitions than before are added, None deletes the topic.
- ``leave``: ids of members. ``joined``: members that joined before, without an assignment.
- ``assigned``: replaces what these members have: ``[topic id, partitions]`` each.
- ``resolved``: the topics of a regular expression. ``assignable``: the partitions of each topic with a share state.
- ``subtopologies``: ``[id, task count, is stateful]`` each. ``standbys``: the number of standby replicas.
- ``member``: the member that joins or changes with this step. ``replaces``: the static member in whose place it is.
"""

from __future__ import annotations

from random import Random
from typing import Any

from barnabas.common.uuid import Uuid

__all__ = ["CONSUMER", "SHARE", "STREAMS", "Life", "generated_lives"]

Life = dict[str, Any]

CONSUMER, SHARE, STREAMS = "consumer", "share", "streams"
PARTITIONS_MAX = 40
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


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
        self._partition_max = random.choice((2, 6, 6, 12, 12, PARTITIONS_MAX))
        self._member_max = random.choice((3, 3, 6, 6, 15, 15, 60))
        self._subscriptions: list[list[str]] = []
        self._has_regex = kind == CONSUMER and random.random() < 0.2
        self._assignable: dict[str, list[int]] = {}
        self._announced: dict[str, list[int]] | None = None

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
        if "member" not in step:
            step["member"] = random.choice(list(self._members.values()))
        self._add_assignable(step)
        return step

    def _joins(self, step: dict[str, Any]) -> None:
        step["joined"] = [self._new_member() for _ in range(self._random.choice((0, 0, 1, 3)))]
        step["member"] = self._new_member()

    def _leave(self, step: dict[str, Any]) -> None:
        """At least one member stays: without members a coordinator assigns nothing."""
        staying = step.get("member", {}).get("id")
        leaving = [name for name in self._members if name != staying]
        count = min(len(leaving) - (staying is None), self._random.choice((1, 1, 2, 5)))
        step["leave"] = self._random.sample(leaving, max(count, 0))
        for name in step["leave"]:
            del self._members[name]

    def _subscribes(self, step: dict[str, Any]) -> None:
        member = dict(self._random.choice(list(self._members.values())))
        member["names"] = self._random.choice((self._some_names(), self._random.choice(self._subscriptions)))
        self._members[member["id"]] = step["member"] = member

    def _topics_change(self, step: dict[str, Any]) -> None:
        random = self._random
        topics = step["topics"] = []
        if self._partitions and random.random() < 0.6:
            name = random.choice(list(self._partitions))
            self._partitions[name] = min(
                self._partitions[name] + random.randint(1, self._partition_max), PARTITIONS_MAX
            )
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
        assignable = {self._topic_ids[name]: sorted(known) for name, known in self._assignable.items()}
        if assignable != self._announced:
            self._announced = step["assignable"] = assignable

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
        return "".join(self._random.choices(_LETTERS, k=self._random.choice((6, 6, 6, 22))))

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
        if "member" not in step:
            step["member"] = random.choice(list(self._members.values()))
        return step

    def _moves(self, step: dict[str, Any]) -> None:
        """A member runs in another process."""
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
