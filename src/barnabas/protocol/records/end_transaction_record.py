"""EndTransactionRecord (metadata record 24): applies the records since BeginTransactionRecord."""

from barnabas.protocol.schema import Message

__all__ = ["EndTransactionRecord"]


class EndTransactionRecord(Message, api_key=24, versions="0", flexible="0+"):
    pass
