"""ConfigRecord (metadata record 4): sets a config of a resource; a null value deletes it."""

from barnabas.protocol.schema import Message, int8, string

__all__ = ["ConfigRecord"]


class ConfigRecord(Message, api_key=4, versions="0", flexible="0+"):
    resource_type: int = int8()
    resource_name: str = string()
    name: str = string()
    value: str | None = string(nullable="0+", secret=True)
