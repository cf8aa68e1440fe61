"""Delegation tokens. The HMAC of a token is its password: it is in no text that is printed."""

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
        """A new token, for ourselves unless there is an ``owner``; without a lifetime it lives as long as the cluster
        allows. It is asked for once: after a lost connection there may be a token that nobody knows. With ``wait``
        every live broker lets its holder in.
        """
        deadline = self._deadline(timeout_s)
        renewing = tuple(renewers)
        owner_type, owner_name = (None, None) if owner is None else _parts(owner)
        parts = [_parts(each) for each in renewing]

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
        """The new time of expiry; without a period the cluster's own."""
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
        """The new time of expiry; a negative period is now."""
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
        """The tokens of owners; without owners, all that we may see."""
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
        return [_token(each) for each in response.tokens]

    async def _until_token_shows(self, hmac: bytes, expiry_ms: int, deadline: Deadline, what: str) -> None:
        """A token that has ended may be told with its time of expiry, or not at all."""

        async def shows(target: Target) -> bool:
            told = {each.hmac: each.expiry_timestamp_ms for each in await self._tokens(None, deadline, target)}
            return told.get(hmac) == expiry_ms or (hmac not in told and expiry_ms <= time.time() * 1000)

        await self._until_each_broker(shows, deadline, what)


def _parts(principal: str) -> tuple[str, str]:
    kind, colon, name = principal.partition(":")
    refuse_unless(kind and colon and name, f"{principal!r} is no principal: it is written Type:name, as in User:alice")
    return kind, name


def _requester(each: CreateDelegationTokenResponse | DescribedDelegationToken) -> str | None:
    name = each.token_requester_principal_name
    return f"{each.token_requester_principal_type}:{name}" if name else None


def _token(each: DescribedDelegationToken) -> DelegationToken:
    return DelegationToken(
        each.token_id,
        each.hmac,
        f"{each.principal_type}:{each.principal_name}",
        _requester(each),
        each.issue_timestamp,
        each.expiry_timestamp,
        each.max_timestamp,
        tuple(f"{renewer.principal_type}:{renewer.principal_name}" for renewer in each.renewers),
    )
