"""RemoveDelegationTokenRecord (metadata record 26): removes a delegation token."""

from barnabas.protocol.schema import Message, string

__all__ = ["RemoveDelegationTokenRecord"]


class RemoveDelegationTokenRecord(Message, api_key=26, versions="0", flexible="0+"):
    token_id: str = string()
