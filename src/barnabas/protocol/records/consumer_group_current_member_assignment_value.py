"""ConsumerGroupCurrentMemberAssignmentValue (coordinator record value 8): what a member owns now."""

from barnabas.common.uuid import Uuid
from barnabas.protocol.schema import Message, Struct, array, int8, int32, uuid

__all__ = ["ConsumerGroupCurrentMemberAssignmentValue", "TopicPartitions"]


class TopicPartitions(Struct):
    topic_id: Uuid = uuid()
    partitions: list[int] = array("int32")
    assignment_epochs: list[int] | None = array("int32", nullable="0+", tag=0)


class ConsumerGroupCurrentMemberAssignmentValue(Message, api_key=8, versions="0", flexible="0+"):
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
    partitions_pending_revocation: list[TopicPartitions] = array(TopicPartitions)
