"""What the coordinator asks of the persister, and what it makes of the result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.modern_group import Partitions
from barnabas.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse

__all__ = ["DecidedHeartbeat", "DeleteStates", "InitializeStates"]


class InitializeStates(NamedTuple):
    """Create the state of partitions that had none."""

    group_id: str
    state_epoch: int
    start_offsets: Mapping[Uuid, Mapping[int, int]]
    """-1: the leader of the partition decides, by ``share.auto.offset.reset``."""

    @property
    def partitions(self) -> Partitions:
        return {topic_id: frozenset(offsets) for topic_id, offsets in self.start_offsets.items()}


class DeleteStates(NamedTuple):
    group_id: str
    partitions: Partitions


class DecidedHeartbeat(NamedTuple):
    response: ShareGroupHeartbeatResponse
    initialize: InitializeStates | None
    """To be called when the answer is committed; the member does not wait for its result."""
