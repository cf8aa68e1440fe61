"""Creates, renews and expires delegation tokens on the active controller, and removes expired ones.

Times are milliseconds since the epoch, passed by the caller. Every decision checks in Kafka's order: whether tokens are
enabled on this node, whether the metadata.version supports them, whether the token exists, whether it is expired,
whether the caller is its owner or a renewer. The API checks the permission to call (the channel, CreateTokens for other
owners).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.controller.controller_config import ControllerConfig
from barnabas.controller.controller_result import ControllerResult
from barnabas.controller.controller_state import ControllerState
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.protocol.records.delegation_token_record import DelegationTokenRecord
from barnabas.protocol.records.remove_delegation_token_record import RemoveDelegationTokenRecord
from barnabas.security.delegation_tokens import (
    TokenHmacs,
    expires_at_ms,
    is_expired,
    is_owner_or_renewer,
    token_hmacs_of,
)
from barnabas.security.principal import Principal

__all__ = ["CreatedToken", "DelegationTokenControlManager"]

_USER = "User"
_TIME_MAX = 2**63 - 1


class CreatedToken(NamedTuple):
    record: DelegationTokenRecord
    hmac: bytes


class DelegationTokenControlManager:
    def __init__(self, state: ControllerState, config: ControllerConfig, *, new_uuid: Callable[[], Uuid]) -> None:
        self._state = state
        self._config = config
        self._new_uuid = new_uuid
        self._hmacs = token_hmacs_of(config.delegation_token_secret_key)
        self._next_sweep_ms: int | None = None

    @property
    def is_enabled(self) -> bool:
        return self._hmacs is not None

    # Requests

    def create_token(
        self,
        *,
        owner: Principal,
        requester: Principal,
        renewers: Sequence[Principal],
        max_lifetime_ms: int,
        now_ms: int,
    ) -> ControllerResult[CreatedToken]:
        """``max_lifetime_ms`` below 1 requests the longest lifetime; longer ones are reduced to it."""
        hmacs = self._check_enabled()
        if any(renewer.type != _USER for renewer in renewers):
            raise ApiException(ErrorCode.INVALID_PRINCIPAL_TYPE)
        self._check_limits(str(owner), str(requester), len(renewers))
        lifetime_ms = self._config.delegation_token_max_lifetime_ms
        if max_lifetime_ms > 0:
            lifetime_ms = min(lifetime_ms, max_lifetime_ms)
        max_timestamp = _later(now_ms, lifetime_ms)
        record = DelegationTokenRecord(
            owner=str(owner),
            requester=str(requester),
            renewers=[str(renewer) for renewer in renewers],
            issue_timestamp=now_ms,
            max_timestamp=max_timestamp,
            expiration_timestamp=min(max_timestamp, _later(now_ms, self._config.delegation_token_expiry_time_ms)),
            token_id=self._new_token_id(),
        )
        created = CreatedToken(record, hmacs.hmac_of(record.token_id))
        return ControllerResult([ApiMessageAndVersion(record, 0)], created)

    def renew_token(
        self, *, hmac: bytes, principal: Principal, renew_period_ms: int, now_ms: int
    ) -> ControllerResult[int]:
        """Return the new expiry time, at most the end of the token's life. A period below 1 requests the default."""
        token = self._token_of(hmac)
        if is_expired(token, now_ms):
            raise ApiException(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        self._check_owner(token, principal)
        period_ms = self._config.delegation_token_expiry_time_ms
        if renew_period_ms > 0:
            period_ms = min(period_ms, renew_period_ms)
        return self._with_expiry(token, _later(now_ms, period_ms))

    def expire_token(
        self, *, hmac: bytes, principal: Principal, expiry_period_ms: int, now_ms: int
    ) -> ControllerResult[int]:
        """Return the new expiry time. A period below 0 removes the token immediately, even an expired one."""
        token = self._token_of(hmac)
        self._check_owner(token, principal)
        if expiry_period_ms < 0:
            removal = RemoveDelegationTokenRecord(token_id=token.token_id)
            return ControllerResult([ApiMessageAndVersion(removal, 0)], now_ms)
        if is_expired(token, now_ms):
            raise ApiException(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        return self._with_expiry(token, _later(now_ms, expiry_period_ms))

    # Time

    def activate(self, monotonic_ms: int) -> None:
        """Schedule the first sweep immediately: a frequently restarted node must not keep tokens forever."""
        self._next_sweep_ms = monotonic_ms if self.is_enabled else None

    def deactivate(self) -> None:
        self._next_sweep_ms = None

    def next_sweep_ms(self) -> int | None:
        return self._next_sweep_ms

    def is_sweep_due(self, monotonic_ms: int) -> bool:
        """Return True once per ``delegation.token.expiry.check.interval.ms``."""
        if self._next_sweep_ms is None or monotonic_ms < self._next_sweep_ms:
            return False
        self._next_sweep_ms = monotonic_ms + self._config.delegation_token_expiry_check_interval_ms
        return True

    def remove_expired_tokens(self, now_ms: int) -> ControllerResult[None]:
        tokens = self._state.image.delegation_tokens.by_key
        gone = [token.token_id for token in tokens.values() if is_expired(token, now_ms)]
        records = [ApiMessageAndVersion(RemoveDelegationTokenRecord(token_id=token_id), 0) for token_id in gone]
        return ControllerResult(records, None, is_atomic=False)

    # Checks

    def _check_enabled(self) -> TokenHmacs:
        if self._hmacs is None:
            raise ApiException(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
        if not self._state.image.features.metadata_version_or_throw().is_delegation_token_supported:
            raise ApiException(ErrorCode.UNSUPPORTED_VERSION)
        return self._hmacs

    def _check_limits(self, owner: str, requester: str, renewer_count: int) -> None:
        """Limit an owner's tokens: every login may have some, and all nodes keep each in memory until it is swept."""
        config = self._config
        if renewer_count > config.delegation_token_max_renewers:
            raise ApiException(
                ErrorCode.POLICY_VIOLATION,
                f"A token may have {config.delegation_token_max_renewers} renewers, not {renewer_count} "
                "(barnabas.delegation.token.max.renewers).",
            )
        most = config.delegation_tokens_max_per_owner
        for holder in (owner, requester):
            if self._state.image.delegation_tokens.count_of(holder) >= most:
                raise ApiException(
                    ErrorCode.POLICY_VIOLATION,
                    f"{holder} owns or requested the {most} tokens that a principal may have "
                    "(barnabas.delegation.tokens.max.per.owner); expire some.",
                )

    def _token_of(self, hmac: bytes) -> DelegationTokenRecord:
        token = self._check_enabled().find(hmac, self._state.image.delegation_tokens.by_key)
        if token is None:
            raise ApiException(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        return token

    def _check_owner(self, token: DelegationTokenRecord, principal: Principal) -> None:
        if not is_owner_or_renewer(token, principal):
            raise ApiException(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)

    def _with_expiry(self, token: DelegationTokenRecord, expiry_ms: int) -> ControllerResult[int]:
        record = DelegationTokenRecord(
            owner=token.owner,
            requester=token.requester,
            renewers=token.renewers,
            issue_timestamp=token.issue_timestamp,
            max_timestamp=token.max_timestamp,
            expiration_timestamp=min(token.max_timestamp, expiry_ms),
            token_id=token.token_id,
        )
        return ControllerResult([ApiMessageAndVersion(record, 0)], expires_at_ms(record))

    def _new_token_id(self) -> str:
        """Return a new id without a leading dash: users type ids into tools, which parse a dash as an option."""
        tokens = self._state.image.delegation_tokens.by_key
        while True:
            token_id = str(self._new_uuid())
            if not token_id.startswith("-") and token_id not in tokens:
                return token_id


def _later(now_ms: int, period_ms: int) -> int:
    return min(now_ms + period_ms, _TIME_MAX)
