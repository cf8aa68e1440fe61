"""Access control entries by their id."""

from __future__ import annotations

from barnabas.common.errors import invariant
from barnabas.common.uuid import Uuid
from barnabas.metadata.image.keyed_records import KeyedRecordsDelta, KeyedRecordsImage
from barnabas.protocol.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.protocol.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord

__all__ = ["AclsDelta", "AclsImage"]


class AclsImage(KeyedRecordsImage[Uuid, AccessControlEntryRecord]):
    __slots__ = ()


class AclsDelta(KeyedRecordsDelta[Uuid, AccessControlEntryRecord]):
    __slots__ = ()

    def replay(self, record: AccessControlEntryRecord) -> None:
        self.put(record.id, record)

    def replay_remove(self, record: RemoveAccessControlEntryRecord) -> None:
        invariant(self.get(record.id) is not None, f"there is no ACL {record.id}")
        self.remove(record.id)

    def apply(self) -> AclsImage:
        return AclsImage(self.applied())
