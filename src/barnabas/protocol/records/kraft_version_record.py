"""KRaftVersionRecord (data): control record: the finalized kraft.version."""

from barnabas.protocol.schema import Message, int16

__all__ = ["KRaftVersionRecord"]


class KRaftVersionRecord(Message, versions="0", flexible="0+"):
    version: int = int16()
    kraft_version: int = int16(json="kRaftVersion")
