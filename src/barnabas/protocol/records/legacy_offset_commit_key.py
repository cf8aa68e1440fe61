"""LegacyOffsetCommitKey (coordinator record key 0): the oldest form of OffsetCommitKey."""

from barnabas.protocol.schema import Message, int32, string

__all__ = ["LegacyOffsetCommitKey"]


class LegacyOffsetCommitKey(Message, api_key=0, versions="0"):
    group: str = string("0")
    topic: str = string("0")
    partition: int = int32("0")
