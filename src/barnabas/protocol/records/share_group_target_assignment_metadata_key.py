"""ShareGroupTargetAssignmentMetadataKey (coordinator record key 12): names the epoch of a target assignment."""

from barnabas.protocol.schema import Message, string

__all__ = ["ShareGroupTargetAssignmentMetadataKey"]


class ShareGroupTargetAssignmentMetadataKey(Message, api_key=12, versions="0"):
    group_id: str = string("0")
