"""ConsumerProtocolAssignment (data): what a classic consumer is assigned, inside SyncGroup."""

from barnabas.protocol.schema import Message, Struct, array, bytes_, string

__all__ = ["ConsumerProtocolAssignment", "TopicPartition"]


class TopicPartition(Struct):
    topic: str = string()
    partitions: list[int] = array("int32")


class ConsumerProtocolAssignment(Message, versions="0-3"):
    assigned_partitions: list[TopicPartition] = array(TopicPartition)
    user_data: bytes | None = bytes_(nullable="0+", default=None)
