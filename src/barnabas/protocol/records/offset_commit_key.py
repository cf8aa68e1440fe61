"""OffsetCommitKey (coordinator record key 1): group, topic and partition of a committed offset."""

from barnabas.protocol.schema import Message, int32, string

__all__ = ["OffsetCommitKey"]


class OffsetCommitKey(Message, api_key=1, versions="0"):
    group: str = string("0")
    topic: str = string("0")
    partition: int = int32("0")
