"""The bytes of a record in a coordinator's topic, of any type and version, including those of other broker releases."""

from __future__ import annotations

from barnabas.protocol.record_serde import encode_versioned
from barnabas.protocol.schema import Message


def encode_coordinator_record(key: Message, value: Message | None, version: int = 0) -> tuple[bytes, bytes | None]:
    """Return key and value; ``version`` is the value's."""
    key_bytes = key.API_KEY.to_bytes(2, "big") + key.encode(0)
    return key_bytes, None if value is None else encode_versioned(value, version)
