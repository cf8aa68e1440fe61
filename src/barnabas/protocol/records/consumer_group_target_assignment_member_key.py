"""ConsumerGroupTargetAssignmentMemberKey (coordinator record key 7): names a member's target assignment."""

from barnabas.protocol.schema import Message, string

__all__ = ["ConsumerGroupTargetAssignmentMemberKey"]


class ConsumerGroupTargetAssignmentMemberKey(Message, api_key=7, versions="0"):
    group_id: str = string("0")
    member_id: str = string("0")
