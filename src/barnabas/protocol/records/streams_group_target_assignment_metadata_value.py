"""StreamsGroupTargetAssignmentMetadataValue (coordinator record value 20): the epoch of a target assignment."""

from barnabas.protocol.schema import Message, int32, int64

__all__ = ["StreamsGroupTargetAssignmentMetadataValue"]


class StreamsGroupTargetAssignmentMetadataValue(Message, api_key=20, versions="0", flexible="0+"):
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, ignorable=True)
