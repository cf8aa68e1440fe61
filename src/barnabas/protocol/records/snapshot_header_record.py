"""SnapshotHeaderRecord (data): control record that opens a snapshot."""

from barnabas.protocol.schema import Message, int16, int64

__all__ = ["SnapshotHeaderRecord"]


class SnapshotHeaderRecord(Message, versions="0", flexible="0+"):
    version: int = int16()
    last_contained_log_timestamp: int = int64()
