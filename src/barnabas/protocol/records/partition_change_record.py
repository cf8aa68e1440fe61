"""PartitionChangeRecord (metadata record 5): changes a partition; an absent field stays as it was."""

from barnabas.common.uuid import Uuid
from barnabas.protocol.schema import Message, array, int8, int32, uuid

__all__ = ["PartitionChangeRecord"]


class PartitionChangeRecord(Message, api_key=5, versions="0-2", flexible="0+"):
    partition_id: int = int32(default=-1)
    topic_id: Uuid = uuid()
    isr: list[int] | None = array("int32", nullable="0+", tag=0, default=None)
    leader: int = int32(tag=1, default=-2)
    replicas: list[int] | None = array("int32", nullable="0+", tag=2, default=None)
    removing_replicas: list[int] | None = array("int32", nullable="0+", tag=3, default=None)
    adding_replicas: list[int] | None = array("int32", nullable="0+", tag=4, default=None)
    leader_recovery_state: int = int8(tag=5, default=-1)
    directories: list[Uuid] | None = array("uuid", "1+", nullable="1+", tag=8, default=None)
    eligible_leader_replicas: list[int] | None = array("int32", "2+", nullable="2+", tag=6, default=None)
    last_known_elr: list[int] | None = array("int32", "2+", nullable="2+", tag=7, default=None)
