"""Forward the writes of a registry that does not lead to the leader, and return its answer unchanged.

While no leader is known, or the known one refuses the connection or does not lead any more, a write waits for a moment,
because elections are short. A request that may have reached the leader is not sent again. It has a header of
Confluent's, so that a registry that is not the leader after all refuses it instead of sending it around.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Protocol

import httpx
import msgspec

from barnabas.registry.decide.election import Identity
from barnabas.registry.decide.errors import RegistryError, forwarding_failed, no_leader
from barnabas.registry.rest.forwarding_proof import PROOF_HEADER, Caller, proof_of

__all__ = ["FORWARDED_HEADER", "Forwarded", "Forwarder", "Group"]

FORWARDED_HEADER = "X-Forward"
_WAIT_FOR_LEADER_S = 5.0
_PAUSE_S = 0.2
_UNKNOWN_LEADER = 50004
_PASSED_ON = ("content-type", "accept", "authorization")


class Group(Protocol):
    leader: Identity | None
    is_leader: bool
    why_unknown: str

    async def wait_for_leader(self, timeout_s: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Forwarded:
    """A request to forward. ``needs_proof``: its headers do not show the leader who sends it."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    caller: Caller
    needs_proof: bool


class _NotSent(Exception):
    """The leader can't be connected."""


class Forwarder:
    """``client`` trusts the other registries. ``now_ms`` is the wall clock."""

    def __init__(
        self, group: Group, client: httpx.AsyncClient, secret: bytes | None, now_ms: Callable[[], int]
    ) -> None:
        self.forwarded_count = 0
        self._group = group
        self._client = client
        self._secret = secret
        self._now_ms = now_ms

    async def answer(self, request: Forwarded) -> httpx.Response | None:
        """Return the leader's answer, or None if this registry leads. Raise RegistryError."""
        deadline_s = monotonic() + _WAIT_FOR_LEADER_S
        while await self._must_forward(request.headers):
            try:
                answer = await self._forward(request)
            except _NotSent as error:
                if monotonic() >= deadline_s:
                    raise forwarding_failed(str(error)) from error
            else:
                if not _is_not_the_leader(answer) or monotonic() >= deadline_s:
                    self.forwarded_count += 1
                    return answer
            await asyncio.sleep(_PAUSE_S)
        return None

    async def _must_forward(self, headers: Mapping[str, str]) -> bool:
        """Return False on the leader. Raise RegistryError if no leader is known."""
        if self._group.leader is None:
            await self._group.wait_for_leader(_WAIT_FOR_LEADER_S)
        if self._group.is_leader:
            return False
        if self._group.leader is None or FORWARDED_HEADER in headers:
            raise no_leader(self._group.why_unknown or "the leader has changed")
        return True

    async def _forward(self, request: Forwarded) -> httpx.Response:
        """Return the leader's answer. Raise RegistryError, or _NotSent."""
        leader = self._group.leader
        if leader is None:
            raise no_leader(self._group.why_unknown)
        url = f"{leader.url}{request.target}"
        try:
            headers = self._headers(request, leader)
            return await self._client.request(request.method, url, content=request.body, headers=headers)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise _NotSent(f"{leader.url}: {error}") from error
        except httpx.HTTPError as error:
            raise forwarding_failed(f"{leader.url}: {type(error).__name__}: {error}") from error

    def _headers(self, request: Forwarded, leader: Identity) -> dict[str, str]:
        found = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        found[FORWARDED_HEADER] = "false"
        if self._secret is not None:
            found.pop("authorization", None)
            found[PROOF_HEADER] = proof_of(
                self._secret, request.caller, request.method, request.target, request.body, self._now_ms()
            )
        elif request.needs_proof:
            raise RegistryError(
                500,
                50003,
                "A client certificate can't be forwarded: send the request to the leader, "
                f"{leader.url}, or set barnabas.registry.forwarding.secret on all registries",
            )
        return found


def _is_not_the_leader(answer: httpx.Response) -> bool:
    if answer.status_code != 500:
        return False
    try:
        return bool(msgspec.json.decode(answer.content).get("error_code") == _UNKNOWN_LEADER)
    except (msgspec.DecodeError, AttributeError):
        return False
