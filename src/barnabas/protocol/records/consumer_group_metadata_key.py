"""ConsumerGroupMetadataKey (coordinator record key 3): names a next-generation consumer group."""

from barnabas.protocol.schema import Message, string

__all__ = ["ConsumerGroupMetadataKey"]


class ConsumerGroupMetadataKey(Message, api_key=3, versions="0"):
    group_id: str = string("0")
