"""AccessControlEntryRecord (metadata record 18): puts an ACL under its id."""

from barnabas.common.uuid import Uuid
from barnabas.protocol.schema import Message, int8, string, uuid

__all__ = ["AccessControlEntryRecord"]


class AccessControlEntryRecord(Message, api_key=18, versions="0", flexible="0+"):
    id: Uuid = uuid()
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8()
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()
