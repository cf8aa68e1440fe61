"""ShareUpdateKey (coordinator record key 1): names changes to the state of a share-partition since its snapshot."""

from barnabas.common.uuid import Uuid
from barnabas.protocol.schema import Message, int32, string, uuid

__all__ = ["ShareUpdateKey"]


class ShareUpdateKey(Message, api_key=1, versions="0"):
    group_id: str = string("0")
    topic_id: Uuid = uuid("0")
    partition: int = int32("0")
