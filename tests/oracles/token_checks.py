"""Delegation tokens compared with the vectors of a real Kafka."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from barnabas.common.config_value import Password
from barnabas.common.errors import ApiException
from barnabas.common.steps import whole
from barnabas.common.uuid import Uuid
from barnabas.controller.controller_config import ControllerConfig
from barnabas.controller.controller_result import ControllerResult
from barnabas.controller.controller_state import ControllerState
from barnabas.controller.delegation_token_control_manager import DelegationTokenControlManager
from barnabas.metadata.bootstrap import bootstrap_records
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from barnabas.protocol.records.delegation_token_record import DelegationTokenRecord
from barnabas.security.delegation_tokens import TokenHmacs, principal_of
from barnabas.security.principal import Principal
from barnabas.security.token_requests import owner_of

__all__ = ["check_token_hmac", "check_token_lifecycle"]

NOW_MS = 1_700_000_000_000
SEED_ID = "seed"
SECRET = "secret"


def check_token_hmac(data: dict[str, Any]) -> None:
    hmac = TokenHmacs(data["secret"]).hmac_of(data["tokenId"])
    assert hmac.hex() == data["hmac"]
    assert b64encode(hmac).decode() == data["base64"]


def check_token_lifecycle(data: dict[str, Any]) -> None:
    """The recorded times are relative to Kafka's clock, which advanced between the steps, and are rounded to
    seconds."""
    tokens = Tokens(data)
    for step in data["steps"]:
        tokens.now_ms += 1
        getattr(tokens, step["op"])(step)


class Tokens:
    """A controller's tokens, with the one that exists initially; every decision is committed immediately."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.now_ms = NOW_MS
        self._ids = iter(range(1000, 2000))
        config = ControllerConfig(
            node_id=1,
            cluster_id="c",
            delegation_token_secret_key=Password(SECRET) if data["secretConfigured"] else None,
            delegation_token_max_lifetime_ms=data["maxLifeMs"],
            delegation_token_expiry_time_ms=data["expiryMs"],
        )
        self._state = ControllerState()
        self._manager = DelegationTokenControlManager(
            self._state, config, new_uuid=lambda: Uuid.from_int(next(self._ids))
        )
        seed = DelegationTokenRecord(
            owner=data["seedOwner"],
            requester=data["seedRequester"],
            renewers=[data["seedRenewer"]],
            issue_timestamp=NOW_MS,
            max_timestamp=NOW_MS + data["seedMaxFromNow"],
            expiration_timestamp=NOW_MS + data["seedExpiryFromNow"],
            token_id=SEED_ID,
        )
        self._commit([*bootstrap_records(), ApiMessageAndVersion(seed, 0)])

    def create(self, step: dict[str, Any]) -> None:
        request = CreateDelegationTokenRequest.from_json(step["request"], 3)
        requester = principal_of(step["principal"])
        owner = owner_of(request, requester)
        assert (str(owner), str(requester)) == (step["owner"], step["requester"])

        def decide() -> ControllerResult[Any]:
            return self._manager.create_token(
                owner=owner,
                requester=requester,
                renewers=[Principal(renewer.principal_type, renewer.principal_name) for renewer in request.renewers],
                max_lifetime_ms=request.max_lifetime_ms,
                now_ms=self.now_ms,
            )

        created = self._decide(step, decide)
        if created is not None:
            record, hmac = created
            assert hmac == TokenHmacs(SECRET).hmac_of(record.token_id)
            assert (record.owner, record.requester) == (step["owner"], step["requester"])
            assert record.issue_timestamp == self.now_ms
            assert record.expiration_timestamp - self.now_ms == step["expiryFromIssue"]
            assert record.max_timestamp - self.now_ms == step["maxFromIssue"]

    def renew(self, step: dict[str, Any]) -> None:
        def decide() -> ControllerResult[int]:
            return self._manager.renew_token(
                hmac=self._hmac(step),
                principal=principal_of(step["principal"]),
                renew_period_ms=step["periodMs"],
                now_ms=self.now_ms,
            )

        self._expect_expiry(step, self._decide(step, decide))

    def expire(self, step: dict[str, Any]) -> None:
        def decide() -> ControllerResult[int]:
            return self._manager.expire_token(
                hmac=self._hmac(step),
                principal=principal_of(step["principal"]),
                expiry_period_ms=step["periodMs"],
                now_ms=self.now_ms,
            )

        self._expect_expiry(step, self._decide(step, decide))

    def _hmac(self, step: dict[str, Any]) -> bytes:
        return TokenHmacs(SECRET).hmac_of(SEED_ID) if step["knownHmac"] else b"nobody's"

    def _expect_expiry(self, step: dict[str, Any], expiry_ms: int | None) -> None:
        if expiry_ms is not None:
            assert round((expiry_ms - self.now_ms) / 1000) * 1000 == step["expiryFromNow"]

    def _decide(self, step: dict[str, Any], decide: Any) -> Any:
        try:
            result = decide()
        except ApiException as error:
            assert error.code.name == step["error"]
            assert step["records"] == []
            return None
        assert step["error"] == "NONE"
        assert [type(record.message).__name__ for record in result.records] == step["records"]
        self._commit(result.records)
        return result.response

    def _commit(self, records: Any) -> None:
        image = whole(self._state.replayed_in_steps(records))
        self._state.move_ahead(image, self._state.image.offset + len(records), lambda: None)
