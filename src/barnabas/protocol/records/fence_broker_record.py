"""FenceBrokerRecord (metadata record 7): fences a broker (old form)."""

from barnabas.protocol.schema import Message, int32, int64

__all__ = ["FenceBrokerRecord"]


class FenceBrokerRecord(Message, api_key=7, versions="0", flexible="0+"):
    id: int = int32()
    epoch: int = int64()
