"""TransactionLogKey (coordinator record key 0): a transactional id."""

from barnabas.protocol.schema import Message, string

__all__ = ["TransactionLogKey"]


class TransactionLogKey(Message, api_key=0, versions="0"):
    transactional_id: str = string("0")
