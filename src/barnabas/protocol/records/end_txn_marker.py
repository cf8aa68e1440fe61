"""EndTxnMarker (data): the value of a transaction's commit or abort marker."""

from barnabas.protocol.schema import Message, int32

__all__ = ["EndTxnMarker"]


class EndTxnMarker(Message, versions="0"):
    coordinator_epoch: int = int32()
