"""ConsumerGroupCurrentMemberAssignmentKey (coordinator record key 8): names what a member owns now."""

from barnabas.protocol.schema import Message, string

__all__ = ["ConsumerGroupCurrentMemberAssignmentKey"]


class ConsumerGroupCurrentMemberAssignmentKey(Message, api_key=8, versions="0"):
    group_id: str = string("0")
    member_id: str = string("0")
