"""RemoveAccessControlEntryRecord (metadata record 19): removes the ACL with this id."""

from barnabas.common.uuid import Uuid
from barnabas.protocol.schema import Message, uuid

__all__ = ["RemoveAccessControlEntryRecord"]


class RemoveAccessControlEntryRecord(Message, api_key=19, versions="0", flexible="0+"):
    id: Uuid = uuid()
