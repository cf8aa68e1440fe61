"""Random questions about streams groups, which ``StreamsGroups.java`` answers with Kafka's classes.

Most topologies are possible ones, with topics that mostly fit; the rest has one mistake of every kind now and then. A
group takes steps: members join, leave, receive new targets and send heartbeats that report what they own, some of them
wrongly.
"""

from __future__ import annotations

from random import Random
from typing import Any

from barnabas.common.errors import ApiException
from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.streams.internal_topic_manager import configure_topics
from barnabas.coordinator.group.streams.topology import StreamsTopology, topology_value
from barnabas.protocol.messages.streams_group_heartbeat import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)

__all__ = ["group_questions", "heartbeat_questions", "topology_questions"]

Question = dict[str, Any]

RACKS = ("", "a", "b", "rack-c", "é😀")
CONFIGS = ("cleanup.policy", "retention.ms", "segment.bytes", "message.timestamp.type", "min.insync.replicas")
BAD_NAMES = ("", "..", "with space", "x" * 250, "é")


# -- topologies


def topology_questions(seed: int, count: int) -> list[Question]:
    random = Random(seed)
    return [_topology_question(random) for _ in range(count)]


def _topology_question(random: Random) -> Question:
    topology = _topology(random)
    if random.random() < 0.2:
        random.choice(MISTAKES)(random, topology)
    topics = {name: _topic(random, random.choice((1, 2, 3, 4, 6))) for name in _source_topics(topology)}
    if random.random() < 0.5:
        common = random.choice((1, 3, 4))
        topics = {name: _topic(random, common) for name in topics}
    if topics and random.random() < 0.12:
        del topics[random.choice(list(topics))]
    _add_internal_topics(random, topology, topics)
    tasks = {
        role: {
            subtopology.subtopology_id: sorted(random.sample(range(8), random.randint(1, 3)))
            for subtopology in topology.subtopologies
            if random.random() < 0.4
        }
        for role in ("active", "standby")
    }
    request = StreamsGroupHeartbeatRequest(group_id="g", member_id="m", topology=topology)
    return {"kind": "topology", "request": request.to_json(0), "topics": topics, "member": tasks}


def _source_topics(topology: Topology) -> list[str]:
    return sorted({topic for subtopology in topology.subtopologies for topic in subtopology.source_topics})


def _topic(random: Random, partition_count: int) -> dict[str, Any]:
    racks = [random.choices(RACKS, k=random.randint(0, 3)) for _ in range(partition_count)]
    return {"id": str(Uuid.from_int(random.choice((200, 2**127, 2**128 - 1)))), "racks": racks}


def _add_internal_topics(random: Random, topology: Topology, topics: dict[str, Any]) -> None:
    """Let some of the missing internal topics exist, mostly with the right number of partitions."""
    portion = random.choice((0, 0.3, 1))
    counts = {name: len(topic["racks"]) for name, topic in topics.items()}
    try:
        configured = configure_topics(StreamsTopology.of(topology_value(topology)), 0, counts.get)
    except ApiException:
        return
    for name, topic in configured.topics_to_create.items():
        if random.random() < portion:
            is_right = random.random() < 0.95
            topics[name] = _topic(random, topic.num_partitions if is_right else topic.num_partitions + 1)


def _topology(random: Random) -> Topology:
    size = random.choice((1, 1, 2, 2, 3, 3, 4, 5, 6, 9, 14, 18))
    fixed = random.random() < 0.3
    common = random.choice((None, None, 3, 4))
    subtopologies: list[Subtopology] = []
    repartition_topics: list[str] = []
    for index in range(size):
        reads = _chosen(random, repartition_topics, 2)
        writes = [f"app-{index}-{number}-repartition" for number in range(random.choice((0, 0, 1, 1, 2)))]
        sources = _chosen(random, [f"in-{number}" for number in range(6)], 3)
        if not reads and not sources:
            sources = ["in-0"]
        subtopology = Subtopology(
            subtopology_id=str(index) if random.random() < 0.9 else f"sub-{random.randrange(1000)}-{index}",
            source_topics=sources,
            repartition_source_topics=[_internal(random, name, _fixed_count(random, fixed, common)) for name in reads],
            repartition_sink_topics=writes,
            state_changelog_topics=[
                _internal(random, f"app-{index}-{number}-changelog", 0) for number in range(random.choice((0, 0, 1, 2)))
            ],
        )
        subtopology.copartition_groups = _copartition_groups(random, subtopology)
        subtopologies.append(subtopology)
        repartition_topics += writes
    _read_every_topic(random, subtopologies, repartition_topics)
    random.shuffle(subtopologies)
    return Topology(epoch=random.choice((0, 1, 7)), subtopologies=subtopologies)


def _chosen(random: Random, names: list[str], count_max: int) -> list[str]:
    return random.sample(names, min(len(names), random.randint(0, count_max)))


def _fixed_count(random: Random, may_be_fixed: bool, common: int | None) -> int:
    if not may_be_fixed or random.random() < 0.5:
        return 0
    return common or random.choice((1, 2, 3, 4))


def _internal(random: Random, name: str, partitions: int) -> TopicInfo:
    configs = random.sample(CONFIGS, random.choice((0, 0, 1, 2)))
    return TopicInfo(
        name=name,
        partitions=partitions,
        replication_factor=random.choice((0, 0, 1, 3, -1)),
        topic_configs=[KeyValue(key=config, value=random.choice(("1", "x"))) for config in configs],
    )


def _copartition_groups(random: Random, subtopology: Subtopology) -> list[CopartitionGroup]:
    groups = []
    while random.random() < 0.4:
        sources = range(len(subtopology.source_topics))
        repartition = range(len(subtopology.repartition_source_topics))
        groups.append(
            CopartitionGroup(
                source_topics=random.sample(sources, random.randint(0, len(sources))),
                repartition_source_topics=random.sample(repartition, random.randint(0, len(repartition))),
            )
        )
    return groups


def _read_every_topic(random: Random, subtopologies: list[Subtopology], repartition_topics: list[str]) -> None:
    """Every repartition topic has a reader, mostly one that comes later; otherwise there may be loops."""
    read = {topic.name for subtopology in subtopologies for topic in subtopology.repartition_source_topics}
    for name in repartition_topics:
        if name not in read:
            writer = next(
                i for i, subtopology in enumerate(subtopologies) if name in subtopology.repartition_sink_topics
            )
            first = writer if random.random() < 0.95 else 0
            reader = subtopologies[random.randrange(first, len(subtopologies))]
            reader.repartition_source_topics.append(_internal(random, name, 0))


# -- mistakes


def _any(random: Random, topology: Topology) -> Subtopology:
    return random.choice(topology.subtopologies)


def _repeat_subtopology(random: Random, topology: Topology) -> None:
    topology.subtopologies.append(_any(random, topology))


def _negative_epoch(random: Random, topology: Topology) -> None:
    topology.epoch = -1


def _no_sources(random: Random, topology: Topology) -> None:
    subtopology = _any(random, topology)
    subtopology.source_topics = []
    subtopology.repartition_source_topics = []
    subtopology.copartition_groups = []


def _never_written(random: Random, topology: Topology) -> None:
    _any(random, topology).repartition_source_topics.append(_internal(random, "never-written", 0))


def _loop(random: Random, topology: Topology) -> None:
    for name, written, read in (("loop-a", "x", "y"), ("loop-b", "y", "x")):
        topology.subtopologies.append(
            Subtopology(
                subtopology_id=name,
                repartition_sink_topics=[written],
                repartition_source_topics=[_internal(random, read, 0)],
            )
        )


def _wrong_index(random: Random, topology: Topology) -> None:
    subtopology = _any(random, topology)
    group = CopartitionGroup(source_topics=[random.choice((-1, len(subtopology.source_topics)))])
    if random.random() < 0.5:
        group = CopartitionGroup(repartition_source_topics=[len(subtopology.repartition_source_topics)])
    subtopology.copartition_groups.append(group)


def _repeated_config(random: Random, topology: Topology) -> None:
    topic = _internal(random, "app-double-changelog", 0)
    topic.topic_configs = [KeyValue(key="a", value="1"), KeyValue(key="a", value="2")]
    _any(random, topology).state_changelog_topics.append(topic)


def _repeated_topic(random: Random, topology: Topology) -> None:
    topics = [_internal(random, "app-twice-changelog", 0) for _ in range(2)]
    _any(random, topology).state_changelog_topics += topics


def _shared_changelog(random: Random, topology: Topology) -> None:
    for subtopology in topology.subtopologies[:2]:
        subtopology.state_changelog_topics.append(_internal(random, "app-shared-changelog", 0))


def _bad_name(random: Random, topology: Topology) -> None:
    name = random.choice(BAD_NAMES)
    _any(random, topology).state_changelog_topics.append(_internal(random, name, 0))


def _negative_count(random: Random, topology: Topology) -> None:
    _any(random, topology).repartition_source_topics.append(_internal(random, "negative", -3))


def _counted_changelog(random: Random, topology: Topology) -> None:
    _any(random, topology).state_changelog_topics.append(_internal(random, "app-counted-changelog", 2))


def _no_subtopologies(random: Random, topology: Topology) -> None:
    topology.subtopologies = []


MISTAKES = (
    _repeat_subtopology, _negative_epoch, _no_sources, _never_written, _loop, _wrong_index, _repeated_config,
    _repeated_topic, _shared_changelog, _bad_name, _negative_count, _counted_changelog, _no_subtopologies,
)  # fmt: skip


# -- requests


def heartbeat_questions(seed: int, count: int) -> list[Question]:
    random = Random(seed)
    return [{"kind": "heartbeat", "request": _heartbeat(random).to_json(0)} for _ in range(count)]


def _heartbeat(random: Random) -> StreamsGroupHeartbeatRequest:
    """A request that is right, except for up to three fields."""
    request = StreamsGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        rebalance_timeout_ms=1000,
        member_epoch=random.choice((0, 0, 5, -1)),
        process_id="p",
    )
    if request.member_epoch == 0:
        request.topology = Topology(subtopologies=[Subtopology(subtopology_id="0", source_topics=["in"])])
        request.active_tasks, request.standby_tasks, request.warmup_tasks = [], [], []
    for _ in range(random.randint(0, 3)):
        field, values = random.choice(FIELDS)
        setattr(request, field, random.choice(values))
    return request


_CHANGELOG = Subtopology(subtopology_id="0", state_changelog_topics=[TopicInfo(name="c", partitions=3)])
_PATTERN = Subtopology(subtopology_id="0", source_topic_regex=["in.*"])
_TASKS = [TaskIds(subtopology_id="0", partitions=[0, 1])]
_OFFSETS = [TaskOffset(subtopology_id="0", partition=0, offset=1)]
FIELDS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("group_id", ("", " \t", "g2")),
    ("member_id", ("", " ", "m2")),
    ("instance_id", (None, "", "i")),
    ("rack_id", (None, "", "\x01 ", "r")),
    ("member_epoch", (-3, -2, -1, 0, 1)),
    ("rebalance_timeout_ms", (-1, 0, 5)),
    ("topology", (None, Topology(), Topology(subtopologies=[_CHANGELOG]), Topology(subtopologies=[_PATTERN]))),
    ("active_tasks", (None, [], _TASKS)),
    ("standby_tasks", (None, [], _TASKS)),
    ("warmup_tasks", (None, [], _TASKS)),
    ("task_offsets", (None, [], _OFFSETS)),
    ("task_end_offsets", (None, [], _OFFSETS)),
    ("user_endpoint", (None, Endpoint(host="h", port=1))),
)


# -- groups


def group_questions(seed: int, count: int, steps: int) -> list[Question]:
    random = Random(seed)
    return [_Life(random).question(steps) for _ in range(count)]


class _Life:
    """The life of one group: up to eight members of up to four processes, and ten tasks of three subtopologies."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._tasks = [("0", partition) for partition in range(4)]
        self._tasks += [("1", partition) for partition in range(4)] + [("10", 0), ("10", 17)]
        self._process_by_member: dict[str, str] = {}
        self._epoch = 1
        self._count = 0
        self._steps: list[dict[str, Any]] = []

    def question(self, steps: int) -> Question:
        self._join()
        while len(self._steps) < steps:
            self._step()
        return {"kind": "group", "steps": self._steps, "tasks": self._tasks}

    def _step(self) -> None:
        kind = self._random.random()
        if kind < 0.06 and len(self._process_by_member) < 8:
            self._join()
        elif kind < 0.08 and len(self._process_by_member) > 1:
            member = self._any_member()
            del self._process_by_member[member]
            self._steps.append({"do": "leave", "member": member})
        elif kind < 0.09:
            self._steps.append({"do": "forget", "member": self._any_member()})
        elif kind < 0.2:
            self._assign()
        else:
            self._heartbeat()

    def _any_member(self) -> str:
        return self._random.choice(list(self._process_by_member))

    def _join(self) -> None:
        random = self._random
        member = f"m{self._count}"
        self._count += 1
        self._process_by_member[member] = f"p{random.randrange(4)}"
        self._steps.append(
            {
                "do": "join", "member": member, "process": self._process_by_member[member],
                "rack": random.choice((None, "r1", "r2")), "timeout": random.choice((1, 300000)),
                "topology": random.choice((0, 3)), "endpoint": random.choice((None, ["host", 65535], ["", 0])),
                "tags": {key: f"{random.randrange(9)}" for key in random.sample(("zone", "cluster", "a"), 2)},
            }
        )  # fmt: skip
        self._assign()

    def _assign(self) -> None:
        """Give each task to one member, with replicas at members of other processes, as assignors do."""
        random = self._random
        self._epoch += random.choice((1, 1, 1, 2, 5))
        targets: dict[str, Any] = {
            member: {"active": {}, "standby": {}, "warmup": {}} for member in self._process_by_member
        }
        members = list(targets)
        for subtopology_id, partition in self._tasks:
            used: set[str] = set()
            for role in ("active", *random.choices(("standby", "warmup"), k=random.choice((0, 1, 1, 2)))):
                member = random.choice(members)
                process = self._process_by_member[member]
                if process not in used or random.random() < 0.03:
                    used.add(process)
                    targets[member][role].setdefault(subtopology_id, []).append(partition)
        if random.random() < 0.2:
            targets[random.choice(members)] = {"active": {}, "standby": {}, "warmup": {}}
        self._steps.append({"do": "target", "epoch": self._epoch, "targets": targets})

    def _heartbeat(self) -> None:
        random = self._random
        owned: Any = random.choice(("none", "none", "nothing", "assigned", "assigned", "assigned", "all", "all", None))
        if owned is None:
            subtopology_id, partition = random.choice(self._tasks)
            owned = {"active": {}, "standby": {}, "warmup": {}}
            owned[random.choice(("active", "standby", "warmup"))] = {subtopology_id: random.choice(([], [partition]))}
        epoch = random.choice(("current",) * 16 + ("previous", "previous", "newer", "older", "join"))
        self._steps.append({"do": "heartbeat", "member": self._any_member(), "owned": owned, "epoch": epoch})
