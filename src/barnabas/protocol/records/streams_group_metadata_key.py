"""StreamsGroupMetadataKey (coordinator record key 17): names the epoch of a streams group."""

from barnabas.protocol.schema import Message, string

__all__ = ["StreamsGroupMetadataKey"]


class StreamsGroupMetadataKey(Message, api_key=17, versions="0"):
    group_id: str = string("0")
