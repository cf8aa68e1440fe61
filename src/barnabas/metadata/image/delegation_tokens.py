"""Delegation tokens by token id. The HMAC is not stored: every node computes it from the shared secret."""

from __future__ import annotations

from barnabas.metadata.image.keyed_records import KeyedRecordsDelta, KeyedRecordsImage
from barnabas.metadata.image.record_writer import RecordWriter
from barnabas.protocol.records.delegation_token_record import DelegationTokenRecord
from barnabas.protocol.records.remove_delegation_token_record import RemoveDelegationTokenRecord

__all__ = ["DelegationTokensDelta", "DelegationTokensImage"]


class DelegationTokensImage(KeyedRecordsImage[str, DelegationTokenRecord]):
    __slots__ = ()

    LOSS = "the delegation tokens"

    def is_supported(self, writer: RecordWriter) -> bool:
        return writer.metadata_version.is_delegation_token_supported


class DelegationTokensDelta(KeyedRecordsDelta[str, DelegationTokenRecord]):
    __slots__ = ()

    def replay(self, record: DelegationTokenRecord) -> None:
        self.put(record.token_id, record)

    def replay_remove(self, record: RemoveDelegationTokenRecord) -> None:
        self.remove(record.token_id)

    def apply(self) -> DelegationTokensImage:
        return DelegationTokensImage(self.applied())
