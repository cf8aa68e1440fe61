"""Check internal requests: the rules of KIP-507, and between Barnabas workers also freshness.

Only the session key counts here; users' passwords and roles don't.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from barnabas.connect.decide.session_key import SessionView
from barnabas.connect.rest.off_loop import off_loop
from barnabas.connect.rest.request_freshness import FRESHNESS_HEADER, Freshness, FreshnessGuard, SentRequest
from barnabas.connect.rest.request_signature import (
    InvalidSignature,
    RequestSignature,
    check_claim,
    check_signature,
)

__all__ = ["InternalRequestCheck", "RequireFreshness"]


class RequireFreshness(StrEnum):
    """``barnabas.connect.require.fresh.signatures``. AUTO: where all members of the group are known to send it."""

    AUTO = "auto"
    TRUE = "true"
    FALSE = "false"


class InternalRequestCheck:
    """``advertised_url`` is this worker's own. ``now_ms`` is the wall clock."""

    def __init__(
        self,
        session: Callable[[], SessionView],
        *,
        permitted_algorithms: Sequence[str],
        require_freshness: RequireFreshness,
        guard: FreshnessGuard,
        advertised_url: str,
        now_ms: Callable[[], int],
    ) -> None:
        self._session = session
        self._permitted = tuple(permitted_algorithms)
        self._require = require_freshness
        self._guard = guard
        self._advertised_url = advertised_url
        self._now_ms = now_ms

    def check_claim(self, headers: Mapping[str, str]) -> bool:
        """Return whether the request claims a signature, before the body is read. False if the group does not sign.

        Raise BadRequest or KeyNotReady.
        """
        signature, session = RequestSignature.from_headers(headers), self._session()
        if not session.is_verification_in_force:
            return False
        check_claim(signature, key=session.key, permitted_algorithms=self._permitted)
        return True

    async def admit(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> None:
        """Return if the request is accepted. Raise BadRequest, KeyNotReady or InvalidSignature.

        Nothing has parsed the body before: here it is bytes.
        """
        session = self._session()
        await off_loop(len(body), lambda: self._admit(session, method, target, headers, body))

    def _admit(self, session: SessionView, method: str, target: str, headers: Mapping[str, str], body: bytes) -> None:
        signature = RequestSignature.from_headers(headers)
        check_signature(
            signature,
            body,
            is_verification_in_force=session.is_verification_in_force,
            key=session.key,
            permitted_algorithms=self._permitted,
        )
        if session.is_verification_in_force:
            self._check_freshness(session, method, target, headers, body)

    async def vouched_for(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Freshness | None:
        """Return the user that another Barnabas worker vouches for, or None.

        Raise InvalidSignature. Only where the group signs: otherwise the key may be an old one that others know.
        """
        session = self._session()
        header = headers.get(FRESHNESS_HEADER)
        if header is None or session.key is None or not session.is_verification_in_force:
            return None
        key = session.key
        freshness = await off_loop(len(body), lambda: self._verified(header, key, method, target, body))
        return freshness if freshness.user else None

    def _check_freshness(
        self, session: SessionView, method: str, target: str, headers: Mapping[str, str], body: bytes
    ) -> None:
        header = headers.get(FRESHNESS_HEADER)
        if header is not None and session.key is not None:
            self._verified(header, session.key, method, target, body)
        elif self._is_required(session):
            raise InvalidSignature(
                f"Internal request without {FRESHNESS_HEADER}, which every worker of this group sends; see "
                "barnabas.connect.require.fresh.signatures."
            )

    def _verified(self, header: str, key: bytes, method: str, target: str, body: bytes) -> Freshness:
        sent = SentRequest(method=method, target=target, worker_url=self._advertised_url, body=body)
        freshness = Freshness.verified(header, key, sent)
        self._guard.admit(freshness, self._now_ms())
        return freshness

    def _is_required(self, session: SessionView) -> bool:
        if self._require is RequireFreshness.AUTO:
            return session.do_all_members_send_freshness
        return self._require is RequireFreshness.TRUE
