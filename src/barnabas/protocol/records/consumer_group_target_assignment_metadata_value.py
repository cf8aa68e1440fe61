"""ConsumerGroupTargetAssignmentMetadataValue (coordinator record value 6).

The epoch of a group's target assignment.
"""

from barnabas.protocol.schema import Message, int32, int64

__all__ = ["ConsumerGroupTargetAssignmentMetadataValue"]


class ConsumerGroupTargetAssignmentMetadataValue(Message, api_key=6, versions="0", flexible="0+"):
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, ignorable=True)
