"""ShareGroupTargetAssignmentMetadataValue (coordinator record value 12): the epoch of a target assignment."""

from barnabas.protocol.schema import Message, int32, int64

__all__ = ["ShareGroupTargetAssignmentMetadataValue"]


class ShareGroupTargetAssignmentMetadataValue(Message, api_key=12, versions="0", flexible="0+"):
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, ignorable=True)
