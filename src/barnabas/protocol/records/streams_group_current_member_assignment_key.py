"""StreamsGroupCurrentMemberAssignmentKey (coordinator record key 22): names the current assignment of a member."""

from barnabas.protocol.schema import Message, string

__all__ = ["StreamsGroupCurrentMemberAssignmentKey"]


class StreamsGroupCurrentMemberAssignmentKey(Message, api_key=22, versions="0"):
    group_id: str = string("0")
    member_id: str = string("0")
