"""Our leader decides what the recorded leaders decided, and our requests have the bytes of theirs.

Every recorded round can be replayed. Only the remainder of a running delay differs: the recording has the time at which
the leader received its response, not the time at which it read the clock.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from barnabas.clients.client_config import Address
from barnabas.connect.decide.group import group_requests
from barnabas.connect.decide.group.assignor import AssignmentRound, Assignor, config_mismatch
from barnabas.connect.decide.group.connect_protocol import (
    Assignment,
    ProtocolVersion,
    decode_assignment,
    decode_metadata,
    encode_assignment,
)
from barnabas.connect.decide.group.cooperative_assignor import CooperativeAssignor
from barnabas.connect.decide.group.eager_assignor import EagerAssignor
from barnabas.connect.decide.group.group_settings import GroupSettings
from barnabas.protocol.headers import RequestHeader, request_header_version
from tests.unit.connect.decide.group.configs import Configs
from tests.unit.connect.decide.group.vectors import MAX_DELAY_MS, recorded

NODE = Address("localhost", 9092)
DELAY_TOLERANCE_MS = 50


def test_every_recorded_round_is_decided_identically() -> None:
    assignors: dict[str, Assignor] = {}
    for line in recorded("group_rounds"):
        agreed = ProtocolVersion.of_wire_name(line["protocol"])
        leader = line["leader"]
        if agreed is ProtocolVersion.EAGER:
            assignor: Assignor = EagerAssignor()
        else:
            fresh = CooperativeAssignor(max_delay_ms=MAX_DELAY_MS, reassign_immediately=False)
            assignor = assignors.setdefault(leader, fresh)
        theirs = {
            member: decode_assignment(bytes.fromhex(wire), agreed) for member, wire in line["assignments"].items()
        }
        has_failed = any(assignment.has_failed for assignment in theirs.values())
        round_ = recorded_round(line, agreed)
        ours = config_mismatch(round_, round_.config.offset) if has_failed else assignor.assign(round_)
        where = f"generation {line['generation']} of {leader}"
        assert ours.keys() == theirs.keys(), where
        for member, expected in theirs.items():
            got = ours[member]
            assert abs(got.delay_ms - expected.delay_ms) <= DELAY_TOLERANCE_MS, where
            assert comparable(replace(got, delay_ms=expected.delay_ms)) == comparable(expected), where


def recorded_round(line: dict[str, Any], agreed: ProtocolVersion) -> AssignmentRound:
    members = {member: decode_metadata(bytes.fromhex(wire), agreed) for member, wire in line["members"].items()}
    config = Configs(line["config"]["offset"], line["config"]["connectors"])
    return AssignmentRound(
        line["leader"], agreed, line["generation"], line["last_completed"], members, config, line["t_ms"]
    )


def comparable(assignment: Assignment) -> tuple[bytes, frozenset[object], frozenset[object]]:
    """Return a form that is equal to the byte, except for the order of revoked units."""
    revoked = frozenset(assignment.revoked_connectors), frozenset(assignment.revoked_tasks)
    return encode_assignment(replace(assignment, revoked_connectors=(), revoked_tasks=())), *revoked


def test_requests_equal_the_recorded_ones_byte_for_byte() -> None:
    for line in recorded("group_requests"):
        request = recorded_request(line)
        version = line["version"]
        header = RequestHeader(
            request_api_key=request.api_key,
            request_api_version=version,
            correlation_id=line["corr"],
            client_id=line["client_id"],
        ).encode(request_header_version(request.api_key, version))
        assert (header + request.message(version).encode(version)).hex() == line["frame_hex"]


def recorded_request(line: dict[str, Any]) -> group_requests.GroupRequest:
    settings = GroupSettings(line["group"] or "", "")
    if line["api"] == "JoinGroup":
        settings = replace(
            settings,
            session_timeout_ms=line["session_timeout"],
            rebalance_timeout_ms=line["rebalance_timeout"],
        )
        protocols = [(name, bytes.fromhex(metadata)) for name, metadata in line["protocols"]]
        return group_requests.join_group(
            1, settings, NODE, member_id=line["member_id"], protocols=protocols, reason=line["reason"]
        )
    if line["api"] == "SyncGroup":
        return group_requests.sync_group(
            1,
            settings,
            NODE,
            member_id=line["member_id"],
            generation=line["generation"],
            protocol_name=line["protocol_name"],
            assignments=[(member, bytes.fromhex(wire)) for member, wire in line["assignments"]],
        )
    assert line["api"] == "LeaveGroup"
    return group_requests.leave_group(1, settings, NODE, member_id=line["member_id"], reason=line["reason"])
