"""Delegation tokens. The HMAC of a token is its password: no printed text contains it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from barnabas.clients.admin.operations import Operations, refuse_unless
from barnabas.clients.admin.retry import Deadline
from barnabas.clients.admin.routing import ANY, Target
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from barnabas.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from barnabas.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from barnabas.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest

__all__ = ["DelegationToken", "TokenOperations"]


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """Principals are written ``User:alice``. Times are milliseconds since 1970. ``requester`` is None on old nodes."""

    token_id: str
    hmac: bytes = field(repr=False)
    owner: str
    requester: str | None
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int
    renewers: tuple[str, ...] = ()


class TokenOperations(Operations):
    async def create_delegation_token(
        self,
        *,
        owner: str | None = None,
        renewers: Iterable[str] = (),
        max_lifetime_ms: int = -1,
        wait: bool = False,
        timeout_s: float | None = None,
    ) -> DelegationToken:
        """Create a token, for this client unless ``owner`` is given, with the cluster's longest lifetime unless one is
        given. It is requested once: after a lost connection a token may exist that no client knows. ``wait`` waits
        until every live broker accepts its holder.
        """
        deadline = self._deadline(timeout_s)
        renewing = tuple(renewers)
        owner_type, owner_name = (None, None) if owner is None else _parts(owner)
        parts = [_parts(renewer) for renewer in renewing]

        def build(version: int) -> CreateDelegationTokenRequest:
            request = CreateDelegationTokenRequest(
                renewers=[CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in parts],
                max_lifetime_ms=max_lifetime_ms,
            )
            if version >= 3:
                request.owner_principal_type, request.owner_principal_name = owner_type, owner_name
            return request

        response = await self._call(
            build,
            deadline,
            api=ApiKey.CREATE_DELEGATION_TOKEN,
            at_least=0 if owner is None else 3,
            repeatable=False,
        )
        if wait:
            await self._until_token_shows(response.hmac, response.expiry_timestamp_ms, deadline, "creating the token")
        return DelegationToken(
            response.token_id,
            response.hmac,
            f"{response.principal_type}:{response.principal_name}",
            _requester(response),
            response.issue_timestamp_ms,
            response.expiry_timestamp_ms,
            response.max_timestamp_ms,
            renewing,
        )

    async def renew_delegation_token(
        self, hmac: bytes, *, renew_period_ms: int = -1, wait: bool = False, timeout_s: float | None = None
    ) -> int:
        """Renew a token. Return the new time of expiry; without a period the cluster's own period applies."""
        deadline = self._deadline(timeout_s)
        response = await self._call(
            RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=renew_period_ms),
            deadline,
            api=ApiKey.RENEW_DELEGATION_TOKEN,
        )
        if wait:
            await self._until_token_shows(hmac, response.expiry_timestamp_ms, deadline, "renewing the token")
        return response.expiry_timestamp_ms

    async def expire_delegation_token(
        self, hmac: bytes, *, expiry_time_period_ms: int = -1, wait: bool = False, timeout_s: float | None = None
    ) -> int:
        """Expire a token. Return the new time of expiry; a negative period means now."""
        deadline = self._deadline(timeout_s)
        response = await self._call(
            ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=expiry_time_period_ms),
            deadline,
            api=ApiKey.EXPIRE_DELEGATION_TOKEN,
        )
        if wait:
            await self._until_token_shows(hmac, response.expiry_timestamp_ms, deadline, "ending the token")
        return response.expiry_timestamp_ms

    async def describe_delegation_tokens(
        self, owners: Iterable[str] | None = None, *, timeout_s: float | None = None
    ) -> list[DelegationToken]:
        """Return the tokens of owners; without owners, all visible ones."""
        wanted = None if owners is None else [_parts(owner) for owner in owners]
        return await self._tokens(wanted, self._deadline(timeout_s), ANY)

    async def _tokens(
        self, owners: list[tuple[str, str]] | None, deadline: Deadline, target: Target
    ) -> list[DelegationToken]:
        response = await self._call(
            DescribeDelegationTokenRequest(
                owners=None
                if owners is None
                else [DescribeDelegationTokenOwner(principal_type=kind, principal_name=name) for kind, name in owners]
            ),
            deadline,
            api=ApiKey.DESCRIBE_DELEGATION_TOKEN,
            target=target,
        )
        return [_token(token) for token in response.tokens]

    async def _until_token_shows(self, hmac: bytes, expiry_ms: int, deadline: Deadline, what: str) -> None:
        """Wait for an expired token, which may be listed with its time of expiry, or not at all."""

        async def shows(target: Target) -> bool:
            listed = {token.hmac: token.expiry_timestamp_ms for token in await self._tokens(None, deadline, target)}
            return listed.get(hmac) == expiry_ms or (hmac not in listed and expiry_ms <= time.time() * 1000)

        await self._until_each_broker(shows, deadline, what)


def _parts(principal: str) -> tuple[str, str]:
    kind, colon, name = principal.partition(":")
    refuse_unless(kind and colon and name, f"{principal!r} is not a principal: write Type:name, as in User:alice")
    return kind, name


def _requester(token: CreateDelegationTokenResponse | DescribedDelegationToken) -> str | None:
    name = token.token_requester_principal_name
    return f"{token.token_requester_principal_type}:{name}" if name else None


def _token(token: DescribedDelegationToken) -> DelegationToken:
    return DelegationToken(
        token.token_id,
        token.hmac,
        f"{token.principal_type}:{token.principal_name}",
        _requester(token),
        token.issue_timestamp,
        token.expiry_timestamp,
        token.max_timestamp,
        tuple(f"{renewer.principal_type}:{renewer.principal_name}" for renewer in token.renewers),
    )
