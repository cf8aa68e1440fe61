"""DelegationTokenRecord (metadata record 10): puts a delegation token; the HMAC is never stored."""

from barnabas.protocol.schema import Message, array, int64, string

__all__ = ["DelegationTokenRecord"]


class DelegationTokenRecord(Message, api_key=10, versions="0", flexible="0+"):
    owner: str = string()
    requester: str = string()
    renewers: list[str] = array("string")
    issue_timestamp: int = int64()
    max_timestamp: int = int64()
    expiration_timestamp: int = int64()
    token_id: str = string()
