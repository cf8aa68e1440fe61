"""RemoveTopicRecord (metadata record 9): removes a topic, its partitions and configs."""

from barnabas.common.uuid import Uuid
from barnabas.protocol.schema import Message, uuid

__all__ = ["RemoveTopicRecord"]


class RemoveTopicRecord(Message, api_key=9, versions="0", flexible="0+"):
    topic_id: Uuid = uuid()
