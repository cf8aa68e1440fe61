"""The plan of a run, drawn from its seed before it begins: the shape of the cluster, calls and faults by their time.

A plan is a list, so that a failing run can be shrunk by omitting steps that its failure does not need. The remaining
steps keep their times.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

from barnabas.metadata.bootstrap import bootstrap_records
from barnabas.metadata.features import (
    GROUP_VERSION,
    SHARE_VERSION,
    STREAMS_VERSION,
    TRANSACTION_VERSION,
    default_levels,
)
from barnabas.metadata.metadata_version import LATEST_PRODUCTION, MetadataVersion
from tests.simulation.cluster.consumer_group_shape import draw_consumer_groups
from tests.simulation.cluster.data_rot import DATA_KINDS
from tests.simulation.cluster.disk_errors import ERROR_KINDS, SCOPES
from tests.simulation.cluster.node import ClusterShape
from tests.simulation.cluster.rot import KINDS
from tests.simulation.cluster.share_shape import draw_share_groups
from tests.simulation.cluster.software import SOFTWARE, Software
from tests.simulation.cluster.standstill import Standstill, draw_standstill
from tests.simulation.cluster.streams_group_shape import draw_streams_groups
from tests.simulation.cluster.transaction_shape import draw_transactions

__all__ = ["Plan", "Step", "draw_plan"]


@dataclass(frozen=True, slots=True)
class Step:
    """One event of a plan: a fault of the environment if ``is_fault``, else a call of a client or an operator."""

    at_ms: int
    kind: str
    args: tuple[Any, ...] = ()
    is_fault: bool = False

    def __str__(self) -> str:
        words = " ".join(f"{arg:g}" if isinstance(arg, float) else str(arg) for arg in self.args)
        return f"{self.at_ms} ms  {self.kind} {words}".rstrip()


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    shape: ClusterShape
    steps: tuple[Step, ...]
    faults_end_ms: int
    standstill: Standstill | None = None
    """The standstill that follows after all faults have ended."""


SHAPES = (
    # controllers, brokers: the same number is a node with both roles
    ((1, 2, 3), (11, 12)),
    ((1, 2, 3), (11, 12)),
    ((1, 2, 3), (1, 2, 3)),
    ((1, 2, 3), (1, 11)),
    ((1,), (1,)),
    ((1,), (11, 12)),
    ((1, 2, 3, 4, 5), (11,)),
    ((1, 2), (2, 11)),
)
DECISION_BYTES_MAX = 8000
"""The records of one decision of a group coordinator must fit into a segment."""
VERSIONS = ("IBP_3_3_IV3", "IBP_3_6_IV2", "IBP_3_7_IV4", "IBP_3_9_IV0", "IBP_4_0_IV3")


def draw_plan(seed: int, *, steps_max: int = 70) -> Plan:
    draw = random.Random(f"plan {seed}")
    shape = _with_operators(random.Random(f"operators' shape {seed}"), _shape(draw))
    shape = _with_groups(random.Random(f"groups {seed}"), shape)
    shape = _with_transactions(random.Random(f"transactions {seed}"), seed, shape)
    shape = _with_consumer_groups(random.Random(f"consumer groups {seed}"), seed, shape)
    shape = _with_share_groups(random.Random(f"share groups {seed}"), seed, shape)
    shape = _with_streams_groups(random.Random(f"streams groups {seed}"), seed, shape)
    shape = _with_rot(random.Random(f"rot's shape {seed}"), shape)
    shape = _with_bad_disks(random.Random(f"disks' shape {seed}"), shape)
    faults_end_ms = draw.choice((6000, 9000, 12_000))
    calls = draw.randrange(steps_max // 2, steps_max)
    steps = [_call(draw, shape, number, draw.randrange(300, faults_end_ms)) for number in range(calls)]
    faults = draw.randrange(0, steps_max // 2)
    steps += [_fault(draw, shape, draw.randrange(500, faults_end_ms)) for _ in range(faults)]
    steps += _steps_of_operators(random.Random(f"operators {seed}"), shape, faults_end_ms)
    if shape.groups:
        steps += _steps_of_brokers(random.Random(f"brokers {seed}"), shape, faults_end_ms)
    if shape.transactions is not None:
        steps += _steps_of_transactions(random.Random(f"transactions' steps {seed}"), faults_end_ms)
    if seed % 8 == 7:
        steps += [_leave_behind(draw, shape, draw.randrange(1500, faults_end_ms - 3000)) for _ in range(2)]
    steps += _steps_of_rot(random.Random(f"rot {seed}"), shape, faults_end_ms)
    steps += _steps_of_data_rot(random.Random(f"data rot {seed}"), shape, faults_end_ms)
    steps += _steps_of_disk_errors(random.Random(f"disk errors {seed}"), shape, faults_end_ms)
    steps.sort(key=lambda step: step.at_ms)
    standstill = draw_standstill(random.Random(f"standstill {seed}"), shape)
    return Plan(seed, shape, tuple(steps), faults_end_ms, standstill)


def _shape(draw: random.Random) -> ClusterShape:
    controllers, brokers = draw.choice(SHAPES)
    version = LATEST_PRODUCTION
    if draw.random() < 0.3:
        version = MetadataVersion[draw.choice(VERSIONS)]
    fetch_timeout_ms = draw.choice((400, 600, 1000))
    return ClusterShape(
        controller_ids=controllers,
        broker_ids=brokers,
        is_static=draw.random() < 0.2 or version < MetadataVersion.IBP_3_9_IV0,  # Older logs cannot contain voters.
        metadata_version=int(version),
        segment_bytes=draw.choice((600, 2000, 1 << 20)),
        retention_bytes=draw.choice((1000, 4000, 1 << 20)),
        bytes_between_snapshots=draw.choice((600, 2500, 1 << 20)),
        election_timeout_ms=draw.choice((200, 400)),
        fetch_timeout_ms=fetch_timeout_ms,
        fetch_max_bytes=draw.choice((300, 3000, 1 << 20)),
        max_idle_ms=draw.choice((400, 1500, 0)),
        flush_ms=draw.choice(((0.2, 3.0), (0.2, 3.0), (3.0, 40.0))),
        session_ms=draw.choice((1500, 3000)),
        heartbeat_ms=draw.choice((300, 500)),
        bootstrap=tuple(bootstrap_records(version)),
    )


# --- operations, groups and disk faults: separate random streams, so that the rest of each plan does not change


def _with_operators(draw: random.Random, shape: ClusterShape) -> ClusterShape:
    """Let the quorum change in some runs, and let nodes run different software in others."""
    if draw.random() < 0.35 and not shape.is_static:
        spares = draw.choice(((), (7,), (7,), (7, 8)))
        return replace(
            shape,
            controller_ids=(*shape.controller_ids, *spares),
            spare_ids=spares,
            joins_by_itself=draw.random() < 0.3,
            changes_quorum=True,
        )
    if draw.random() < 0.25:
        names = ["newest", *(name for name, software in SOFTWARE.items() if _may_run(software, shape))]
        nodes = sorted({*shape.controller_ids, *shape.broker_ids})
        software = tuple((node, name) for node in nodes if (name := draw.choice(names)) != "newest")
        return replace(shape, software=software, changes_software=True)
    return replace(shape, changes_quorum=shape.is_static and draw.random() < 0.3)


def _with_groups(draw: random.Random, shape: ClusterShape) -> ClusterShape:
    """Add consumer groups in some runs."""
    return shape if draw.random() > 0.25 else _with_data(draw, shape)


def _with_data(draw: random.Random, shape: ClusterShape) -> ClusterShape:
    if shape.broker_ids == (11, 12) and draw.random() < 0.8:
        shape = replace(shape, broker_ids=(11, 12, 13))
    return replace(
        shape,
        groups=tuple((name, draw.randrange(1, 4)) for name in ("readers", "writers")[: draw.randrange(1, 3)]),
        data_partitions=draw.randrange(1, 5),
        data_replicas=min(draw.choice((1, 3, 3, 3)), len(shape.broker_ids)),
        data_segment_bytes=draw.choice((400, 2000, 1 << 20)),
        producers=tuple(draw.random() < 0.7 for _ in range(draw.randrange(0, 3))),
        min_in_sync=draw.choice((1, 2)),
    )


def _with_transactions(draw: random.Random, seed: int, shape: ClusterShape) -> ClusterShape:
    """Add transactional producers in some runs, with at least one group."""
    default = default_levels(MetadataVersion(shape.metadata_version))[TRANSACTION_VERSION]
    found = draw_transactions(draw, seed, (1, 2, 2, 2) if default else (0,))
    if found is None:
        return shape
    if not shape.groups:
        shape = _with_data(draw, shape)
    levels = {TRANSACTION_VERSION: found.version}
    bootstrap = bootstrap_records(MetadataVersion(shape.metadata_version), levels)
    return replace(shape, transactions=found, bootstrap=tuple(bootstrap))


def _with_consumer_groups(draw: random.Random, seed: int, shape: ClusterShape) -> ClusterShape:
    """Add groups of the consumer protocol in some runs without transactions."""
    found = draw_consumer_groups(draw, seed)
    levels = default_levels(MetadataVersion(shape.metadata_version))
    if found is None or shape.transactions is not None or not levels[GROUP_VERSION]:
        return shape
    if not shape.groups:
        shape = replace(_with_data(draw, shape), groups=(("readers", 1),))
    return replace(shape, consumer_groups=found, data_segment_bytes=max(shape.data_segment_bytes, DECISION_BYTES_MAX))


def _with_share_groups(draw: random.Random, seed: int, shape: ClusterShape) -> ClusterShape:
    """Add share groups in some runs with neither transactions nor groups of the consumer protocol."""
    found = draw_share_groups(draw, seed)
    levels = default_levels(MetadataVersion(shape.metadata_version))
    if (
        found is None
        or shape.transactions is not None
        or shape.consumer_groups is not None
        or not levels[SHARE_VERSION]
    ):
        return shape
    if not shape.groups:
        shape = replace(_with_data(draw, shape), groups=(("readers", 1),))
    return replace(
        shape,
        share_groups=found,
        producers=shape.producers or (True,),
        data_segment_bytes=max(shape.data_segment_bytes, DECISION_BYTES_MAX),
    )


def _with_streams_groups(draw: random.Random, seed: int, shape: ClusterShape) -> ClusterShape:
    """Add streams groups in some runs with data and no other groups of the newer kinds."""
    found = draw_streams_groups(draw, seed)
    levels = default_levels(MetadataVersion(shape.metadata_version))
    others = (shape.transactions, shape.consumer_groups, shape.share_groups)
    if found is None or not shape.groups or any(others) or not levels[STREAMS_VERSION]:
        return shape
    return replace(
        shape,
        groups=(("readers", 1),),
        streams_groups=found,
        data_segment_bytes=max(shape.data_segment_bytes, DECISION_BYTES_MAX),
    )


def _steps_of_brokers(draw: random.Random, shape: ClusterShape, faults_end_ms: int) -> list[Step]:
    return [
        Step(
            draw.randrange(800, faults_end_ms),
            "crash_appending",
            (draw.choice(shape.broker_ids), draw.choice((0.1, 1.0, 5.0)), draw.choice((50, 1500)), draw.random() < 0.7),
            is_fault=True,
        )
        for _ in range(draw.randrange(2, 6))
    ]


def _steps_of_transactions(draw: random.Random, faults_end_ms: int) -> list[Step]:
    return [
        Step(
            draw.randrange(1000, faults_end_ms),
            "crash_in_transaction",
            (
                draw.choice(("state", "state", "marker")),
                draw.randrange(4),
                draw.choice((0.1, 1.0, 4.0, 15.0)),
                draw.choice((50, 1500)),
                draw.random() < 0.5,
            ),
            is_fault=True,
        )
        for _ in range(draw.randrange(2, 6))
    ]


def _with_rot(draw: random.Random, shape: ClusterShape) -> ClusterShape:
    """Let the disks of metadata logs become corrupt in some runs."""
    return replace(shape, rots=draw.random() < 0.25)


def _steps_of_rot(draw: random.Random, shape: ClusterShape, faults_end_ms: int) -> list[Step]:
    nodes = (*shape.controller_ids, *shape.controller_ids, *shape.broker_ids)
    return [
        Step(
            draw.randrange(1500, faults_end_ms),
            "rot",
            (draw.choice(nodes), draw.choice(KINDS), draw.random(), draw.choice((50, 300, 1500))),
            is_fault=True,
        )
        for _ in range(draw.randrange(3, 10) if shape.rots else 0)
    ]


def _with_bad_disks(draw: random.Random, shape: ClusterShape) -> ClusterShape:
    """Let partition logs become corrupt in some runs, and reads and writes fail in others.

    Partition logs become corrupt in half of the runs with data on several brokers and without transactions, if the
    metadata.version supports directory assignments. Reads and writes fail in a quarter of all runs; in half of those
    brokers have two log directories.
    """
    knows_directories = MetadataVersion(shape.metadata_version).is_directory_assignment_supported
    rots_data = draw.random() < 0.5 and shape.replicates and knows_directories and shape.transactions is None
    fails, has_two = draw.random() < 0.25, draw.random() < 0.5
    return replace(
        shape,
        rots_data=rots_data,
        disk_errors=fails,
        data_directories=2 if fails and has_two and knows_directories else 1,
    )


def _steps_of_disk_errors(draw: random.Random, shape: ClusterShape, faults_end_ms: int) -> list[Step]:
    nodes = (*shape.controller_ids, *shape.broker_ids, *(shape.broker_ids if shape.groups else ()))
    return [
        Step(
            draw.randrange(500, faults_end_ms),
            "disk_error",
            (
                draw.choice(nodes),
                draw.choice(SCOPES if shape.groups else ("metadata",)),
                draw.choice(ERROR_KINDS),
                int(2 ** draw.uniform(0, 7)) - 1,
                draw.choice((1, 1, 1000)),
                draw.choice((300, 1000, 3000)),
            ),
            is_fault=True,
        )
        for _ in range(draw.randrange(5, 13) if shape.disk_errors else 0)
    ]


def _steps_of_data_rot(draw: random.Random, shape: ClusterShape, faults_end_ms: int) -> list[Step]:
    return [
        Step(
            draw.randrange(2500, faults_end_ms),
            "rot_data",
            (
                draw.choice(shape.broker_ids),
                draw.choices(DATA_KINDS, weights=(3, 2, 2, 2))[0],
                draw.random(),
                draw.choice((50, 300, 1500)),
                draw.random() < 0.5,
            ),
            is_fault=True,
        )
        for _ in range(draw.randrange(2, 7) if shape.rots_data else 0)
    ]


def _may_run(software: Software, shape: ClusterShape) -> bool:
    return software.metadata_version >= shape.metadata_version and (shape.is_static or software.kraft_version >= 1)


def _steps_of_operators(draw: random.Random, shape: ClusterShape, faults_end_ms: int) -> list[Step]:
    steps = []
    for _ in range(draw.randrange(4, 12) if shape.changes_quorum or shape.changes_software else 0):
        at_ms, down_ms = draw.randrange(500, faults_end_ms), draw.choice((50, 300, 1500))
        if shape.changes_software:
            names = [name for name, software in SOFTWARE.items() if _may_run(software, shape)]
            node = draw.choice(sorted({*shape.controller_ids, *shape.broker_ids}))
            steps.append(Step(at_ms, "restart_as", (node, draw.choice(names), down_ms), is_fault=True))
            steps.append(
                Step(draw.randrange(500, faults_end_ms), "upgrade", (draw.choice(shape.controller_ids), "User:admin"))
            )
            continue
        if shape.is_static:
            steps.append(Step(at_ms, "upgrade_quorum"))
        node = draw.choice((*shape.controller_ids, *shape.spare_ids))
        kind = draw.choices(("add_voter", "remove_voter", "replace_disk", "move"), weights=(8, 6, 3, 2))[0]
        if kind in ("add_voter", "remove_voter"):
            is_eager = draw.random() < 0.4
            args = (node, is_eager) if kind == "add_voter" else (node, draw.random() < 0.3, is_eager)
            steps.append(Step(at_ms, kind, args))
            if is_eager:
                steps.append(Step(at_ms + 1, "resign", is_fault=True))
        elif not shape.is_static:
            steps.append(Step(at_ms, kind, (node, down_ms), is_fault=True))
    return steps


# --- calls of clients

USERS = ("User:alice", "User:bob", "User:*")
NAMES = ("orders", "orders-eu", "bills", "*")
PREFIXES = ("o", "orders", "b")
HOSTS = ("*", "*", "192.0.2.7")
TOPICS = ("orders", "orders-eu", "bills", "logs", "a.b", "a_b")


def _call(draw: random.Random, shape: ClusterShape, number: int, at_ms: int) -> Step:
    via = draw.choice((*shape.broker_ids, *shape.controller_ids))
    kind = draw.choices(list(_CALLS), weights=[weight for weight, _ in _CALLS.values()])[0]
    return Step(at_ms, kind, (via, *_CALLS[kind][1](draw, shape, number)))


def _binding(draw: random.Random) -> tuple[Any, ...]:
    """Draw an ACL in the form in which the model keeps it."""
    is_prefix = draw.random() < 0.3
    resource_type = draw.choice((2, 2, 2, 3))
    name = draw.choice(PREFIXES if is_prefix else NAMES)
    operation = draw.choice((2, 3, 3, 4, 4, 8))
    permission = draw.choice((3, 3, 3, 2))
    return (
        resource_type,
        name,
        4 if is_prefix else 3,
        draw.choice(USERS),
        draw.choice(HOSTS),
        operation,
        permission,
    )


def _create_acls(draw: random.Random, shape: ClusterShape, number: int) -> tuple[Any, ...]:
    if draw.random() < 0.15:
        # A right on the cluster, so that not only super users may make changes.
        return (
            _principal(draw),
            ((1, "kafka-cluster", 3, "User:alice", "*", 7, 3), (4, "kafka-cluster", 3, "User:alice", "*", 7, 3)),
        )
    return (_principal(draw), tuple(_binding(draw) for _ in range(draw.randrange(1, 4))))


def _delete_acls(draw: random.Random, shape: ClusterShape, number: int) -> tuple[Any, ...]:
    binding = _binding(draw)
    if draw.random() < 0.5:
        return (_principal(draw), (1, None, 1, draw.choice(USERS), None, 1, 1))
    return (_principal(draw), (binding[0], binding[1], binding[2], None, None, 1, 1))


def _principal(draw: random.Random) -> str:
    return draw.choice(("User:admin", "User:admin", "User:admin", "User:alice"))


def _probe(draw: random.Random, shape: ClusterShape, number: int) -> tuple[Any, ...]:
    resource_type = draw.choice((2, 2, 2, 3))
    return (
        draw.choice(USERS[:2]),
        draw.choice(HOSTS[1:]),
        draw.choice((3, 4, 8)),
        resource_type,
        draw.choice(NAMES[:3]),
    )


_CALLS: dict[str, tuple[int, Any]] = {
    "create_topics": (
        10,
        lambda draw, shape, number: (
            _principal(draw),
            draw.choice(TOPICS),
            draw.randrange(1, 4),
            draw.randrange(1, len(shape.broker_ids) + 1),
        ),
    ),
    "delete_topics": (4, lambda draw, shape, number: (_principal(draw), draw.choice(TOPICS))),
    "create_acls": (16, _create_acls),
    "delete_acls": (8, _delete_acls),
    "alter_configs": (
        6,
        lambda draw, shape, number: (_principal(draw), draw.choice((*TOPICS, "")), 1_000_000 + number),
    ),
    "alter_quotas": (
        4,
        lambda draw, shape, number: (
            _principal(draw),
            draw.choice(("alice", "bob")),
            1000.0 + number,
            draw.random() < 0.3,
        ),
    ),
    "create_token": (3, lambda draw, shape, number: ("User:alice", number, draw.choice((2000, 60_000)))),
    "allocate_producer_ids": (3, lambda draw, shape, number: (draw.choice(shape.broker_ids), draw.random() < 0.3)),
    "stale_heartbeat": (3, lambda draw, shape, number: (draw.choice(shape.broker_ids),)),
    "upgrade": (1, lambda draw, shape, number: ("User:admin",)),
    "probe": (24, _probe),
}


# --- faults


def _fault(draw: random.Random, shape: ClusterShape, at_ms: int) -> Step:
    nodes = sorted({*shape.controller_ids, *shape.broker_ids})
    node = draw.choice((*nodes, *shape.controller_ids))
    down_ms = draw.choice((50, 300, 1500, 3000))
    kind, args = draw.choices(
        [
            ("crash", (node, down_ms, draw.random() < 0.7, draw.random() < 0.6)),
            ("crash_leader", (down_ms, draw.random() < 0.7, draw.random() < 0.6)),
            ("crash_all", (down_ms, draw.random() < 0.6)),
            ("crash_writing", (node, down_ms, draw.random() < 0.7)),
            ("stop", (node, down_ms)),
            ("cut", (*_cut(draw, nodes), draw.choice((500, 1500, 4000)))),
            ("depose", (draw.choice((900, 2500)), down_ms)),
            ("loss", (draw.choice((0.05, 0.2, 0.5)), draw.choice((500, 2000)))),
            ("doubles", (draw.choice((0.1, 0.4)), draw.choice((500, 2000)))),
            ("delay", (draw.choice((20.0, 80.0, 300.0)), draw.choice((500, 2000)))),
            ("overtaking", (draw.choice((0.02, 0.1)), draw.choice((500, 2000)))),
            ("pause", (node, draw.choice((200, 1000, 3000)))),
            ("slow_disk", (node, draw.choice((30.0, 200.0)), draw.choice((500, 3000)))),
            ("full_disk", (node, draw.choice((500, 2000)))),
            ("failing_disk", (node, draw.choice((500, 2000)))),
            ("clock", (node, draw.choice((-3_600_000, -5000, 500, 20_000, 3_600_000)))),
            ("resign", ()),
            ("snapshot", (node,)),
            ("clean", (node,)),
        ],
        weights=[8, 8, 2, 10, 4, 12, 8, 5, 4, 4, 3, 6, 4, 2, 2, 4, 6, 8, 6],
    )[0]
    return Step(at_ms, kind, args, is_fault=True)


def _leave_behind(draw: random.Random, shape: ClusterShape, at_ms: int) -> Step:
    nodes = sorted({*shape.controller_ids, *shape.broker_ids})
    return Step(at_ms, "leave_behind", (draw.choice(nodes), draw.choice((1500, 3000))), is_fault=True)


def _cut(draw: random.Random, nodes: list[int]) -> tuple[tuple[int, ...], str]:
    """Draw some nodes, and the direction in which they are cut off: both, only from them, or only to them."""
    count = draw.randrange(1, max(2, len(nodes)))
    return tuple(sorted(draw.sample(nodes, count))), draw.choice(("both", "both", "from", "to"))
