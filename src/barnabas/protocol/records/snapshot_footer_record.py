"""SnapshotFooterRecord (data): control record that closes a snapshot."""

from barnabas.protocol.schema import Message, int16

__all__ = ["SnapshotFooterRecord"]


class SnapshotFooterRecord(Message, versions="0", flexible="0+"):
    version: int = int16()
