"""RemoveUserScramCredentialRecord (metadata record 22): removes a SCRAM credential."""

from barnabas.protocol.schema import Message, int8, string

__all__ = ["RemoveUserScramCredentialRecord"]


class RemoveUserScramCredentialRecord(Message, api_key=22, versions="0", flexible="0+"):
    name: str = string()
    mechanism: int = int8()
