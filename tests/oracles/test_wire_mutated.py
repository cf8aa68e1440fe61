"""Damaged bodies are accepted or refused as by Kafka's generated readers, and accepted ones have the same value."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.protocol.errors import DecodeError, EncodeError
from tests.oracles.corpus import check_all, grouped
from tests.oracles.messages import message_class, sorted_tags, unknown_tags_of

pytestmark = pytest.mark.oracle

GROUPS = grouped("wire-mutated", lambda data: f"{data['api']}-{data['kind']}")


@pytest.mark.parametrize("kind", GROUPS)
def test_damaged_bodies_are_accepted_or_refused_as_by_kafka(kind: str) -> None:
    check_all(GROUPS[kind], check_damaged)


def check_damaged(data: dict[str, Any]) -> None:
    cls, version = message_class(data["api"], data["kind"]), data["version"]
    encoded = bytes.fromhex(data["hex"])
    if not data["ok"]:
        with pytest.raises(DecodeError):
            cls.decode(encoded, version)
        return
    message, end = cls.read(encoded, 0, version)
    assert len(encoded) - end == data["trailing"]
    assert message.to_json(version) == data["json"]
    assert unknown_tags_of(message) == sorted_tags(data.get("unknownTags"))
    if "reencodeException" in data:
        with pytest.raises(EncodeError):
            message.encode(version)
    else:
        expected = data["hex"][: end * 2] if data["reencoded"] == "same" else data["reencoded"]
        assert message.encode(version).hex() == expected
