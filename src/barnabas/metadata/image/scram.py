"""SCRAM credentials by mechanism and user."""

from __future__ import annotations

from barnabas.metadata.image.keyed_records import KeyedRecordsDelta, KeyedRecordsImage
from barnabas.metadata.image.record_writer import RecordWriter
from barnabas.protocol.records.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from barnabas.protocol.records.user_scram_credential_record import UserScramCredentialRecord

__all__ = ["ScramDelta", "ScramImage", "ScramKey"]

ScramKey = tuple[int, str]
"""Mechanism (1 SCRAM-SHA-256, 2 SCRAM-SHA-512) and user name."""


class ScramImage(KeyedRecordsImage[ScramKey, UserScramCredentialRecord]):
    __slots__ = ()

    LOSS = "the SCRAM credentials"

    def is_supported(self, writer: RecordWriter) -> bool:
        return writer.metadata_version.is_scram_supported


class ScramDelta(KeyedRecordsDelta[ScramKey, UserScramCredentialRecord]):
    __slots__ = ()

    def replay(self, record: UserScramCredentialRecord) -> None:
        self.put((record.mechanism, record.name), record)

    def replay_remove(self, record: RemoveUserScramCredentialRecord) -> None:
        self.remove((record.mechanism, record.name))

    def apply(self) -> ScramImage:
        return ScramImage(self.applied())
