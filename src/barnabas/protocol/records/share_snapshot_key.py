"""ShareSnapshotKey (coordinator record key 0): names the whole state of a share-partition."""

from barnabas.common.uuid import Uuid
from barnabas.protocol.schema import Message, int32, string, uuid

__all__ = ["ShareSnapshotKey"]


class ShareSnapshotKey(Message, api_key=0, versions="0"):
    group_id: str = string("0")
    topic_id: Uuid = uuid("0")
    partition: int = int32("0")
