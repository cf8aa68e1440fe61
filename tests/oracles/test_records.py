"""Records of the metadata log, of control batches and of the coordinators, byte for byte as Kafka writes them."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.protocol.errors import DecodeError
from barnabas.protocol.record_serde import (
    CoordinatorKind,
    decode_coordinator_record,
    decode_metadata_record,
    decode_versioned,
    encode_metadata_record,
    encode_versioned,
)
from barnabas.protocol.schema import Message
from tests.oracles.corpus import check_all, grouped
from tests.oracles.messages import attach_unknown_tags, record_class, sorted_tags, unknown_tags_of
from tests.unit.coordinator.record_bytes import encode_coordinator_record

pytestmark = pytest.mark.oracle


def kind_of(data: dict[str, Any]) -> str:
    return ":".join(str(data[key]) for key in ("family", "type") if key in data)


GROUPS = grouped("records", kind_of)


@pytest.mark.parametrize("kind", GROUPS)
def test_records_have_the_bytes_and_values_of_kafka(kind: str) -> None:
    family = kind.split(":")[0]
    check_all(GROUPS[kind], CHECKS.get(family, check_message))


def check_message(data: dict[str, Any]) -> None:
    cls = record_class(data["type"])
    message = check_decoded(cls, bytes.fromhex(data["hex"]), data["version"], data["json"], data.get("unknownTags"))
    assert message.encode(data["version"]).hex() == data["hex"]
    from_json = cls.from_json(data["json"], data["version"])
    attach_unknown_tags(from_json, data.get("unknownTags", []))
    assert from_json == message
    assert from_json.encode(data["version"]).hex() == data["hex"]
    if "framed" in data and data["family"] != "metadata":
        framed = bytes.fromhex(data["framed"])
        assert decode_versioned(cls, framed) == (message, data["version"])
        assert encode_versioned(message, data["version"]) == framed


def check_decoded(cls: type[Message], encoded: bytes, version: int, json: Any, tags: Any) -> Message:
    message, end = cls.read(encoded, 0, version)
    assert end == len(encoded)
    assert message.to_json(version) == json
    assert unknown_tags_of(message) == sorted_tags(tags)
    return message


def check_metadata(data: dict[str, Any]) -> None:
    check_message(data)
    framed = bytes.fromhex(data["framed"])
    record, version = decode_metadata_record(framed)
    assert (type(record).__name__, record.API_KEY, version) == (data["type"], data["id"], data["version"])
    assert encode_metadata_record(record, version) == framed


def check_metadata_bad(data: dict[str, Any]) -> None:
    framed = bytes.fromhex(data["framed"])
    if not data["ok"]:
        with pytest.raises(DecodeError):
            decode_metadata_record(framed)
        return
    record, version = decode_metadata_record(framed)
    assert (type(record).__name__, version) == (data["type"], data["version"])
    assert record.to_json(min(version, record.MAX_VERSION)) == data["json"]


def check_coordinator(data: dict[str, Any]) -> None:
    key_bytes = bytes.fromhex(data["keyHex"])
    value_bytes = None if data["valueHex"] is None else bytes.fromhex(data["valueHex"])
    kind = CoordinatorKind(data["family"].split("-")[0])
    if not data.get("ok", True):
        with pytest.raises(DecodeError):
            decode_coordinator_record(kind, key_bytes, value_bytes)
        return
    record = decode_coordinator_record(kind, key_bytes, value_bytes)
    assert record.key.to_json(0) == data["key"]
    assert type(record.key).__name__ == data["keyType"]
    tags: list[Any] = []
    if record.value is None:
        assert data["value"] is None
    else:
        assert type(record.value).__name__ == data["valueType"]
        assert record.value.to_json(record.version) == data["value"]
        assert record.version == data["version"]
        tags = unknown_tags_of(record.value)
    assert tags == sorted_tags(data.get("unknownTags"))
    assert encode_coordinator_record(*record) == (key_bytes, value_bytes)


CHECKS = {
    "metadata": check_metadata,
    "metadata-bad": check_metadata_bad,
    "group-coordinator": check_coordinator,
    "group-coordinator-bad": check_coordinator,
    "transaction-coordinator": check_coordinator,
    "transaction-coordinator-bad": check_coordinator,
    "share-coordinator": check_coordinator,
    "share-coordinator-bad": check_coordinator,
}
