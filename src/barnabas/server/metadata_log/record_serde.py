"""The records of the metadata log for the raft node. They are written with their version and read without it."""

from __future__ import annotations

from typing import Any

from barnabas.protocol.record_serde import decode_metadata_record, encode_metadata_record

__all__ = ["MetadataRecordSerde"]


class MetadataRecordSerde:
    """Encodes an ``ApiMessageAndVersion`` and decodes it to the message alone."""

    def encode(self, record: Any) -> bytes:
        return encode_metadata_record(record.message, record.version)

    def decode(self, value: bytes | memoryview) -> Any:
        return decode_metadata_record(value)[0]
