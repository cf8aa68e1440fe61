"""AbortTransactionRecord (metadata record 25): drops the records since BeginTransactionRecord."""

from barnabas.protocol.schema import Message, string

__all__ = ["AbortTransactionRecord"]


class AbortTransactionRecord(Message, api_key=25, versions="0", flexible="0+"):
    reason: str | None = string(nullable="0+", tag=0, default=None)
