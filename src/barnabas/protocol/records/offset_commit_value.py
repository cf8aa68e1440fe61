"""OffsetCommitValue (coordinator record value 1): a committed offset."""

from barnabas.common.uuid import Uuid
from barnabas.protocol.schema import Message, int32, int64, string, uuid

__all__ = ["OffsetCommitValue"]


class OffsetCommitValue(Message, api_key=1, versions="0-4", flexible="4+"):
    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1, ignorable=True)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=-1, ignorable=True)
    topic_id: Uuid = uuid("4+", tag=0, ignorable=True)
