"""The authentication of one connection: every legal move, and that nothing else is one."""

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
    """Like PLAIN, but what is shown expires at 4000."""

    @property
    def session_expires_at_ms(self) -> int | None:
        return 4000


class Silent(PlainServer):
    """Fails without a word for the client."""

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
    """Answers ApiVersions up to version 4; nobody may be bob twice."""

    refuses = ""

    def answer_api_versions(self, frame: bytes) -> bytes | None:
        version = int.from_bytes(frame[2:4], "big")
        error = ErrorCode.NONE if version <= 4 else ErrorCode.UNSUPPORTED_VERSION
        return frame[4:8] + ApiVersionsResponse(error_code=error).encode(version if version <= 4 else 0)

    def principal_of(self, mechanism: str, authorization_id: str, token_owner: Principal | None) -> Principal:
        if authorization_id == self.refuses:
            raise PrincipalRefused(f"nobody may be {authorization_id}")
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


def said(outcome: Outcome, version: int = 2) -> SaslAuthenticateResponse:
    assert outcome.answer is not None
    return SaslAuthenticateResponse.decode(outcome.answer, version, 5 if version >= 2 else 4)


def logged_in(reauthentication_ms_max: int = 0) -> SaslAuthenticator:
    at = authenticator(reauthentication_ms_max)
    at.receive(handshake())
    assert at.receive(authenticate(GOOD)).login is not None
    return at


def test_a_login_with_everything_that_a_client_sends() -> None:
    at = authenticator()
    assert at.receive(versions()).failure is None
    shaken = at.receive(handshake())
    assert shaken.answer is not None
    response = SaslHandshakeResponse.decode(shaken.answer, 1, 4)
    assert (response.error_code, response.mechanisms) == (0, ["PLAIN", "TOKEN", "SILENT"])
    outcome = at.receive(authenticate(GOOD))
    assert said(outcome).error_code == 0
    assert outcome.login is not None
    assert outcome.login.principal == Principal("User", "alice")
    assert outcome.login.session_lifetime_ms is None
    assert not outcome.login.is_reauthentication
    assert not at.is_pending


def test_tokens_come_as_they_are_after_handshake_version_0() -> None:
    at = authenticator()
    at.receive(handshake(version=0))
    outcome = at.receive(GOOD)
    assert outcome.answer == b""
    assert outcome.login is not None
    assert not outcome.login.client_can_reauthenticate


def test_versions_that_are_too_new_may_be_asked_again() -> None:
    at = authenticator()
    assert at.receive(versions()[:2] + b"\0\x63" + versions()[4:]).failure is None
    assert at.receive(versions()).failure is None
    assert at.receive(versions()).failure is not None


def test_an_unknown_mechanism_is_answered_with_those_that_there_are() -> None:
    outcome = authenticator().receive(handshake("NOPE\n" * 50))
    assert outcome.answer is not None
    assert outcome.failure is not None
    response = SaslHandshakeResponse.decode(outcome.answer, 1, 4)
    assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert response.mechanisms == ["PLAIN", "TOKEN", "SILENT"]
    assert "\n" not in outcome.failure
    assert len(outcome.failure) < 120


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_failure_is_answered_in_the_mechanisms_words(version: int) -> None:
    at = authenticator()
    at.receive(handshake())
    outcome = at.receive(authenticate(WRONG, version))
    assert said(outcome, version).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert said(outcome, version).error_message == "Authentication failed: Invalid username or password"
    assert outcome.mechanism == "PLAIN"
    assert at.state is SaslState.CLOSED


def test_a_failure_without_words_names_only_the_mechanism() -> None:
    at = authenticator()
    at.receive(handshake("SILENT"))
    outcome = at.receive(authenticate(b"x"))
    assert said(outcome).error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism SILENT"
    )
    assert outcome.failure == "for the log only"


def test_a_principal_that_nobody_may_be_fails() -> None:
    at = authenticator()
    Peer.refuses = "alice"
    at.receive(handshake())
    try:
        outcome = at.receive(authenticate(GOOD))
    finally:
        Peer.refuses = ""
    assert outcome.failure == "nobody may be alice"
    assert "alice" not in (said(outcome).error_message or "")


@pytest.mark.parametrize(
    ("reauthentication_ms_max", "mechanism", "lifetime_ms"),
    [(0, "PLAIN", None), (2000, "PLAIN", 2000), (0, "TOKEN", 3000), (2000, "TOKEN", 2000), (9000, "TOKEN", 3000)],
)
def test_a_session_lasts_as_long_as_setting_and_token_allow(
    reauthentication_ms_max: int, mechanism: str, lifetime_ms: int | None
) -> None:
    at = authenticator(reauthentication_ms_max)
    at.receive(handshake(mechanism))
    outcome = at.receive(authenticate(GOOD))
    assert outcome.login is not None
    assert outcome.login.session_lifetime_ms == lifetime_ms
    assert said(outcome).session_lifetime_ms == (lifetime_ms or 0)


def test_a_client_that_knows_no_lifetime_is_told_none() -> None:
    at = authenticator(2000)
    at.receive(handshake())
    outcome = at.receive(authenticate(GOOD, 0))
    assert outcome.login is not None
    assert outcome.login.session_lifetime_ms == 2000
    assert not outcome.login.client_can_reauthenticate
    assert said(outcome, 0).session_lifetime_ms == 0


def test_the_same_user_may_log_in_again() -> None:
    at = logged_in(2000)
    at.receive(handshake())
    assert at.is_pending
    outcome = at.receive(authenticate(GOOD))
    assert outcome.login is not None
    assert outcome.login.is_reauthentication


def test_another_user_may_not() -> None:
    at = logged_in(2000)
    at.receive(handshake())
    outcome = at.receive(authenticate(OTHER))
    assert said(outcome).error_message == "Cannot change principals during re-authentication from User.alice: User.bob"
    assert outcome.is_reauthentication


def test_nor_may_another_mechanism_be_used() -> None:
    at = logged_in(2000)
    shaken = at.receive(handshake("TOKEN"))
    assert shaken.failure is None
    outcome = at.receive(authenticate(GOOD))
    assert outcome.answer is None
    assert outcome.failure == (
        "SASL mechanism 'TOKEN' requested by client is not supported for re-authentication of mechanism 'PLAIN'"
    )


def test_nor_is_anybody_told_then_which_there_are() -> None:
    outcome = logged_in(2000).receive(handshake("NOPE"))
    assert outcome.failure is not None
    assert outcome.answer is None
    assert outcome.is_reauthentication


def test_a_wrong_password_ends_a_session_that_was_there() -> None:
    at = logged_in(2000)
    at.receive(handshake("SILENT"))
    at = logged_in(2000)
    at.receive(handshake())
    outcome = at.receive(authenticate(WRONG))
    assert outcome.is_reauthentication
    assert at.state is SaslState.CLOSED


@pytest.mark.parametrize("frame", [versions(), handshake()])
def test_other_requests_of_sasl_during_an_exchange_are_an_illegal_state(frame: bytes) -> None:
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
def test_what_is_not_in_the_table_ends_the_connection_without_an_answer(state: SaslState, input_: Input) -> None:
    outcome = reach(state).receive(FRAMES[input_])
    if (state, input_) in MOVES or (state, Input.FRAME) in MOVES:
        return
    assert outcome.failure is not None
    assert outcome.answer is None


def test_every_move_is_a_method_and_every_state_is_reached() -> None:
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
def test_a_request_that_cannot_be_read_ends_it(frame: bytes) -> None:
    outcome = authenticator().receive(frame)
    assert outcome.failure is not None
    assert outcome.answer is None


def test_the_failure_for_the_log_has_no_secret() -> None:
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
def test_a_frame_cut_short_never_logs_in(frame: bytes, data: st.DataObject) -> None:
    at = authenticator()
    at.receive(handshake())
    cut = frame[: data.draw(st.integers(0, len(frame) - 1))]
    outcome = at.receive(cut)
    assert outcome.login is None
    assert at.state is SaslState.CLOSED


class Broken(PlainServer):
    """Of somebody who forgot that anything may be sent."""

    def evaluate_response(self, response: bytes) -> bytes:
        raise RecursionError("alice-secret")


def test_fuzzing_what_a_mechanism_did_not_foresee_is_a_failed_login() -> None:
    offered = SaslListener("EXTERNAL", {"PLAIN": SaslMechanism(lambda: Broken(USERS))}, Clock())
    at = SaslAuthenticator(offered, Peer())
    at.receive(handshake())
    outcome = at.receive(authenticate(b"anything"))
    assert outcome.failure == "the mechanism can't judge it: RecursionError"
    assert said(outcome).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert at.state is SaslState.CLOSED


def test_sasl_state_abuse_a_handful_of_frames_leads_to_a_login_or_to_the_end() -> None:
    """Also of ApiVersions in versions to come, which may be asked again: each is answered, and costs."""
    at = authenticator()
    outcomes = [at.receive(versions()[:2] + b"\0\x63" + versions()[4:]) for _ in range(9)]
    assert [outcome.failure is None for outcome in outcomes] == [True] * 8 + [False]
    assert outcomes[-1].answer is None
