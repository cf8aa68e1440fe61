"""ConsumerGroupMemberMetadataKey (coordinator record key 5): names a member of a group."""

from barnabas.protocol.schema import Message, string

__all__ = ["ConsumerGroupMemberMetadataKey"]


class ConsumerGroupMemberMetadataKey(Message, api_key=5, versions="0"):
    group_id: str = string("0")
    member_id: str = string("0")
