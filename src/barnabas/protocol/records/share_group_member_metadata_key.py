"""ShareGroupMemberMetadataKey (coordinator record key 10): names a member of a share group."""

from barnabas.protocol.schema import Message, string

__all__ = ["ShareGroupMemberMetadataKey"]


class ShareGroupMemberMetadataKey(Message, api_key=10, versions="0"):
    group_id: str = string("0")
    member_id: str = string("0")
