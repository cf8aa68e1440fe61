"""ConsumerGroupTargetAssignmentMemberValue (coordinator record value 7): a member's target assignment."""

from barnabas.common.uuid import Uuid
from barnabas.protocol.schema import Message, Struct, array, uuid

__all__ = ["ConsumerGroupTargetAssignmentMemberValue", "TopicPartition"]


class TopicPartition(Struct):
    topic_id: Uuid = uuid()
    partitions: list[int] = array("int32")


class ConsumerGroupTargetAssignmentMemberValue(Message, api_key=7, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartition] = array(TopicPartition)
