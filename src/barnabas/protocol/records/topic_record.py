"""TopicRecord (metadata record 2): creates a topic."""

from barnabas.common.uuid import Uuid
from barnabas.protocol.schema import Message, string, uuid

__all__ = ["TopicRecord"]


class TopicRecord(Message, api_key=2, versions="0", flexible="0+"):
    name: str = string()
    topic_id: Uuid = uuid()
