"""ConsumerProtocolSubscription (data): what a classic consumer subscribes to, inside JoinGroup."""

from barnabas.protocol.schema import Message, Struct, array, bytes_, int32, string

__all__ = ["ConsumerProtocolSubscription", "TopicPartition"]


class TopicPartition(Struct):
    topic: str = string("1+")
    partitions: list[int] = array("int32", "1+")


class ConsumerProtocolSubscription(Message, versions="0-3"):
    topics: list[str] = array("string")
    user_data: bytes | None = bytes_(nullable="0+", default=None)
    owned_partitions: list[TopicPartition] = array(TopicPartition, "1+", ignorable=True)
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)
