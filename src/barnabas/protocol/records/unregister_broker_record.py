"""UnregisterBrokerRecord (metadata record 1): removes a broker registration."""

from barnabas.protocol.schema import Message, int32, int64

__all__ = ["UnregisterBrokerRecord"]


class UnregisterBrokerRecord(Message, api_key=1, versions="0", flexible="0+"):
    broker_id: int = int32()
    broker_epoch: int = int64()
