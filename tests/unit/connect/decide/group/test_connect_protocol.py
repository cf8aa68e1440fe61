"""The bytes that workers exchange."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from tests.unit.connect.decide.group.vectors import recorded

NAMES = st.text(max_size=8)
OFFSETS = st.integers(-1, 2**63 - 1)
CONNECTORS = st.lists(NAMES, unique=True, max_size=4).map(tuple)
TASKS = st.lists(st.builds(ConnectorTaskId, NAMES, st.integers(0, 2**31 - 1)), unique=True, max_size=6).map(tuple)
COOPERATIVE = st.builds(
    Assignment,
    version=st.sampled_from([1, 2]),
    error=st.sampled_from([0, 1]),
    leader=NAMES,
    leader_url=NAMES,
    config_offset=OFFSETS,
    connectors=CONNECTORS,
    tasks=TASKS,
    revoked_connectors=CONNECTORS,
    revoked_tasks=TASKS,
    delay_ms=st.integers(0, 2**31 - 1),
)


def sets(assignment: Assignment) -> tuple[object, ...]:
    """Return sets, because the order has no meaning."""
    return (
        *(assignment.version, assignment.error, assignment.leader, assignment.leader_url, assignment.config_offset),
        *(frozenset(assignment.connectors), frozenset(assignment.tasks)),
        *(frozenset(assignment.revoked_connectors), frozenset(assignment.revoked_tasks), assignment.delay_ms),
    )


def test_messages_of_real_workers_are_decoded_and_encoded_to_the_same_bytes() -> None:
    for line in recorded("group_protocol"):
        wire, agreed = bytes.fromhex(line["hex"]), ProtocolVersion.of_wire_name(line["protocol"])
        if line["kind"] == "metadata":
            metadata = decode_metadata(wire, agreed)
            assert (metadata.url, metadata.config_offset) == (line["decoded"]["url"], line["decoded"]["config_offset"])
            assert encode_metadata(metadata, agreed) == wire
        else:
            assignment = decode_assignment(wire, agreed)
            assert assignment.leader == line["decoded"]["leader"]
            assert assignment.delay_ms == line["decoded"].get("delay", 0)
            assert encode_assignment(assignment) == wire


@given(assignment=COOPERATIVE)
def test_an_assignment_survives_encoding_and_decoding(assignment: Assignment) -> None:
    decoded = decode_assignment(encode_assignment(assignment), ProtocolVersion.SESSIONED)
    assert sets(decoded) == sets(assignment)


@given(assignment=COOPERATIVE, url=NAMES, offset=OFFSETS)
def test_metadata_survives_encoding_and_decoding_in_every_version(
    assignment: Assignment, url: str, offset: int
) -> None:
    for name, wire in join_protocols(ProtocolVersion.SESSIONED, url, offset, assignment):
        decoded = decode_metadata(wire, ProtocolVersion.of_wire_name(name))
        assert (decoded.url, decoded.config_offset) == (url, offset)
        if name == "default":
            assert decoded.allocation is None
        else:
            assert decoded.allocation is not None
            assert frozenset(decoded.allocation.tasks) == frozenset(assignment.tasks)


@given(assignment=COOPERATIVE)
def test_a_worker_of_the_eager_protocol_reads_the_assignments_of_later_ones(assignment: Assignment) -> None:
    eager = decode_assignment(encode_assignment(assignment), ProtocolVersion.EAGER)
    assert frozenset(eager.connectors) == frozenset(assignment.connectors)
    assert frozenset(eager.tasks) == frozenset(assignment.tasks)
    assert not eager.revokes
    assert eager.delay_ms == 0


def test_metadata_of_an_eager_worker_is_read_as_running_nothing() -> None:
    wire = encode_metadata(WorkerMetadata("http://a/", 7), ProtocolVersion.EAGER)
    assert decode_metadata(wire, ProtocolVersion.SESSIONED) == WorkerMetadata("http://a/", 7)


def test_fields_missing_at_the_end_have_their_defaults() -> None:
    full = Assignment(2, 0, "leader", "http://a/", 7, ("c",), (), ("d",), (), 5)
    wire = encode_assignment(full)
    assert decode_assignment(wire[:-4], ProtocolVersion.SESSIONED).delay_ms == 0
    short = decode_assignment(encode_assignment(Assignment(0, 0, "leader", "http://a/", 7)), ProtocolVersion.SESSIONED)
    assert (short.revoked_connectors, short.delay_ms) == ((), 0)


def test_fields_appended_by_a_later_version_are_skipped() -> None:
    wire = encode_assignment(Assignment(2, 0, "leader", "http://a/", 7)) + b"later"
    assert decode_assignment(b"\x00\x09" + wire[2:], ProtocolVersion.SESSIONED).version == 9
    metadata = encode_metadata(WorkerMetadata("http://a/", 7), 2) + b"later"
    assert decode_metadata(metadata, ProtocolVersion.SESSIONED) == WorkerMetadata("http://a/", 7)


@given(wire=st.binary(max_size=60), agreed=st.sampled_from(ProtocolVersion))
def test_any_input_is_decoded_or_raises_a_decode_error(wire: bytes, agreed: ProtocolVersion) -> None:
    for decode in (decode_metadata, decode_assignment):
        try:
            decode(wire, agreed)
        except DecodeError:
            pass


def test_a_missing_assignment_has_no_bytes() -> None:
    with pytest.raises(ValueError, match="without a leader"):
        encode_assignment(Assignment())
    assert encode_metadata(WorkerMetadata("", 0, Assignment()), 2).endswith(b"\xff\xff\xff\xff")


@pytest.mark.parametrize("value", ["eager", "COMPATIBLE", "Sessioned"])
def test_the_setting_is_read_in_any_case(value: str) -> None:
    assert ProtocolVersion.of_config_value(value).config_value == value.lower()


def test_wire_names_and_values_of_the_setting_are_distinct() -> None:
    with pytest.raises(ValueError, match="eager, compatible or sessioned"):
        ProtocolVersion.of_config_value("default")
    with pytest.raises(ValueError, match="no worker has"):
        ProtocolVersion.of_wire_name("range")


def test_a_new_assignment_adds_to_the_units_that_a_member_keeps() -> None:
    task = ConnectorTaskId("a", 0)
    before = Assignment(2, 0, "l", "u", 3, ("a", "b"), (task,))
    round_ = Assignment(2, 0, "l", "u", 5, ("c",), (), ("b",), (task,), 40)
    assert before.followed_by(round_) == Assignment(2, 0, "l", "u", 5, ("c", "a"), (), (), (), 40)
