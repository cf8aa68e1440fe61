"""ShareGroupTargetAssignmentMemberValue (coordinator record value 13): the target assignment of a member."""

from barnabas.common.uuid import Uuid
from barnabas.protocol.schema import Message, Struct, array, uuid

__all__ = ["ShareGroupTargetAssignmentMemberValue", "TopicPartition"]


class TopicPartition(Struct):
    topic_id: Uuid = uuid()
    partitions: list[int] = array("int32")


class ShareGroupTargetAssignmentMemberValue(Message, api_key=13, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartition] = array(TopicPartition)
