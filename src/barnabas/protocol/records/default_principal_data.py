"""DefaultPrincipalData (data): a principal as an Envelope carries it."""

from barnabas.protocol.schema import Message, bool_, string

__all__ = ["DefaultPrincipalData"]


class DefaultPrincipalData(Message, versions="0", flexible="0+"):
    type: str = string()
    name: str = string()
    token_authenticated: bool = bool_()
