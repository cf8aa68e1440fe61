"""What a heartbeat reports besides the tasks: why a group can't assign them yet, and what the member should do."""

from __future__ import annotations

from enum import IntEnum

from barnabas.protocol.messages.streams_group_heartbeat import Status

__all__ = [
    "HeartbeatStatus",
    "TopicConfigurationError",
    "assignment_delayed",
    "shutdown_application",
    "stale_topology",
]


class HeartbeatStatus(IntEnum):
    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class TopicConfigurationError(Exception):
    """The topics of the cluster don't fit the topology; the members learn it as a status, not as an error."""

    def __init__(self, status: HeartbeatStatus, message: str) -> None:
        super().__init__(message)
        self.status = status

    def to_status(self) -> Status:
        return Status(status_code=self.status, status_detail=str(self))


def stale_topology(member_topology_epoch: int, group_topology_epoch: int) -> Status:
    detail = (
        f"The member's topology epoch {member_topology_epoch} is behind the group's topology epoch "
        f"{group_topology_epoch}."
    )
    return Status(status_code=HeartbeatStatus.STALE_TOPOLOGY, status_detail=detail)


def shutdown_application(requesting_member_id: str) -> Status:
    detail = (
        f"Streams group member {requesting_member_id} encountered a fatal error and requested a shutdown for the "
        "entire application."
    )
    return Status(status_code=HeartbeatStatus.SHUTDOWN_APPLICATION, status_detail=detail)


def assignment_delayed(setting: str) -> Status:
    """``setting`` names the delay that applies."""
    detail = f"Assignment delayed due to the configured {setting}."
    return Status(status_code=HeartbeatStatus.ASSIGNMENT_DELAYED, status_detail=detail)
