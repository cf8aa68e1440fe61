"""SCRAM credentials and delegation tokens on the controller, beyond the recorded responses."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.config_value import Password
from barnabas.common.errors import ErrorCode
from barnabas.common.steps import whole
from barnabas.common.uuid import Uuid
from barnabas.controller.apis import (
    alter_user_scram_credentials,
    create_delegation_token,
    expire_delegation_token,
    renew_delegation_token,
)
from barnabas.controller.controller_config import ControllerConfig
from barnabas.controller.controller_state import ControllerState
from barnabas.controller.delegation_token_control_manager import DelegationTokenControlManager
from barnabas.metadata.bootstrap import bootstrap_records
from barnabas.metadata.metadata_version import MetadataVersion
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from barnabas.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from barnabas.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from barnabas.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from barnabas.protocol.records.delegation_token_record import DelegationTokenRecord
from barnabas.protocol.records.remove_delegation_token_record import RemoveDelegationTokenRecord
from barnabas.security.principal import ANONYMOUS, Principal
from barnabas.security.request_context import RequestContext
from tests.unit.controller.controller_harness import ControllerHarness

ALICE = Principal("User", "alice")
SECRET = Password("a secret")
DAY_MS = 86_400_000


def harness(**settings: Any) -> ControllerHarness:
    return ControllerHarness(delegation_token_secret_key=SECRET, **settings).activate()


def context(principal: Principal = ALICE, protocol: str = "SASL_SSL", **fields: Any) -> RequestContext:
    return RequestContext(
        api_key=ApiKey.CREATE_DELEGATION_TOKEN,
        api_version=3,
        principal=principal,
        security_protocol=protocol,
        **fields,
    )


def create(world: ControllerHarness, who: RequestContext | None = None, **fields: Any) -> Any:
    request = CreateDelegationTokenRequest(**{"max_lifetime_ms": -1, **fields})
    return world.answer(create_delegation_token.handle(world.controller, who or context(), request, world.authorizer))


def renew(world: ControllerHarness, token_hmac: bytes, who: RequestContext | None = None, period_ms: int = -1) -> Any:
    request = RenewDelegationTokenRequest(hmac=token_hmac, renew_period_ms=period_ms)
    return world.answer(renew_delegation_token.handle(world.controller, who or context(), request, world.authorizer))


def expire(world: ControllerHarness, token_hmac: bytes, who: RequestContext | None = None, period_ms: int = -1) -> Any:
    request = ExpireDelegationTokenRequest(hmac=token_hmac, expiry_time_period_ms=period_ms)
    return world.answer(expire_delegation_token.handle(world.controller, who or context(), request, world.authorizer))


def tokens(world: ControllerHarness) -> dict[str, DelegationTokenRecord]:
    return dict(world.controller.committed_image.delegation_tokens.by_key.items())


def upsertion(name: str = "u", salted: bytes = b"salted") -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(name=name, mechanism=1, iterations=4096, salt=b"salt", salted_password=salted)


# SCRAM


def test_keys_are_derived_and_the_salted_password_is_not_stored() -> None:
    world = harness()
    request = AlterUserScramCredentialsRequest(upsertions=[upsertion(salted=b"salted password")])
    answer = world.call(alter_user_scram_credentials.handle, request, 0)
    assert [(result.user, result.error_code) for result in answer.results] == [("u", 0)]
    record = world.controller.committed_image.scram.by_key[1, "u"]
    client_key = hmac.digest(b"salted password", b"Client Key", "sha256")
    assert record.stored_key == hashlib.sha256(client_key).digest()
    assert record.server_key == hmac.digest(b"salted password", b"Server Key", "sha256")
    written = b"".join(record.encode(0) for batch in world.log for record in batch.records)
    assert b"salted password" not in written
    assert client_key not in written


def test_deciding_about_credentials_and_tokens_does_not_change_the_state() -> None:
    world = harness()
    request = AlterUserScramCredentialsRequest(upsertions=[upsertion()])
    before = world.controller.state.image
    first = world.controller.scram.alter_credentials(request)
    again = world.controller.scram.alter_credentials(request)
    assert len(first.records) == len(again.records) == 1
    made = world.controller.delegation_tokens.create_token(
        owner=ALICE, requester=ALICE, renewers=[], max_lifetime_ms=-1, now_ms=5
    )
    assert len(made.records) == 1
    assert world.controller.state.image is before


def test_users_of_one_request_are_written_together() -> None:
    world = harness()
    request = AlterUserScramCredentialsRequest(upsertions=[upsertion("a"), upsertion("b"), upsertion("c", b"")])
    world.call(alter_user_scram_credentials.handle, request, 0)
    assert [record.name for record in world.log[-1].records] == ["a", "b"]


@pytest.mark.parametrize(("level", "code"), [(MetadataVersion.IBP_3_4_IV0, 35), (MetadataVersion.IBP_3_5_IV2, 0)])
def test_a_metadata_version_without_scram_refuses_credentials(level: MetadataVersion, code: int) -> None:
    world = at_level(level)
    answer = world.call(
        alter_user_scram_credentials.handle,
        AlterUserScramCredentialsRequest(upsertions=[upsertion(), upsertion("")]),
        0,
    )
    refused = ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM"
    outcomes = {result.user: (result.error_code, result.error_message) for result in answer.results}
    assert outcomes["u"] == (refused if code else (0, None))
    assert outcomes[""][0] == (code or ErrorCode.UNACCEPTABLE_CREDENTIAL)


@pytest.mark.parametrize(("level", "code"), [(MetadataVersion.IBP_3_5_IV2, 35), (MetadataVersion.IBP_3_6_IV2, 0)])
def test_a_metadata_version_without_tokens_refuses_them(level: MetadataVersion, code: int) -> None:
    world = at_level(level)
    created = create(world)
    assert created.error_code == code
    assert renew(world, created.hmac or b"x").error_code == code
    assert expire(world, created.hmac or b"x").error_code == code


def at_level(level: MetadataVersion) -> ControllerHarness:
    """Another controller, at a level to which ours could not be downgraded."""
    world = ControllerHarness(delegation_token_secret_key=SECRET)
    world.controller._bootstrap = bootstrap_records(level)
    return world.activate()


# Allowed callers


@pytest.mark.parametrize(
    "ask", [create, lambda world, who: renew(world, b"x", who), lambda w, who: expire(w, b"x", who)]
)
@pytest.mark.parametrize(
    ("who", "is_refused"),
    [
        (context(protocol="PLAINTEXT"), True),
        (context(ANONYMOUS, "PLAINTEXT"), True),
        (context(ANONYMOUS, "SSL"), True),
        (context(Principal("User", "CN=alice"), "SSL"), False),
        (context(protocol="SASL_PLAINTEXT"), False),
        (context(protocol="SASL_SSL"), False),
        (context(Principal("User", "alice", True)), True),
        (context(Principal("User", "alice", True), forwarding_principal=Principal("User", "broker")), True),
        (context(protocol="PLAINTEXT", forwarding_principal=Principal("User", "broker")), False),
        (context(ANONYMOUS, "SSL", forwarding_principal=Principal("User", "broker")), False),
    ],
    ids=lambda value: "" if isinstance(value, bool) else f"{value.principal} {value.security_protocol}",
)
def test_a_caller_without_an_authenticated_identity_is_refused(ask: Any, who: RequestContext, is_refused: bool) -> None:
    answer = ask(harness(), who)
    assert (answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED) == is_refused
    assert answer.expiry_timestamp_ms == -1 or not is_refused


def test_refusals_have_kafkas_order_of_checks() -> None:
    disabled = ControllerHarness().activate()
    assert create(disabled, context(protocol="PLAINTEXT")).error_code == 64
    assert create(disabled).error_code == 61
    assert renew(disabled, b"x").error_code == 61
    assert expire(disabled, b"x").error_code == 61


# Time


def test_a_token_never_outlives_its_maximum_lifetime() -> None:
    world = harness(delegation_token_expiry_time_ms=10 * DAY_MS)
    created = create(world)
    assert created.max_timestamp_ms == created.expiry_timestamp_ms == created.issue_timestamp_ms + 7 * DAY_MS
    world.clock.ms += 6 * DAY_MS
    assert renew(world, created.hmac).expiry_timestamp_ms == created.max_timestamp_ms
    assert expire(world, created.hmac, period_ms=2**63 - 1).expiry_timestamp_ms == created.max_timestamp_ms
    (record,) = tokens(world).values()
    assert record.expiration_timestamp == record.max_timestamp == created.max_timestamp_ms


def test_expired_tokens_are_removed_by_the_tick_and_the_others_stay() -> None:
    world = harness(delegation_token_expiry_check_interval_ms=1000, metadata_max_idle_interval_ms=0)
    short, long = create(world, max_lifetime_ms=500), create(world)
    world.controller.tick(world.clock.ms)
    world.settle()
    assert world.controller.next_tick_ms() == world.clock.ms + 1000
    world.clock.ms += 501
    world.controller.tick(world.clock.ms)
    world.settle()
    assert set(tokens(world)) == {short.token_id, long.token_id}, "the next check is not due yet"
    world.clock.ms += 500
    world.controller.tick(world.clock.ms)
    world.settle()
    assert set(tokens(world)) == {long.token_id}
    assert [type(record) for record in world.log[-1].records] == [RemoveDelegationTokenRecord]
    appended = len(world.log)
    world.clock.ms += 5000
    world.controller.tick(world.clock.ms)
    world.settle()
    assert len(world.log) == appended, "nothing to remove, nothing to write"


def test_a_new_controller_looks_for_expired_tokens_immediately() -> None:
    world = harness()
    create(world, max_lifetime_ms=500)
    other = ControllerHarness(log=world.log, delegation_token_secret_key=SECRET)
    other.epoch = 2
    other.clock.ms = world.clock.ms + 501
    other.activate()
    assert other.controller.next_tick_ms() == other.clock.ms
    other.controller.tick(other.clock.ms)
    other.settle()
    assert tokens(other) == {}


def test_more_expired_tokens_than_a_batch_holds_are_removed() -> None:
    world = harness(max_records_per_batch=10)
    for _ in range(35):
        create(world, max_lifetime_ms=500)
    world.clock.ms += 501
    world.controller.tick(world.clock.ms)
    world.settle()
    assert tokens(world) == {}


def test_without_a_secret_key_no_expired_tokens_are_looked_for() -> None:
    world = ControllerHarness(metadata_max_idle_interval_ms=0).activate()
    assert world.controller.delegation_tokens.next_sweep_ms() is None
    world.controller.tick(world.clock.ms)
    assert world.controller.take_appends() == []


def test_a_standby_removes_nothing() -> None:
    world = harness()
    create(world, max_lifetime_ms=500)
    world.controller.deactivate()
    world.clock.ms += DAY_MS
    world.controller.tick(world.clock.ms)
    assert world.controller.take_appends() == []
    assert world.controller.next_tick_ms() is None


# Order and ids


def test_a_token_is_renewed_and_removed_before_its_creation_is_committed() -> None:
    world = harness()
    request = CreateDelegationTokenRequest(max_lifetime_ms=-1)
    created = create_delegation_token.handle(world.controller, context(), request, world.authorizer)
    (token_id,) = world.controller.state.image.delegation_tokens.by_key
    token_hmac = hmac.digest(SECRET.value.encode(), token_id.encode(), "sha512")
    renewal = renew_delegation_token.handle(
        world.controller, context(), RenewDelegationTokenRequest(hmac=token_hmac, renew_period_ms=7), world.authorizer
    )
    removal = expire_delegation_token.handle(
        world.controller,
        context(),
        ExpireDelegationTokenRequest(hmac=token_hmac, expiry_time_period_ms=-1),
        world.authorizer,
    )
    again = renew_delegation_token.handle(
        world.controller, context(), RenewDelegationTokenRequest(hmac=token_hmac, renew_period_ms=7), world.authorizer
    )
    assert not any(deferred.is_complete for deferred in (created, renewal, removal, again))
    world.settle()
    assert created.value.hmac == token_hmac
    assert renewal.value.expiry_timestamp_ms == world.clock.ms + 7
    assert removal.value.error_code == 0
    assert again.value.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert tokens(world) == {}


def test_uncommitted_tokens_are_lost_with_the_leadership() -> None:
    world = harness()
    request = CreateDelegationTokenRequest(max_lifetime_ms=-1)
    created = create_delegation_token.handle(world.controller, context(), request, world.authorizer)
    (token_id,) = world.controller.state.image.delegation_tokens.by_key
    world.controller.deactivate()
    assert created.value.error_code == ErrorCode.NOT_CONTROLLER
    world.epoch = 3
    world.controller.activate(3, world.end_offset)
    token_hmac = hmac.digest(SECRET.value.encode(), token_id.encode(), "sha512")
    assert renew(world, token_hmac).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_a_token_id_is_new_and_usable_as_a_command_line_argument() -> None:
    taken, dashed, good = Uuid.from_int(77), Uuid(b"\xf8" + bytes(15)), Uuid.from_int(78)
    assert str(dashed).startswith("-")
    draws = iter([taken, taken, dashed, good])
    state = ControllerState()
    config = ControllerConfig(node_id=1, cluster_id="c", delegation_token_secret_key=SECRET)
    manager = DelegationTokenControlManager(state, config, new_uuid=lambda: next(draws))
    state.move_ahead(whole(state.replayed_in_steps(bootstrap_records())), 10, lambda: None)
    for expected in (taken, good):
        result = manager.create_token(owner=ALICE, requester=ALICE, renewers=[], max_lifetime_ms=-1, now_ms=5)
        image = whole(state.replayed_in_steps(result.records))
        state.move_ahead(image, state.image.offset + 1, lambda: None)
        assert result.response.record.token_id == str(expected)


# Any order of creating, renewing, removing, committing and losing leadership


class Interleaving:
    """Checks each response when it is delivered: after a commit, or because leadership is lost."""

    def __init__(self) -> None:
        self.world = harness()
        self.tokens: list[tuple[str, bytes]] = []
        self.known: set[str] = set()
        """Tokens with an acknowledged creation and without a request to remove them."""
        self.to_be_removed: set[str] = set()
        self.open_count = 0

    def create(self, number: int) -> None:
        request = CreateDelegationTokenRequest(max_lifetime_ms=-1)
        answer = create_delegation_token.handle(self.world.controller, context(), request, self.world.authorizer)
        new = set(self.world.controller.state.image.delegation_tokens.by_key) - {
            token_id for token_id, _ in self.tokens
        }
        (token_id,) = new
        token_hmac = hmac.digest(SECRET.value.encode(), token_id.encode(), "sha512")
        self.tokens.append((token_id, token_hmac))

        def answered(value: Any) -> None:
            assert value.hmac == token_hmac
            assert token_id in self.world.controller.committed_image.delegation_tokens.by_key
            if token_id not in self.to_be_removed:
                self.known.add(token_id)

        self._listen(answer, answered)

    def renew(self, number: int) -> None:
        for token_id, token_hmac in self.tokens[number : number + 1]:
            request = RenewDelegationTokenRequest(hmac=token_hmac, renew_period_ms=-1)
            self._change(renew_delegation_token.handle, request, token_id)

    def remove(self, number: int) -> None:
        for token_id, token_hmac in self.tokens[number : number + 1]:
            self.known.discard(token_id)
            self.to_be_removed.add(token_id)
            request = ExpireDelegationTokenRequest(hmac=token_hmac, expiry_time_period_ms=-1)
            self._change(expire_delegation_token.handle, request, token_id, is_removal=True)

    def commit(self, number: int) -> None:
        self.world.append()
        self.world.commit(min(number, len(self.world._uncommitted)))

    def lose_leadership(self, number: int) -> None:
        self.world._uncommitted.clear()
        self.world.controller.deactivate()
        self.world.epoch += 1
        self.world.controller.activate(self.world.epoch, self.world.end_offset)

    def _change(self, handle: Any, request: Any, token_id: str, *, is_removal: bool = False) -> None:
        is_there = token_id in self.world.controller.state.image.delegation_tokens.by_key
        assert is_there or token_id not in self.known
        answer = handle(self.world.controller, context(), request, self.world.authorizer)

        def answered(value: Any) -> None:
            committed = self.world.controller.committed_image.delegation_tokens.by_key
            assert value.error_code == (0 if is_there else ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
            assert (token_id in committed) == (is_there and not is_removal)

        self._listen(answer, answered)

    def _listen(self, answer: Any, answered: Any) -> None:
        self.open_count += 1

        def handle_answer(value: Any) -> None:
            self.open_count -= 1
            if value.error_code != ErrorCode.NOT_CONTROLLER:
                answered(value)

        answer.on_complete(handle_answer)


STEP = st.one_of(
    st.just(("create", 0)),
    st.tuples(st.sampled_from(["renew", "remove"]), st.integers(0, 5)),
    st.tuples(st.just("commit"), st.integers(1, 3)),
    st.just(("lose_leadership", 0)),
)


@given(st.lists(STEP, max_size=40))
def test_acknowledged_tokens_are_known_whatever_else_is_in_flight(steps: list[tuple[str, int]]) -> None:
    interleaving = Interleaving()
    for name, number in steps:
        getattr(interleaving, name)(number)
        assert interleaving.known <= set(tokens(interleaving.world))
    interleaving.world.settle()
    assert interleaving.open_count == 0
    assert interleaving.world.faults == []


def test_the_number_of_tokens_is_limited_per_owner() -> None:
    world = harness(delegation_tokens_max_per_owner=3)
    made = [create(world) for _ in range(3)]
    assert [answer.error_code for answer in made] == [0, 0, 0]
    assert create(world).error_code == ErrorCode.POLICY_VIOLATION
    assert create(world, context(Principal("User", "bob"))).error_code == 0
    assert expire(world, made[0].hmac, period_ms=-1).error_code == 0
    assert create(world).error_code == 0
    assert create(world).error_code == ErrorCode.POLICY_VIOLATION


def test_the_number_of_renewers_of_a_token_is_limited() -> None:
    world = harness(delegation_token_max_renewers=2)
    renewers = [CreatableRenewers(principal_type="User", principal_name=f"r{number}") for number in range(3)]
    assert create(world, renewers=renewers[:2]).error_code == 0
    assert create(world, renewers=renewers).error_code == ErrorCode.POLICY_VIOLATION
    assert len(tokens(world)) == 1
