"""ShareGroupStatePartitionMetadataKey (coordinator record key 15): names the share-partitions of a group."""

from barnabas.protocol.schema import Message, string

__all__ = ["ShareGroupStatePartitionMetadataKey"]


class ShareGroupStatePartitionMetadataKey(Message, api_key=15, versions="0"):
    group_id: str = string("0")
