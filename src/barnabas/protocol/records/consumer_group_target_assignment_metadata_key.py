"""ConsumerGroupTargetAssignmentMetadataKey (coordinator record key 6).

Names the epoch of a group's target assignment.
"""

from barnabas.protocol.schema import Message, string

__all__ = ["ConsumerGroupTargetAssignmentMetadataKey"]


class ConsumerGroupTargetAssignmentMetadataKey(Message, api_key=6, versions="0"):
    group_id: str = string("0")
