"""LegacyOffsetCommitValue (coordinator record value 0): the oldest form of OffsetCommitValue."""

from barnabas.protocol.schema import Message, int64, string

__all__ = ["LegacyOffsetCommitValue"]


class LegacyOffsetCommitValue(Message, api_key=0, versions="0"):
    offset: int = int64("0")
    metadata: str = string("0")
    commit_timestamp: int = int64("0")
