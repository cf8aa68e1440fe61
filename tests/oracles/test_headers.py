"""Headers, and whole frames: length, header, body."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.headers import RequestHeader, ResponseHeader, request_header_version, response_header_version
from tests.oracles.corpus import check_all, grouped
from tests.oracles.messages import attach_unknown_tags, message_class, sorted_tags, unknown_tags_of

pytestmark = pytest.mark.oracle

GROUPS = grouped("headers", lambda data: f"{data['api']}-{data['kind']}")


@pytest.mark.parametrize("kind", GROUPS)
def test_headers_and_frames_equal_those_of_kafka(kind: str) -> None:
    check_all(GROUPS[kind], check_frame)


def check_frame(data: dict[str, Any]) -> None:
    is_request = data["kind"] == "request-header"
    cls = RequestHeader if is_request else ResponseHeader
    version_of = request_header_version if is_request else response_header_version
    version, api_version = data["version"], data["apiVersion"]
    assert version_of(ApiKey(data["key"]), api_version) == version
    assert cls.is_flexible(version) == data["flexible"]

    frame = bytes.fromhex(data["frame"])
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header, end = cls.read(frame, 4, version)
    assert frame[4:end].hex() == data["hex"]
    assert header.to_json(version) == data["json"]
    assert unknown_tags_of(header) == sorted_tags(data.get("unknownTags"))
    assert header.encode(version).hex() == data["hex"]

    from_json = cls.from_json(data["json"], version)
    attach_unknown_tags(from_json, data.get("unknownTags", []))
    assert from_json.encode(version).hex() == data["hex"]

    body_class = message_class(data["api"], data["kind"].removesuffix("-header"))
    body, body_end = body_class.read(frame, end, api_version)
    assert body_end == len(frame)
    assert body.to_json(api_version) == data["body"]
