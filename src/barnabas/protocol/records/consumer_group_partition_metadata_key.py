"""ConsumerGroupPartitionMetadataKey (coordinator record key 4).

Names the partitions that a group saw (no longer written).
"""

from barnabas.protocol.schema import Message, string

__all__ = ["ConsumerGroupPartitionMetadataKey"]


class ConsumerGroupPartitionMetadataKey(Message, api_key=4, versions="0"):
    group_id: str = string("0")
