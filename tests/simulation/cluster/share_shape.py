"""The share groups of a run, their members and settings, drawn from the seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import NamedTuple

from barnabas.broker.share.share_partition_config import Bounds, SharePartitionConfig
from barnabas.coordinator.share.share_coordinator_config import ShareCoordinatorConfig
from tests.simulation.cluster.failed_seeds import failed_before

__all__ = ["SHARE_STATE_TOPIC", "ShareMemberShape", "ShareShape", "draw_share_groups"]

SHARE = 0.12
"""The share of runs with share groups."""
SHARE_STATE_TOPIC = "__share_group_state"
WRITE_TIMEOUT_MS = 1500


class ShareMemberShape(NamedTuple):
    group: str
    number: int
    is_strict: bool
    """Whether it never acquires more records than it asks for."""

    @property
    def name(self) -> str:
        return f"member {self.number} of {self.group}"


@dataclass(frozen=True, slots=True)
class ShareShape:
    members: tuple[ShareMemberShape, ...]
    session_ms: int
    assignment_interval_ms: int
    lock_ms: int
    delivery_count_limit: int
    record_locks_max: int
    """Of a partition."""
    updates_per_snapshot: int
    state_partitions: int
    """Of ``__share_group_state``."""

    @property
    def groups(self) -> list[str]:
        return list(dict.fromkeys(member.group for member in self.members))

    @property
    def partition_config(self) -> SharePartitionConfig:
        return SharePartitionConfig(
            record_lock_duration_ms=Bounds(self.lock_ms, 100, 60_000),
            delivery_count_limit=Bounds(self.delivery_count_limit, 2, 10),
            partition_max_record_locks=Bounds(self.record_locks_max, 1, 4_000),
        )

    @property
    def coordinator_config(self) -> ShareCoordinatorConfig:
        return ShareCoordinatorConfig(
            share_coordinator_state_topic_num_partitions=self.state_partitions,
            share_coordinator_snapshot_update_records_per_snapshot=self.updates_per_snapshot,
            share_coordinator_cold_partition_snapshot_interval_ms=900,
            share_coordinator_state_topic_prune_interval_ms=700,
            share_coordinator_write_timeout_ms=WRITE_TIMEOUT_MS,
        )


def draw_share_groups(draw: random.Random, seed: int) -> ShareShape | None:
    """Return None for a run without such groups."""
    if draw.random() >= SHARE or seed in failed_before("with share groups"):
        return None
    members = tuple(
        ShareMemberShape(group, number, draw.random() < 0.5)
        for group in ("workers", "helpers")[: draw.choice((1, 1, 2))]
        for number in range(draw.randrange(2, 5))
    )
    return ShareShape(
        members,
        session_ms=draw.choice((1200, 2500)),
        assignment_interval_ms=draw.choice((0, 150, 1000)),
        lock_ms=draw.choice((400, 900, 2000)),
        delivery_count_limit=draw.choice((2, 3, 5, 5)),
        record_locks_max=draw.choice((8, 30, 2000)),
        updates_per_snapshot=draw.choice((1, 4, 15, 500)),
        state_partitions=draw.randrange(1, 4),
    )
