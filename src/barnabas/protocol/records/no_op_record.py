"""NoOpRecord (metadata record 20): nothing, but the offset advances."""

from barnabas.protocol.schema import Message

__all__ = ["NoOpRecord"]


class NoOpRecord(Message, api_key=20, versions="0", flexible="0+"):
    pass
