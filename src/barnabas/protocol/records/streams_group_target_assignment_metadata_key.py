"""StreamsGroupTargetAssignmentMetadataKey (coordinator record key 20): names the epoch of a target assignment."""

from barnabas.protocol.schema import Message, string

__all__ = ["StreamsGroupTargetAssignmentMetadataKey"]


class StreamsGroupTargetAssignmentMetadataKey(Message, api_key=20, versions="0"):
    group_id: str = string("0")
