"""GroupMetadataKey (coordinator record key 2): a classic group."""

from barnabas.protocol.schema import Message, string

__all__ = ["GroupMetadataKey"]


class GroupMetadataKey(Message, api_key=2, versions="0"):
    group: str = string("0")
