"""ShareGroupStatePartitionMetadataValue (coordinator record value 15): share-partitions and their state."""

from barnabas.common.uuid import Uuid
from barnabas.protocol.schema import Message, Struct, array, string, uuid

__all__ = ["ShareGroupStatePartitionMetadataValue", "TopicInfo", "TopicPartitionsInfo"]


class TopicPartitionsInfo(Struct):
    topic_id: Uuid = uuid()
    topic_name: str = string()
    partitions: list[int] = array("int32")


class TopicInfo(Struct):
    topic_id: Uuid = uuid()
    topic_name: str = string()


class ShareGroupStatePartitionMetadataValue(Message, api_key=15, versions="0", flexible="0+"):
    initializing_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    initialized_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    deleting_topics: list[TopicInfo] = array(TopicInfo)
