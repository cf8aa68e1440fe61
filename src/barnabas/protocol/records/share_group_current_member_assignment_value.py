"""ShareGroupCurrentMemberAssignmentValue (coordinator record value 14): the current assignment of a member."""

from barnabas.common.uuid import Uuid
from barnabas.protocol.schema import Message, Struct, array, int8, int32, uuid

__all__ = ["ShareGroupCurrentMemberAssignmentValue", "TopicPartitions"]


class TopicPartitions(Struct):
    topic_id: Uuid = uuid()
    partitions: list[int] = array("int32")


class ShareGroupCurrentMemberAssignmentValue(Message, api_key=14, versions="0", flexible="0+"):
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
