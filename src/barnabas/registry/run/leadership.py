"""Membership in the group of registries, and who leads it.

A member joins, and then sends heartbeats until the group rebalances. While it joins again it does not lead: its writes
have ended before JoinGroup is sent. They also end when the coordinator has not answered for most of the session,
because then another member may become the leader. The group decides only about leadership; all members read the topic
anyway.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from barnabas.clients.admin.errors import AdminError, admin_error
from barnabas.clients.coordinator_connection import CoordinatorConnection, CoordinatorKind
from barnabas.clients.errors import ClientError
from barnabas.clients.network_client import NetworkClient
from barnabas.common.error_code import ErrorCode
from barnabas.common.errors import Transient
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from barnabas.registry.decide.election import (
    PROTOCOL_NAME,
    PROTOCOL_TYPE,
    Assignment,
    Identity,
    MalformedIdentity,
    elect,
)

__all__ = ["Leadership", "LeadershipListener"]

log = logging.getLogger(__name__)

_SESSION_TIMEOUT_S = 10.0
_REBALANCE_TIMEOUT_S = 60.0
_HEARTBEAT_S = 1.0
"""Also how long a member takes to notice a rebalance, during which no registry writes."""
_SILENCE_MAX_S = _SESSION_TIMEOUT_S * 2 / 3
_PAUSE_S, _PAUSE_MAX_S = 0.2, 5.0
_LEAVE_TIMEOUT_S = 5.0
_JOIN_AGAIN = frozenset(
    {
        *(ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID),
        *(ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.FENCED_INSTANCE_ID),
    }
)
_OTHER_COORDINATOR = frozenset(
    {
        *(ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        *(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE),
    }
)


class LeadershipListener(Protocol):
    async def lead(self) -> None:
        """Prepare to write. An exception means that the registry does not lead; the group is joined again."""

    async def follow(self) -> None:
        """Stop to write; return when no write is under way."""


class Leadership:
    """``leader`` is None while it is unknown. ``is_leader`` only while this registry may write."""

    def __init__(
        self,
        network: NetworkClient,
        group_id: str,
        identity: Identity,
        listener: LeadershipListener,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.leader: Identity | None = None
        self.is_leader = False
        self.why_unknown = "the group of registries has not elected one yet"
        self.election_count = 0
        self._identity = identity
        self._listener = listener
        self._group_id = group_id
        self._coordinator = CoordinatorConnection(network, group_id, CoordinatorKind.GROUP)
        self._sleep = sleep
        self._member_id = ""
        self._generation = -1
        self._answered_at_s = float("-inf")
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="group of registries")

    @property
    def has_lease(self) -> bool:
        """Whether the coordinator has answered recently enough that no other member can lead."""
        return asyncio.get_running_loop().time() < self._answered_at_s + _SILENCE_MAX_S

    async def wait_for_leader(self, timeout_s: float) -> None:
        """Wait until a leader is known, but not longer than this."""
        try:
            async with asyncio.timeout(timeout_s):
                while self.leader is None:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            pass

    async def close(self) -> None:
        """Leave the group, so that another member leads immediately."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._stop_leading("the registry stops")
        try:
            async with asyncio.timeout(_LEAVE_TIMEOUT_S):
                if self._member_id:
                    member = MemberIdentity(member_id=self._member_id, reason="the registry stops")
                    await self._coordinator.request(LeaveGroupRequest(group_id=self._group_id, members=[member]))
        except (AdminError, ClientError, TimeoutError) as error:
            log.info("the group %s notices the end of this member only after its session: %s", self._group_id, error)
        await self._coordinator.drop()

    async def _run(self) -> None:
        pause_s = _PAUSE_S
        while True:
            try:
                await self._settle(await self._join())
                pause_s = _PAUSE_S
                await self._beat()
            except (AdminError, ClientError, TimeoutError, MalformedIdentity) as error:
                await self._stop_leading(str(error))
                if not isinstance(error, AdminError) or error.code not in _JOIN_AGAIN:
                    pause_s = await self._pause(error, pause_s)
            except Exception as error:
                log.exception("the group of registries failed unexpectedly; joining it again")
                await self._stop_leading(f"{type(error).__name__}: {error}")
                pause_s = await self._pause(error, pause_s)

    async def _pause(self, error: Exception, pause_s: float) -> float:
        is_passing = isinstance(error, Transient | TimeoutError)
        is_passing |= isinstance(error, AdminError) and error.code in _OTHER_COORDINATOR
        log.log(
            logging.INFO if is_passing else logging.WARNING,
            "the group %s can't be joined: %s; trying again in %g s",
            self._group_id,
            error,
            pause_s,
        )
        await self._coordinator.drop()
        await self._sleep(pause_s)
        return min(pause_s * 2, _PAUSE_MAX_S)

    # ---- a generation

    async def _join(self) -> Assignment:
        request = JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=int(_SESSION_TIMEOUT_S * 1000),
            rebalance_timeout_ms=int(_REBALANCE_TIMEOUT_S * 1000),
            member_id=self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=PROTOCOL_NAME, metadata=self._identity.encode())],
        )
        joined = await self._coordinator.request(request, timeout_s=_REBALANCE_TIMEOUT_S + _SESSION_TIMEOUT_S)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = joined.member_id
        self._check(joined.error_code)
        self._member_id, self._generation = joined.member_id, joined.generation_id
        sent_at_s = asyncio.get_running_loop().time()
        synced = await self._coordinator.request(
            SyncGroupRequest(
                group_id=self._group_id,
                generation_id=self._generation,
                member_id=self._member_id,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=joined.protocol_name,
                assignments=_assignments(joined),
            ),
            timeout_s=_REBALANCE_TIMEOUT_S + _SESSION_TIMEOUT_S,
        )
        self._check(synced.error_code)
        self._answered_at_s = sent_at_s
        return Assignment.decode(bytes(synced.assignment))

    async def _settle(self, assignment: Assignment) -> None:
        """Begin to lead, or to forward to the leader."""
        if assignment.has_duplicates:
            self.why_unknown = f"several registries of the group {self._group_id} have the URL {self._identity.url}"
            log.error("%s: set host.name to a name that only this one has", self.why_unknown)
            return
        if assignment.leader is None:
            self.why_unknown = f"no member of the group {self._group_id} has leader.eligibility=true"
            log.warning("the registry has no leader: %s", self.why_unknown)
            return
        self.election_count += 1
        if assignment.member_id == self._member_id:
            await self._with_heartbeats(self._listener.lead())
            self.is_leader = True
        self.leader = assignment.leader
        self._changed.set()
        who = "this registry" if self.is_leader else self.leader.url
        log.info("%s leads the group %s, generation %d", who, self._group_id, self._generation)

    async def _with_heartbeats(self, work: Awaitable[None]) -> None:
        """Do the work while heartbeats keep the membership. Raise the error of either."""
        task, beating = asyncio.ensure_future(work), asyncio.ensure_future(self._beat())
        try:
            done, _ = await asyncio.wait({task, beating}, return_when=asyncio.FIRST_COMPLETED)
            for ended in done:
                ended.result()
        finally:
            task.cancel()
            beating.cancel()
            await asyncio.gather(task, beating, return_exceptions=True)

    async def _beat(self) -> None:
        """Send heartbeats, until one raises an error after which the member joins again."""
        loop = asyncio.get_running_loop()
        while True:
            await self._sleep(_HEARTBEAT_S)
            try:
                left_s = self._answered_at_s + _SILENCE_MAX_S - loop.time()
                async with asyncio.timeout(max(left_s, 0.0)):
                    sent_at = loop.time()
                    await self._heartbeat()
                self._answered_at_s = sent_at
            except (ClientError, AdminError, TimeoutError) as error:
                if isinstance(error, AdminError) and error.code not in _OTHER_COORDINATOR:
                    raise
                if not self.has_lease:
                    raise
                await self._coordinator.drop()

    async def _heartbeat(self) -> None:
        request = HeartbeatRequest(group_id=self._group_id, generation_id=self._generation, member_id=self._member_id)
        self._check((await self._coordinator.request(request)).error_code)

    async def _stop_leading(self, why: str) -> None:
        was_leader, self.is_leader = self.is_leader, False
        self.leader, self.why_unknown = None, why
        if was_leader:
            log.info("this registry no longer leads the group %s: %s", self._group_id, why)
        await self._listener.follow()

    def _check(self, code: int) -> None:
        """Raise AdminError for an error."""
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self._member_id = ""
        if code:
            raise admin_error(code, None, self._group_id)


def _assignments(joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
    """Return the result of the election for every member, if this one leads the group."""
    if joined.leader != joined.member_id:
        return []
    elected = elect({member.member_id: bytes(member.metadata) for member in joined.members}).encode()
    return [SyncGroupRequestAssignment(member_id=member.member_id, assignment=elected) for member in joined.members]
