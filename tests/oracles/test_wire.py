"""Request and response bodies of every API and version, equal Kafka's byte for byte and value for value."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracles.corpus import check_all, grouped
from tests.oracles.messages import attach_unknown_tags, message_class, sorted_tags, unknown_tags_of

pytestmark = pytest.mark.oracle

GROUPS = grouped("wire", lambda data: f"{data['api']}-{data['kind']}")


@pytest.mark.parametrize("kind", GROUPS)
def test_bodies_have_the_bytes_and_values_of_kafka(kind: str) -> None:
    check_all(GROUPS[kind], check_body)


def check_body(data: dict[str, Any]) -> None:
    cls, version = message_class(data["api"], data["kind"]), data["version"]
    encoded = bytes.fromhex(data["hex"])
    message, end = cls.read(encoded, 0, version)
    assert end == len(encoded)
    assert data["key"] == cls.API_KEY
    assert cls.is_flexible(version) == data["flexible"]
    assert message.to_json(version) == data["json"]
    assert unknown_tags_of(message) == sorted_tags(data.get("unknownTags"))
    assert message.encode(version).hex() == data["hex"]

    from_json = cls.from_json(data["json"], version)
    attach_unknown_tags(from_json, data.get("unknownTags", []))
    assert from_json.encode(version).hex() == data["hex"]
