"""The messages between workers through the group coordinator, as a real worker writes and reads them (KIP-415)."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.connect.decide.group.connect_protocol import (
    Assignment,
    ProtocolVersion,
    WorkerMetadata,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
    join_protocols,
)
from barnabas.connect.identifiers import ConnectorTaskId
from barnabas.protocol.errors import DecodeError
from tests.oracles.corpus import check_all, grouped

pytestmark = pytest.mark.oracle

GROUPS = grouped("connect", lambda data: str(data["family"]))


def test_assignments_have_the_bytes_of_kafka() -> None:
    check_all(GROUPS["assignment"], check_assignment)


def test_metadata_has_the_bytes_of_kafka() -> None:
    check_all(GROUPS["metadata"], check_metadata)


def test_the_same_protocols_are_offered_in_the_same_order() -> None:
    check_all(GROUPS["join-protocols"], check_join_protocols)


def test_what_kafka_refuses_is_refused_and_nothing_else() -> None:
    check_all(GROUPS["bad"], check_bad)


def check_assignment(data: dict[str, Any]) -> None:
    given = assignment(data["given"])
    if data["hex"] is None:
        assert given == Assignment()
        return
    wire = bytes.fromhex(data["hex"])
    assert encode_assignment(given) == wire
    decoded = decode_assignment(wire, ProtocolVersion(data["protocolVersion"]))
    assert decoded == assignment(data["decoded"])
    assert encode_assignment(decoded) == wire


def check_metadata(data: dict[str, Any]) -> None:
    wire, version = bytes.fromhex(data["hex"]), ProtocolVersion(data["protocolVersion"])
    allocation = assignment(data["assignment"]) if "assignment" in data else None
    assert encode_metadata(WorkerMetadata(data["url"], data["offset"], allocation), version) == wire
    decoded = decode_metadata(wire, version)
    assert (decoded.url, decoded.config_offset) == (data["url"], data["offset"])
    if "decodedAssignment" in data:
        assert (decoded.allocation or Assignment()) == assignment(data["decodedAssignment"])
    assert encode_metadata(decoded, version) == wire


def check_join_protocols(data: dict[str, Any]) -> None:
    highest = ProtocolVersion.EAGER
    if not data.get("eager"):
        highest = ProtocolVersion.SESSIONED if data["sessioned"] else ProtocolVersion.COMPATIBLE
    allocation = assignment(data["assignment"]) if "assignment" in data else None
    offered = join_protocols(highest, data["url"], data["offset"], allocation)
    assert [[name, metadata.hex()] for name, metadata in offered] == data["protocols"]


def check_bad(data: dict[str, Any]) -> None:
    reader, kind = data["which"].split("-")
    agreed = ProtocolVersion.EAGER if reader == "v0" else ProtocolVersion.COMPATIBLE
    decode = decode_metadata if kind == "metadata" else decode_assignment
    wire = bytes.fromhex(data["hex"])
    if data["ok"]:
        decode(wire, agreed)
    else:
        with pytest.raises(DecodeError):
            decode(wire, agreed)


def assignment(fields: dict[str, Any]) -> Assignment:
    return Assignment(
        fields.get("version", ProtocolVersion.EAGER),
        fields["error"],
        fields["leader"],
        fields["leaderUrl"],
        fields["offset"],
        tuple(fields["connectors"]),
        tasks(fields["tasks"]),
        tuple(fields.get("revokedConnectors", ())),
        tasks(fields.get("revokedTasks", ())),
        fields.get("delay", 0),
    )


def tasks(pairs: list[Any]) -> tuple[ConnectorTaskId, ...]:
    return tuple(ConnectorTaskId(connector, number) for connector, number in pairs)
