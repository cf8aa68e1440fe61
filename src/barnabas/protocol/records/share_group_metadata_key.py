"""ShareGroupMetadataKey (coordinator record key 11): names the epoch of a share group."""

from barnabas.protocol.schema import Message, string

__all__ = ["ShareGroupMetadataKey"]


class ShareGroupMetadataKey(Message, api_key=11, versions="0"):
    group_id: str = string("0")
