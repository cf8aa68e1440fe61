"""BeginTransactionRecord (metadata record 23): opens a transaction that may span batches."""

from barnabas.protocol.schema import Message, string

__all__ = ["BeginTransactionRecord"]


class BeginTransactionRecord(Message, api_key=23, versions="0", flexible="0+"):
    name: str | None = string(nullable="0+", tag=0, default=None)
