"""ConsumerGroupPartitionMetadataValue (coordinator record value 4).

The partitions that a group saw (no longer written).
"""

from barnabas.common.uuid import Uuid
from barnabas.protocol.schema import Message, Struct, array, int32, string, uuid

__all__ = ["ConsumerGroupPartitionMetadataValue", "PartitionMetadata", "TopicMetadata"]


class PartitionMetadata(Struct):
    partition: int = int32()
    racks: list[str] = array("string")


class TopicMetadata(Struct):
    topic_id: Uuid = uuid()
    topic_name: str = string()
    num_partitions: int = int32()
    partition_metadata: list[PartitionMetadata] = array(PartitionMetadata)


class ConsumerGroupPartitionMetadataValue(Message, api_key=4, versions="0", flexible="0+"):
    topics: list[TopicMetadata] = array(TopicMetadata)
