"""UserScramCredentialRecord (metadata record 11): puts a SCRAM credential."""

from barnabas.protocol.schema import Message, bytes_, int8, int32, string

__all__ = ["UserScramCredentialRecord"]


class UserScramCredentialRecord(Message, api_key=11, versions="0", flexible="0+"):
    name: str = string()
    mechanism: int = int8()
    salt: bytes = bytes_(secret=True)
    stored_key: bytes = bytes_(secret=True)
    server_key: bytes = bytes_(secret=True)
    iterations: int = int32()
