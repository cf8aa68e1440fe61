"""UnfenceBrokerRecord (metadata record 8): unfences a broker (old form)."""

from barnabas.protocol.schema import Message, int32, int64

__all__ = ["UnfenceBrokerRecord"]


class UnfenceBrokerRecord(Message, api_key=8, versions="0", flexible="0+"):
    id: int = int32()
    epoch: int = int64()
