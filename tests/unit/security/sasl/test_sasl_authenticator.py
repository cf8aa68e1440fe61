"""The authentication of one connection: every legal transition, and no other."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.errors import ErrorCode
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from barnabas.protocol.schema import Message
from barnabas.security.principal import Principal
from barnabas.security.principal_builder import PrincipalRefused
from barnabas.security.sasl.plain import PlainServer
from barnabas.security.sasl.sasl_authenticator import MOVES, Input, Outcome, SaslAuthenticator, SaslState
from barnabas.security.sasl.sasl_listener import SaslListener, SaslMechanism
from barnabas.security.sasl.sasl_server import SaslFailure

USERS = {"alice": "alice-secret", "bob": "bob-secret"}
GOOD, WRONG, OTHER = b"\0alice\0alice-secret", b"\0alice\0wrong", b"\0bob\0bob-secret"


class Clock:
    def now_ms(self) -> int:
        return 1000

    def monotonic_ms(self) -> int:
        return 0


class TokenServer(PlainServer):
    """Like PLAIN, but the credentials expire at 4000."""

    @property
    def session_expires_at_ms(self) -> int | None:
        return 4000


class Silent(PlainServer):
    """Fails without a message for the client."""

    def evaluate_response(self, response: bytes) -> bytes:
        raise SaslFailure("for the log only")


def listener(reauthentication_ms_max: int = 0) -> SaslListener:
    return SaslListener(
        name="EXTERNAL",
        mechanisms={
            "PLAIN": SaslMechanism(lambda: PlainServer(USERS), reauthentication_ms_max),
            "TOKEN": SaslMechanism(lambda: TokenServer(USERS), reauthentication_ms_max),
            "SILENT": SaslMechanism(lambda: Silent(USERS)),
        },
        clock=Clock(),
    )


class Peer:
    """Answers ApiVersions up to version 4; the principal of bob is refused."""

    refuses = ""

    def answer_api_versions(self, frame: bytes) -> bytes | None:
        version = int.from_bytes(frame[2:4], "big")
        error = ErrorCode.NONE if version <= 4 else ErrorCode.UNSUPPORTED_VERSION
        return frame[4:8] + ApiVersionsResponse(error_code=error).encode(version if version <= 4 else 0)

    def principal_of(self, mechanism: str, authorization_id: str, token_owner: Principal | None) -> Principal:
        if authorization_id == self.refuses:
            raise PrincipalRefused(f"{authorization_id} is not allowed")
        return Principal("User", authorization_id)


def authenticator(reauthentication_ms_max: int = 0) -> SaslAuthenticator:
    return SaslAuthenticator(listener(reauthentication_ms_max), Peer())


def request(message: Message, version: int) -> bytes:
    key = ApiKey(message.API_KEY)
    header = int(key).to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\7" + b"\0\4test"
    flexible = b"\0" if version >= API_TABLE[key].request_flexible_since else b""
    return header + flexible + message.encode(version)


def versions(version: int = 3) -> bytes:
    return request(ApiVersionsRequest(client_software_name="x", client_software_version="1"), version)


def handshake(mechanism: str = "PLAIN", version: int = 1) -> bytes:
    return request(SaslHandshakeRequest(mechanism=mechanism), version)


def authenticate(token: bytes, version: int = 2) -> bytes:
    return request(SaslAuthenticateRequest(auth_bytes=token), version)


METADATA = request(MetadataRequest(topics=[]), 9)


def response_of(outcome: Outcome, version: int = 2) -> SaslAuthenticateResponse:
    assert outcome.answer is not None
    return SaslAuthenticateResponse.decode(outcome.answer, version, 5 if version >= 2 else 4)


def logged_in(reauthentication_ms_max: int = 0) -> SaslAuthenticator:
    at = authenticator(reauthentication_ms_max)
    at.receive(handshake())
    assert at.receive(authenticate(GOOD)).login is not None
    return at


def test_a_complete_login_succeeds() -> None:
    at = authenticator()
    assert at.receive(versions()).failure is None
    shaken = at.receive(handshake())
    assert shaken.answer is not None
    response = SaslHandshakeResponse.decode(shaken.answer, 1, 4)
    assert (response.error_code, response.mechanisms) == (0, ["PLAIN", "TOKEN", "SILENT"])
    outcome = at.receive(authenticate(GOOD))
    assert response_of(outcome).error_code == 0
    assert outcome.login is not None
    assert outcome.login.principal == Principal("User", "alice")
    assert outcome.login.session_lifetime_ms is None
    assert not outcome.login.is_reauthentication
    assert not at.is_pending


def test_tokens_have_no_header_after_handshake_version_0() -> None:
    at = authenticator()
    at.receive(handshake(version=0))
    outcome = at.receive(GOOD)
    assert outcome.answer == b""
    assert outcome.login is not None
    assert not outcome.login.client_can_reauthenticate


def test_api_versions_may_be_repeated_after_an_unsupported_version() -> None:
    at = authenticator()
    assert at.receive(versions()[:2] + b"\0\x63" + versions()[4:]).failure is None
    assert at.receive(versions()).failure is None
    assert at.receive(versions()).failure is not None


def test_an_unknown_mechanism_is_answered_with_the_enabled_ones() -> None:
    outcome = authenticator().receive(handshake("NOPE\n" * 50))
    assert outcome.answer is not None
    assert outcome.failure is not None
    response = SaslHandshakeResponse.decode(outcome.answer, 1, 4)
    assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert response.mechanisms == ["PLAIN", "TOKEN", "SILENT"]
    assert "\n" not in outcome.failure
    assert len(outcome.failure) < 120


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_failure_is_answered_with_the_mechanisms_message(version: int) -> None:
    at = authenticator()
    at.receive(handshake())
    outcome = at.receive(authenticate(WRONG, version))
    assert response_of(outcome, version).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert response_of(outcome, version).error_message == "Authentication failed: Invalid username or password"
    assert outcome.mechanism == "PLAIN"
    assert at.state is SaslState.CLOSED


def test_a_failure_without_a_message_names_only_the_mechanism() -> None:
    at = authenticator()
    at.receive(handshake("SILENT"))
    outcome = at.receive(authenticate(b"x"))
    assert response_of(outcome).error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism SILENT"
    )
    assert outcome.failure == "for the log only"


def test_a_forbidden_principal_fails() -> None:
    at = authenticator()
    Peer.refuses = "alice"
    at.receive(handshake())
    try:
        outcome = at.receive(authenticate(GOOD))
    finally:
        Peer.refuses = ""
    assert outcome.failure == "alice is not allowed"
    assert "alice" not in (response_of(outcome).error_message or "")


@pytest.mark.parametrize(
    ("reauthentication_ms_max", "mechanism", "lifetime_ms"),
    [(0, "PLAIN", None), (2000, "PLAIN", 2000), (0, "TOKEN", 3000), (2000, "TOKEN", 2000), (9000, "TOKEN", 3000)],
)
def test_a_session_lasts_until_the_limit_of_setting_and_token(
    reauthentication_ms_max: int, mechanism: str, lifetime_ms: int | None
) -> None:
    at = authenticator(reauthentication_ms_max)
    at.receive(handshake(mechanism))
    outcome = at.receive(authenticate(GOOD))
    assert outcome.login is not None
    assert outcome.login.session_lifetime_ms == lifetime_ms
    assert response_of(outcome).session_lifetime_ms == (lifetime_ms or 0)


def test_a_client_version_without_lifetime_receives_none() -> None:
    at = authenticator(2000)
    at.receive(handshake())
    outcome = at.receive(authenticate(GOOD, 0))
    assert outcome.login is not None
    assert outcome.login.session_lifetime_ms == 2000
    assert not outcome.login.client_can_reauthenticate
    assert response_of(outcome, 0).session_lifetime_ms == 0


def test_the_same_user_may_log_in_again() -> None:
    at = logged_in(2000)
    at.receive(handshake())
    assert at.is_pending
    outcome = at.receive(authenticate(GOOD))
    assert outcome.login is not None
    assert outcome.login.is_reauthentication


def test_another_user_may_not_log_in_again() -> None:
    at = logged_in(2000)
    at.receive(handshake())
    outcome = at.receive(authenticate(OTHER))
    assert (
        response_of(outcome).error_message
        == "Cannot change principals during re-authentication from User.alice: User.bob"
    )
    assert outcome.is_reauthentication


def test_another_mechanism_may_not_be_used_again() -> None:
    at = logged_in(2000)
    shaken = at.receive(handshake("TOKEN"))
    assert shaken.failure is None
    outcome = at.receive(authenticate(GOOD))
    assert outcome.answer is None
    assert outcome.failure == (
        "SASL mechanism 'TOKEN' requested by client is not supported for re-authentication of mechanism 'PLAIN'"
    )


def test_a_reauthentication_does_not_reveal_the_enabled_mechanisms() -> None:
    outcome = logged_in(2000).receive(handshake("NOPE"))
    assert outcome.failure is not None
    assert outcome.answer is None
    assert outcome.is_reauthentication


def test_a_wrong_password_ends_an_existing_session() -> None:
    at = logged_in(2000)
    at.receive(handshake("SILENT"))
    at = logged_in(2000)
    at.receive(handshake())
    outcome = at.receive(authenticate(WRONG))
    assert outcome.is_reauthentication
    assert at.state is SaslState.CLOSED


@pytest.mark.parametrize("frame", [versions(), handshake()])
def test_other_sasl_requests_during_an_exchange_are_an_illegal_state(frame: bytes) -> None:
    at = authenticator()
    at.receive(handshake())
    outcome = at.receive(frame)
    assert outcome.answer is not None
    assert int.from_bytes(outcome.answer[4:6], "big") == ErrorCode.ILLEGAL_SASL_STATE
    assert at.state is SaslState.CLOSED


REACHED: dict[SaslState, list[bytes]] = {
    SaslState.START: [],
    SaslState.HANDSHAKE: [versions()],
    SaslState.TOKENS: [handshake()],
    SaslState.RAW_TOKENS: [handshake(version=0)],
    SaslState.COMPLETE: [handshake(), authenticate(GOOD)],
    SaslState.OTHER_MECHANISM: [handshake(), authenticate(GOOD), handshake("TOKEN")],
    SaslState.CLOSED: [METADATA],
}
FRAMES = {
    Input.API_VERSIONS: versions(),
    Input.SASL_HANDSHAKE: handshake(),
    Input.SASL_AUTHENTICATE: authenticate(GOOD),
    Input.FRAME: METADATA,
}


def reach(state: SaslState) -> SaslAuthenticator:
    at = authenticator(2000)
    for frame in REACHED[state]:
        at.receive(frame)
    assert at.state is state
    return at


@pytest.mark.parametrize("state", SaslState)
@pytest.mark.parametrize("input_", Input)
def test_an_illegal_transition_ends_the_connection_without_a_response(state: SaslState, input_: Input) -> None:
    outcome = reach(state).receive(FRAMES[input_])
    if (state, input_) in MOVES or (state, Input.FRAME) in MOVES:
        return
    assert outcome.failure is not None
    assert outcome.answer is None


def test_every_transition_is_a_method_and_every_state_is_reached() -> None:
    assert all(callable(getattr(SaslAuthenticator, move)) for move in MOVES.values())
    assert {state for state, _ in MOVES} | {SaslState.CLOSED} == set(SaslState)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\x11\0",
        b"\0\x11\0\1\0\0\0\1\x7f\xffab",
        handshake()[:-3],
        handshake()[:2] + b"\0\x09" + handshake()[4:],
        handshake()[:2] + b"\xff\xff" + handshake()[4:],
    ],
)
def test_a_malformed_request_ends_the_connection(frame: bytes) -> None:
    outcome = authenticator().receive(frame)
    assert outcome.failure is not None
    assert outcome.answer is None


def test_the_logged_failure_contains_no_secret() -> None:
    at = authenticator()
    at.receive(handshake())
    outcome = at.receive(authenticate(WRONG))
    assert outcome.failure is not None
    assert not re.search("wrong|alice", outcome.failure)


_SOME_FRAMES = st.sampled_from(
    [
        versions(), versions(0), handshake(), handshake(version=0), handshake("NOPE"), handshake("TOKEN"), METADATA,
        GOOD, authenticate(GOOD), authenticate(WRONG), authenticate(OTHER, 0), authenticate(b""), b"", b"\0",
    ]
)  # fmt: skip


@given(
    st.lists(
        _SOME_FRAMES | st.binary(max_size=60) | st.builds(bytes.__add__, _SOME_FRAMES, st.binary(max_size=4)),
        max_size=12,
    )
)
def test_any_frames_lead_to_a_legal_state_or_a_closed_connection(frames: list[bytes]) -> None:
    at = authenticator(2000)
    was_closed = False
    for frame in frames:
        outcome = at.receive(frame)
        assert at.state in SaslState
        if was_closed or at.state is SaslState.CLOSED:
            assert outcome.failure is not None
            assert outcome.login is None
            was_closed = True
        if outcome.login is not None:
            assert at.state is SaslState.COMPLETE
            assert outcome.login.principal.name in USERS


@given(st.sampled_from([*FRAMES.values(), handshake(version=0)]), st.data())
def test_a_truncated_frame_never_logs_in(frame: bytes, data: st.DataObject) -> None:
    at = authenticator()
    at.receive(handshake())
    cut = frame[: data.draw(st.integers(0, len(frame) - 1))]
    outcome = at.receive(cut)
    assert outcome.login is None
    assert at.state is SaslState.CLOSED


class Broken(PlainServer):
    """A mechanism that does not expect arbitrary bytes."""

    def evaluate_response(self, response: bytes) -> bytes:
        raise RecursionError("alice-secret")


def test_fuzzing_an_unexpected_error_of_a_mechanism_is_a_failed_login() -> None:
    offered = SaslListener("EXTERNAL", {"PLAIN": SaslMechanism(lambda: Broken(USERS))}, Clock())
    at = SaslAuthenticator(offered, Peer())
    at.receive(handshake())
    outcome = at.receive(authenticate(b"anything"))
    assert outcome.failure == "the mechanism failed with RecursionError"
    assert response_of(outcome).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert at.state is SaslState.CLOSED


def test_sasl_state_abuse_a_few_frames_lead_to_a_login_or_to_the_end() -> None:
    """Also for ApiVersions in unsupported versions, which may be repeated: each has a response and a cost."""
    at = authenticator()
    outcomes = [at.receive(versions()[:2] + b"\0\x63" + versions()[4:]) for _ in range(9)]
    assert [outcome.failure is None for outcome in outcomes] == [True] * 8 + [False]
    assert outcomes[-1].answer is None
