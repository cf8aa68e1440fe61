"""PartitionRecord (metadata record 3): puts a partition with its replicas and leader."""

from barnabas.common.uuid import Uuid
from barnabas.protocol.schema import Message, array, int8, int32, uuid

__all__ = ["PartitionRecord"]


class PartitionRecord(Message, api_key=3, versions="0-2", flexible="0+"):
    partition_id: int = int32(default=-1)
    topic_id: Uuid = uuid()
    replicas: list[int] = array("int32")
    isr: list[int] = array("int32")
    removing_replicas: list[int] = array("int32")
    adding_replicas: list[int] = array("int32")
    leader: int = int32(default=-1)
    leader_recovery_state: int = int8(tag=0)
    leader_epoch: int = int32(default=-1)
    partition_epoch: int = int32(default=-1)
    directories: list[Uuid] = array("uuid", "1+")
    eligible_leader_replicas: list[int] | None = array("int32", "2+", nullable="2+", tag=1, default=None)
    last_known_elr: list[int] | None = array("int32", "2+", nullable="2+", tag=2, default=None)
