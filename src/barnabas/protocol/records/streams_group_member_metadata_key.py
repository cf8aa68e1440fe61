"""StreamsGroupMemberMetadataKey (coordinator record key 19): names a member of a streams group."""

from barnabas.protocol.schema import Message, string

__all__ = ["StreamsGroupMemberMetadataKey"]


class StreamsGroupMemberMetadataKey(Message, api_key=19, versions="0"):
    group_id: str = string("0")
    member_id: str = string("0")
