"""The membership of a registry, against a scripted coordinator."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from barnabas.common.error_code import ErrorCode
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from barnabas.protocol.messages.leave_group import LeaveGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from barnabas.registry.decide.election import Identity, elect
from barnabas.registry.run.leadership import Leadership

OURS, OTHER = (Identity("http", host, 8081, True) for host in ("ours", "other"))


class Coordinator:
    """``members`` are those of the next generation, besides ours, by their ids."""

    def __init__(self) -> None:
        self.members: dict[str, Identity] = {}
        self.generation = 0
        self.asked: list[str] = []
        self.is_rebalancing = False

    async def request(self, message: Any, *, timeout_s: float | None = None) -> Any:
        self.asked.append(type(message).__name__)
        if isinstance(message, JoinGroupRequest):
            return self._joined(message)
        if isinstance(message, SyncGroupRequest):
            identities = {**{name: other.encode() for name, other in self.members.items()}, "m": OURS.encode()}
            return SyncGroupResponse(assignment=elect(identities).encode())
        if isinstance(message, HeartbeatRequest):
            is_over = self.is_rebalancing or message.generation_id != self.generation
            return HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS if is_over else 0)
        return LeaveGroupResponse()

    def _joined(self, message: JoinGroupRequest) -> JoinGroupResponse:
        if not message.member_id:
            return JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="m")
        self.generation += 1
        self.is_rebalancing = False
        metadata = {**{name: other.encode() for name, other in self.members.items()}, "m": OURS.encode()}
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_name="v0",
            leader="m",
            member_id="m",
            members=[JoinGroupResponseMember(member_id=name, metadata=data) for name, data in metadata.items()],
        )

    async def drop(self) -> None:
        self.asked.append("drop")


class Listener:
    def __init__(self) -> None:
        self.calls: list[str] = []

    async def lead(self) -> None:
        self.calls.append("lead")

    async def follow(self) -> None:
        self.calls.append("follow")


async def settled(is_true: Any) -> None:
    for _ in range(1000):
        if is_true():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not settle")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
async def test_a_member_leads_until_another_one_is_elected() -> None:
    coordinator, listener = Coordinator(), Listener()

    async def turn(seconds: float) -> None:
        await asyncio.sleep(0)

    leadership = Leadership(None, "group", OURS, listener, sleep=turn)
    leadership._coordinator = coordinator  # type: ignore[assignment]
    leadership.start()
    await settled(lambda: leadership.is_leader)
    assert (leadership.leader, leadership.has_lease) == (OURS, True)
    assert coordinator.asked[:3] == ["JoinGroupRequest", "JoinGroupRequest", "SyncGroupRequest"]

    coordinator.members, coordinator.is_rebalancing = {"a": OTHER}, True
    await settled(lambda: leadership.leader == OTHER)
    assert not leadership.is_leader
    assert listener.calls.count("lead") == 1
    assert listener.calls[-1] == "follow"

    coordinator.members, coordinator.is_rebalancing = {}, True
    await settled(lambda: leadership.is_leader)
    await leadership.close()
    assert not leadership.is_leader
    assert coordinator.asked[-2:] == ["LeaveGroupRequest", "drop"]
