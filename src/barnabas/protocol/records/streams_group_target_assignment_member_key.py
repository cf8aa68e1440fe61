"""StreamsGroupTargetAssignmentMemberKey (coordinator record key 21): names the target assignment of a member."""

from barnabas.protocol.schema import Message, string

__all__ = ["StreamsGroupTargetAssignmentMemberKey"]


class StreamsGroupTargetAssignmentMemberKey(Message, api_key=21, versions="0"):
    group_id: str = string("0")
    member_id: str = string("0")
