"""ShareGroupTargetAssignmentMemberKey (coordinator record key 13): names the target assignment of a member."""

from barnabas.protocol.schema import Message, string

__all__ = ["ShareGroupTargetAssignmentMemberKey"]


class ShareGroupTargetAssignmentMemberKey(Message, api_key=13, versions="0"):
    group_id: str = string("0")
    member_id: str = string("0")
