"""ShareGroupCurrentMemberAssignmentKey (coordinator record key 14): names the current assignment of a member."""

from barnabas.protocol.schema import Message, string

__all__ = ["ShareGroupCurrentMemberAssignmentKey"]


class ShareGroupCurrentMemberAssignmentKey(Message, api_key=14, versions="0"):
    group_id: str = string("0")
    member_id: str = string("0")
