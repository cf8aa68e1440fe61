"""Random steps in the lives of streams groups, for ``StreamsGroupLives.java`` and our coordinator.

Epochs and tasks depend on earlier answers: a step asks for those that the member knows, and the recording has the
request as it was made.
"""

from __future__ import annotations

from random import Random
from typing import Any

__all__ = ["GROUPS", "SETTINGS", "SOURCES", "SERVED_SOURCE", "life", "steps_without_time"]

Json = dict[str, Any]

GROUPS = ("counts", "joins", "served")
"""Members of the last have endpoints. Its topics always fit: otherwise Kafka fails on heartbeats of such members."""
MEMBERS = tuple(f"m{number}" for number in range(6))
SOURCES = {"words": 3, "left": 4, "right": 4}
SERVED_SOURCE = "served-lines"
INTERNAL = ("by-word", "word-counts", "left-by-key", "joined-store", "sums")

SETTINGS: Json = {
    "group.streams.assignment.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "1000",
    "group.streams.min.session.timeout.ms": "5000",
    "group.streams.session.timeout.ms": "20000",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.max.size": "5",
    "offsets.retention.minutes": "2",
    "offsets.retention.check.interval.ms": "60000",
}

_WEIGHTS = {
    "beat": 50, "join": 14, "odd beat": 10, "leave": 4, "refused": 3, "advance": 14, "create missing": 7, "topics": 4,
    "config": 4, "describe": 6, "list": 3, "commit": 6, "fetch": 3, "transactional commit": 4, "end transaction": 2,
    "delete offsets": 2, "delete groups": 3, "failover": 1,
}  # fmt: skip


_WITHOUT_TIME = {
    "beat": 50, "join": 20, "odd beat": 12, "leave": 6, "refused": 4, "topics": 5, "config": 3, "describe": 8,
    "list": 3, "commit": 8, "fetch": 4, "transactional commit": 4, "delete offsets": 3, "delete groups": 3,
    "classic join": 3,
}  # fmt: skip
_TIMES = frozenset({"streams.initial.rebalance.delay.ms", "streams.assignment.interval.ms"})


def life(seed: int, count: int) -> list[Json]:
    """Return the steps of one life, after the creation of most source topics."""
    return _steps(_Draw(Random(seed)), _WEIGHTS, count)


def steps_without_time(seed: int, count: int) -> list[Json]:
    """Return the steps of a life in which nothing depends on time, for real nodes."""
    return _steps(_Draw(Random(seed), ignores=_TIMES, patience=1_000), _WITHOUT_TIME, count)


def _steps(draw: _Draw, weights: dict[str, int], count: int) -> list[Json]:
    counts = {"words": SOURCES["words"], "left": SOURCES["left"], SERVED_SOURCE: 3}
    steps: list[Json] = [
        {"kind": "topics", "change": "create", "topic": name, "count": count} for name, count in counts.items()
    ]
    while len(steps) < count:
        kind = draw.random.choices(list(weights), list(weights.values()))[0]
        steps.append(getattr(draw, kind.replace(" ", "_"))())
    return steps


class _Draw:
    def __init__(self, random: Random, *, ignores: frozenset[str] = frozenset(), patience: int = 1) -> None:
        """``ignores`` are settings of groups that are not changed, ``patience`` a factor of rebalance timeouts."""
        self.random = random
        self._ignores = ignores
        self._patience = patience

    # -- heartbeats

    def beat(self) -> Json:
        return self._heartbeat(
            self._request("current", activeTasks="assigned", standbyTasks="assigned", warmupTasks=[])
        )

    def join(self) -> Json:
        random = self.random
        group = random.choice(GROUPS)
        member = random.choice(MEMBERS)
        number = MEMBERS.index(member)
        process = f"p{number % 3}" if random.random() < 0.9 else f"p{random.randrange(4)}"
        request = self._request(
            0,
            group=group,
            member=member,
            activeTasks=[],
            standbyTasks=[],
            warmupTasks=[],
            rebalanceTimeoutMs=random.choice([2_000, 30_000]) * self._patience,
            topology=self._topology(group),
            processId=process,
            rackId=random.choice([None, "rack-0", "rack-1"]),
            userEndpoint={"host": f"host-{member}", "port": 8_000 + number}
            if group == "served" and number % 2
            else None,
            clientTags=random.choice([[], [{"key": "zone", "value": "a"}]]),
        )
        return self._heartbeat(request)

    def odd_beat(self) -> Json:
        """Report other tasks or another epoch, or change what the member says about itself."""
        random = self.random
        request = self._request("current")
        changes: list[Json] = [
            {"memberEpoch": "previous", "activeTasks": "assigned", "standbyTasks": "assigned", "warmupTasks": []},
            {"memberEpoch": "previous"},
            {"memberEpoch": random.choice([1, 2, 5, 1_000])},
            {"activeTasks": [], "standbyTasks": [], "warmupTasks": []},
            {"activeTasks": self._some_tasks(), "standbyTasks": self._some_tasks(), "warmupTasks": []},
            {"activeTasks": "assigned", "standbyTasks": [], "warmupTasks": []},
            {"rackId": random.choice(["rack-0", "rack-2"])},
            {"processId": f"p{random.randrange(4)}"},
            {"clientTags": [{"key": "zone", "value": "b"}]},
            {"rebalanceTimeoutMs": random.choice([1_000, 40_000]) * self._patience},
            {"groupId": "served", "userEndpoint": {"host": "moved", "port": 1}},
            {"endpointInformationEpoch": random.choice([-1, 0, 3])},
            {"shutdownApplication": True},
            {},
        ]
        return self._heartbeat({**request, **random.choice(changes)}, client=random.choice(["client", "other client"]))

    def leave(self) -> Json:
        return self._heartbeat(self._request(-1, shutdownApplication=self.random.random() < 0.2))

    def refused(self) -> Json:
        """A request that no group accepts."""
        random = self.random
        joins: Json = self.join()["request"]
        changes: list[Json] = [
            {"instanceId": "i"},
            {"memberEpoch": -2},
            {"memberEpoch": -3, "topology": None},
            {"topology": None},
            {"activeTasks": None},
            {"rebalanceTimeoutMs": -1},
            {"memberId": " "},
            {"rackId": ""},
            {"taskOffsets": []},
            {"memberEpoch": 1},
            {"warmupTasks": [{"subtopologyId": "0", "partitions": [0]}]},
            {"memberId": "stranger", "memberEpoch": 3, "topology": None},
            {"groupId": "no group", "memberEpoch": 3, "topology": None},
            {"topology": {"epoch": 0, "subtopologies": [_subtopology("0", reads=["loop"], writes=["loop"])]}},
        ]
        return self._heartbeat({**joins, **random.choice(changes)})

    def _heartbeat(self, request: Json, client: str = "client") -> Json:
        return {"kind": "heartbeat", "client": client, "request": request}

    def _request(self, epoch: int | str, *, group: str = "", member: str = "", **fields: Any) -> Json:
        return {
            "groupId": group or self.random.choice(GROUPS),
            "memberId": member or self.random.choice(MEMBERS),
            "memberEpoch": epoch,
            "endpointInformationEpoch": "current",
            "instanceId": None,
            "rackId": None,
            "rebalanceTimeoutMs": -1,
            "topology": None,
            "activeTasks": None,
            "standbyTasks": None,
            "warmupTasks": None,
            "processId": None,
            "userEndpoint": None,
            "clientTags": None,
            "taskOffsets": None,
            "taskEndOffsets": None,
            "shutdownApplication": False,
            **fields,
        }

    def _some_tasks(self) -> list[Json]:
        names = self.random.sample(["0", "1", "2", "9"], self.random.choice([0, 1, 1, 2]))
        return [{"subtopologyId": name, "partitions": sorted(self.random.sample(range(5), 2))} for name in names]

    def _topology(self, group: str) -> Json:
        random = self.random
        epoch = 1 if random.random() < 0.9 else random.randrange(3)
        if group == "counts":
            store = "word-counts" if random.random() < 0.95 else "other-counts"
            parts = [
                _subtopology("0", "words", writes=["by-word"]),
                _subtopology("1", reads=["by-word"], stores=[store]),
            ]
        elif group == "served":
            parts = [_subtopology("0", SERVED_SOURCE, stores=["served-store"])]
        else:
            parts = [
                _subtopology("0", "left", writes=["left-by-key"]),
                _subtopology("1", "right", reads=["left-by-key"], stores=["joined-store"], joins=([0], [0])),
                _subtopology("2", "words", stores=["sums"]),
            ]
        return {"epoch": epoch, "subtopologies": parts}

    # -- the cluster

    def advance(self) -> Json:
        return {"kind": "advance", "ms": self.random.choice([100, 400, 600, 600, 1_500, 3_000, 12_000, 90_000])}

    def create_missing(self) -> Json:
        """Create internal topics that the last heartbeat missed; rarely with a wrong partition count."""
        random = self.random
        return {"kind": "create missing", "count": random.choice([1, 9, 9, 9]), "more": random.choice([0] * 9 + [1])}

    def topics(self) -> Json:
        random = self.random
        change = random.choice(["create", "create", "create", "delete", "grow"])
        topic = random.choice([*SOURCES, *SOURCES, *INTERNAL] if change != "create" else [*SOURCES, *INTERNAL])
        count = random.choice([1, 2]) if change == "grow" else SOURCES.get(topic, random.choice([3, 4]))
        return {"kind": "topics", "change": change, "topic": topic, "count": count}

    def config(self) -> Json:
        """The settings of a group replace its earlier ones."""
        random = self.random
        choices = {
            "streams.num.standby.replicas": ["0", "1", "1", "2", "7"],
            "streams.session.timeout.ms": ["4000", "8000", "999999"],
            "streams.heartbeat.interval.ms": ["50", "3000"],
            "streams.initial.rebalance.delay.ms": ["0", "2000"],
            "streams.assignment.interval.ms": ["0", "700", "99999"],
        }
        names = random.sample(sorted(choices.keys() - self._ignores), random.choice([0, 1, 1, 2]))
        values = {name: random.choice(choices[name]) for name in names}
        return {"kind": "config", "group": random.choice(GROUPS), "set": values}

    def failover(self) -> Json:
        return {"kind": "failover"}

    # -- other requests

    def describe(self) -> Json:
        groups = self.random.sample([*GROUPS, "no group", "", "classic"], self.random.choice([1, 2]))
        return {"kind": "describe", "groups": groups}

    def list(self) -> Json:
        random = self.random
        return {
            "kind": "list",
            "states": random.choice([[], [], ["Stable"], ["Empty", "reconciling"]]),
            "types": random.choice([[], ["streams"], ["classic"]]),
        }

    def delete_groups(self) -> Json:
        return {"kind": "delete groups", "groups": [self.random.choice([*GROUPS, "no group"])]}

    def classic_join(self) -> Json:
        """Meet a group of another kind; a group without members becomes a classic one."""
        return {"kind": "classic join", "group": self.random.choice(GROUPS)}

    def commit(self) -> Json:
        random = self.random
        version = random.choice([9, 9, 9, 8])
        request: Json = {
            "groupId": random.choice([*GROUPS, "simple"]),
            "generationIdOrMemberEpoch": random.choice(["current", "current", "previous", "older", 1_000, -1]),
            "memberId": random.choice(MEMBERS),
            "groupInstanceId": None,
            "topics": [
                {
                    "name": random.choice([*SOURCES, SERVED_SOURCE, "by-word", "elsewhere"]),
                    "partitions": [self._offset(random.randrange(3))],
                }
            ],
        }
        if request["generationIdOrMemberEpoch"] == -1:
            request["memberId"] = ""
        return {"kind": "commit", "version": version, "request": request}

    def transactional_commit(self) -> Json:
        random = self.random
        nobody = random.random() < 0.2
        request = {
            "transactionalId": "t",
            "groupId": random.choice(GROUPS),
            "producerId": random.choice([7, 8]),
            "producerEpoch": 0,
            "generationId": -1 if nobody else random.choice(["current", "current", "previous", "older", 1_000]),
            "memberId": "" if nobody else random.choice(MEMBERS),
            "groupInstanceId": None,
            "topics": [
                {
                    "name": random.choice([*SOURCES, SERVED_SOURCE, "by-word", "elsewhere"]),
                    "partitions": [self._offset(random.randrange(3))],
                }
            ],
        }
        return {"kind": "transactional commit", "version": 3, "request": request}

    def end_transaction(self) -> Json:
        return {
            "kind": "end transaction",
            "producer": self.random.choice([7, 8]),
            "commits": self.random.random() < 0.7,
        }

    def fetch(self) -> Json:
        random = self.random
        is_admin = random.random() < 0.5
        group = {
            "groupId": random.choice([*GROUPS, "simple"]),
            "memberId": None if is_admin else random.choice(MEMBERS),
            "memberEpoch": -1 if is_admin else random.choice(["current", "previous"]),
            "topics": [{"name": name, "partitionIndexes": [0, 1, 2, 3]} for name in [*SOURCES, "by-word"]],
        }
        request = {"groups": [group], "requireStable": random.random() < 0.5}
        return {"kind": "fetch", "version": 9, "request": request}

    def delete_offsets(self) -> Json:
        topic = {"name": self.random.choice([*SOURCES, "elsewhere"]), "partitions": [{"partitionIndex": 0}]}
        request = {"groupId": self.random.choice(GROUPS), "topics": [topic]}
        return {"kind": "delete offsets", "version": 0, "request": request}

    def _offset(self, partition: int) -> Json:
        return {
            "partitionIndex": partition,
            "committedOffset": self.random.randrange(100),
            "committedLeaderEpoch": -1,
            "committedMetadata": "",
        }


def _subtopology(
    name: str,
    *sources: str,
    reads: list[str] | None = None,
    writes: list[str] | None = None,
    stores: list[str] | None = None,
    joins: tuple[list[int], list[int]] | None = None,
) -> Json:
    return {
        "subtopologyId": name,
        "sourceTopics": list(sources),
        "sourceTopicRegex": [],
        "stateChangelogTopics": [_internal(topic) for topic in stores or ()],
        "repartitionSinkTopics": writes or [],
        "repartitionSourceTopics": [_internal(topic) for topic in reads or ()],
        "copartitionGroups": []
        if joins is None
        else [{"sourceTopics": joins[0], "sourceTopicRegex": [], "repartitionSourceTopics": joins[1]}],
    }


def _internal(name: str) -> Json:
    configs = [{"key": "cleanup.policy", "value": "compact"}]
    return {"name": name, "partitions": 0, "replicationFactor": 0, "topicConfigs": configs}
