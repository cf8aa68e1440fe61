"""Authenticates one connection: frames in, responses and a login (or a failure) out. No I/O.

Every legal move is a row of ``MOVES``: the state, the frame, and the method that answers it. A frame without a row ends
the connection without an answer. At most a handful of frames can be sent before the end or a login. A failure has at
most one answer; the owner of the connection delays it
(``connection.failed.authentication.delay.ms``) and then closes.

Only what SASL needs is decoded before the login: the header, SaslHandshake and SaslAuthenticate.
The listener's own handler answers ApiVersions. A real Kafka also decodes other requests during an exchange, to answer
them with ILLEGAL_SASL_STATE; here they only close the connection.

After SaslHandshake version 0 the frames are the bytes of the mechanism themselves, without request headers.
Re-authentication (KIP-368) is the same exchange on a connection that is logged in; mechanism and principal must not
change.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from struct import Struct
from typing import TYPE_CHECKING, Protocol

from barnabas.common.errors import ErrorCode
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.decode_limits import DecodeLimits
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.headers import read_fixed_header, read_rest_of_header
from barnabas.protocol.messages.api_versions import ApiVersionsResponse
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from barnabas.security.principal_builder import PrincipalRefused
from barnabas.security.sasl.sasl_server import SaslFailure

if TYPE_CHECKING:
    from barnabas.protocol.schema import Message
    from barnabas.security.principal import Principal
    from barnabas.security.sasl.sasl_listener import SaslListener
    from barnabas.security.sasl.sasl_server import SaslServer

__all__ = ["MOVES", "Input", "Login", "Outcome", "PeerServices", "SaslAuthenticator", "SaslState"]

_CORRELATION = Struct(">i")
_ERROR_CODE = Struct(">h")
_NAMES = {int(key): API_TABLE[key].name for key in ApiKey}
_FLEXIBLE_AUTHENTICATE = API_TABLE[ApiKey.SASL_AUTHENTICATE].request_flexible_since
_FIRST_WITH_TOKENS_IN_REQUESTS = 1
_SHOWN_MECHANISM_MAX = 40
_API_VERSIONS_MAX = 8
_TAGGED_FIELDS_MAX = 16
_LIMITS = DecodeLimits(elements=_TAGGED_FIELDS_MAX, tagged_fields=_TAGGED_FIELDS_MAX)
"""Neither request has an array, and no tagged field is known: newer clients may send a few."""


class SaslState(Enum):
    START = "no request was received yet: SaslHandshake is expected, ApiVersions may precede it"
    HANDSHAKE = "ApiVersions was answered, only SaslHandshake may follow"
    TOKENS = "a mechanism was chosen, its bytes are expected in SaslAuthenticate"
    RAW_TOKENS = "a mechanism was chosen, its bytes are expected without headers"
    OTHER_MECHANISM = "a re-authentication requested another mechanism: any further frame ends it"
    COMPLETE = "logged in"
    CLOSED = "over"


class Input(Enum):
    API_VERSIONS = ApiKey.API_VERSIONS
    SASL_HANDSHAKE = ApiKey.SASL_HANDSHAKE
    SASL_AUTHENTICATE = ApiKey.SASL_AUTHENTICATE
    FRAME = "a frame whose header is not parsed"


MOVES = {
    (SaslState.START, Input.API_VERSIONS): "_answer_api_versions",
    (SaslState.START, Input.SASL_HANDSHAKE): "_shake_hands",
    (SaslState.HANDSHAKE, Input.SASL_HANDSHAKE): "_shake_hands",
    (SaslState.TOKENS, Input.SASL_AUTHENTICATE): "_authenticate",
    (SaslState.TOKENS, Input.SASL_HANDSHAKE): "_refuse_handshake",
    (SaslState.TOKENS, Input.API_VERSIONS): "_refuse_api_versions",
    (SaslState.RAW_TOKENS, Input.FRAME): "_take_raw_token",
    (SaslState.OTHER_MECHANISM, Input.FRAME): "_refuse_other_mechanism",
    (SaslState.COMPLETE, Input.SASL_HANDSHAKE): "_shake_hands",
}
_FRAME_STATES = frozenset(state for state, input_ in MOVES if input_ is Input.FRAME)


@dataclass(frozen=True, slots=True)
class Login:
    """A completed login: its principal and its lifetime."""

    principal: Principal
    mechanism: str
    session_lifetime_ms: int | None
    """Milliseconds from now; None for the life of the connection."""
    is_reauthentication: bool
    client_can_reauthenticate: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a frame. ``answer`` is a frame's content; b"" is an empty frame, None no frame.

    With ``failure`` the connection ends: its text is for the log, ``answer`` is sent after the delay.
    """

    answer: bytes | None = None
    login: Login | None = None
    failure: str | None = None
    mechanism: str = ""
    is_reauthentication: bool = False


class PeerServices(Protocol):
    """The parts of a connection that an authenticator uses."""

    def answer_api_versions(self, frame: bytes) -> bytes | None:
        """Return the listener's answer to an ApiVersions request, with its header; None if it can't be read."""
        ...

    def principal_of(self, mechanism: str, authorization_id: str, token_owner: Principal | None) -> Principal:
        """Raises PrincipalRefused."""
        ...


class _Request:
    """The header of a request, and where its body begins."""

    __slots__ = ("body", "correlation_id", "frame", "key", "version")

    def __init__(self, frame: bytes, key: int, version: int, correlation_id: int, body: int) -> None:
        self.frame = frame
        self.key = key
        self.version = version
        self.correlation_id = correlation_id
        self.body = body


class _Broken(Exception):
    """The peer violates the protocol: the connection ends without an answer."""


class SaslAuthenticator:
    __slots__ = (
        "_api_versions_count",
        "_can_reauthenticate",
        "_exchange",
        "_listener",
        "_mechanism",
        "_peer",
        "_principal",
        "_requested_mechanism",
        "state",
    )

    def __init__(self, listener: SaslListener, peer: PeerServices) -> None:
        self._listener = listener
        self._peer = peer
        self._exchange: SaslServer | None = None
        self._mechanism = ""
        self._requested_mechanism = ""
        self._principal: Principal | None = None
        self._can_reauthenticate = False
        self._api_versions_count = 0
        self.state = SaslState.START

    @property
    def is_reauthentication(self) -> bool:
        return self._principal is not None

    @property
    def is_pending(self) -> bool:
        """True while no request may be served."""
        return self.state is not SaslState.COMPLETE

    @property
    def takes_raw_tokens(self) -> bool:
        """True while frames are the bytes of the mechanism, without headers."""
        return self.state is SaslState.RAW_TOKENS

    def receive(self, frame: bytes) -> Outcome:
        """Process one frame. Never raises; after an outcome with ``failure`` no frame may follow."""
        if self.state is SaslState.CLOSED:
            return self._fail("a frame after the end")
        try:
            if self.state in _FRAME_STATES:
                move, request = MOVES[self.state, Input.FRAME], _Request(frame, 0, 0, 0, 0)
            else:
                move, request = self._move(frame)
            outcome: Outcome = getattr(self, move)(request)
        except (_Broken, DecodeError) as error:
            return self._fail(str(error))
        return outcome

    def _move(self, frame: bytes) -> tuple[str, _Request]:
        request = _read_header(frame)
        try:
            move = MOVES.get((self.state, Input(request.key)))
        except ValueError:
            move = None
        if move is None:
            name = _NAMES.get(request.key, f"API key {request.key}")
            raise _Broken(f"{name} is not allowed now: {self.state.value}")
        return move, request

    def _fail(self, reason: str, answer: bytes | None = None) -> Outcome:
        self.state = SaslState.CLOSED
        self._exchange = None
        return Outcome(answer, failure=reason, mechanism=self._mechanism, is_reauthentication=self.is_reauthentication)

    # --- before the exchange

    def _answer_api_versions(self, request: _Request) -> Outcome:
        self._api_versions_count += 1
        if self._api_versions_count > _API_VERSIONS_MAX:
            raise _Broken(f"ApiVersions of versions that are not served, {self._api_versions_count} times")
        answer = self._peer.answer_api_versions(request.frame)
        if answer is None:
            raise _Broken("an ApiVersions request that cannot be read")
        (error_code,) = _ERROR_CODE.unpack_from(answer, _CORRELATION.size)
        if error_code == ErrorCode.NONE:
            self.state = SaslState.HANDSHAKE
        return Outcome(answer)

    def _shake_hands(self, request: _Request) -> Outcome:
        _check_version(request, ApiKey.SASL_HANDSHAKE)
        handshake, _ = SaslHandshakeRequest.read(request.frame, request.body, request.version, _LIMITS)
        mechanism, offered = handshake.mechanism, self._listener.mechanisms
        if mechanism not in offered:
            answer = _answer(
                request,
                SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=list(offered)),
            )
            # As Kafka does, only a client that is not logged in yet receives the list of mechanisms.
            refusal = None if self.is_reauthentication else answer
            return self._fail(f"mechanism {mechanism[:_SHOWN_MECHANISM_MAX]!r} is not enabled", refusal)
        answer = _answer(request, SaslHandshakeResponse(mechanisms=list(offered)))
        if self.is_reauthentication and mechanism != self._mechanism:
            self._requested_mechanism = mechanism
            self.state = SaslState.OTHER_MECHANISM
            return Outcome(answer)
        self._mechanism = mechanism
        self._exchange = offered[mechanism].make_server()
        has_headers = request.version >= _FIRST_WITH_TOKENS_IN_REQUESTS
        self.state = SaslState.TOKENS if has_headers else SaslState.RAW_TOKENS
        return Outcome(answer)

    # --- the exchange

    def _authenticate(self, request: _Request) -> Outcome:
        _check_version(request, ApiKey.SASL_AUTHENTICATE)
        body, _ = SaslAuthenticateRequest.read(request.frame, request.body, request.version, _LIMITS)
        self._can_reauthenticate = self._can_reauthenticate or request.version > 0
        try:
            challenge, login = self._advance(bytes(body.auth_bytes))
        except SaslFailure as failure:
            response = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
                error_message=failure.public_message or self._general_message(),
            )
            return self._fail(failure.reason, _answer(request, response))
        lifetime_ms = 0 if login is None or login.session_lifetime_ms is None else login.session_lifetime_ms
        response = SaslAuthenticateResponse(auth_bytes=challenge, session_lifetime_ms=lifetime_ms)
        return Outcome(_answer(request, response), login)

    def _take_raw_token(self, request: _Request) -> Outcome:
        try:
            challenge, login = self._advance(bytes(request.frame))
        except SaslFailure as failure:
            return self._fail(failure.reason)
        return Outcome(challenge, login)

    def _advance(self, token: bytes) -> tuple[bytes, Login | None]:
        exchange = self._exchange
        if exchange is None:
            raise _Broken("no exchange has begun")
        try:
            challenge = exchange.evaluate_response(token)
        except SaslFailure:
            raise
        except Exception as error:  # Whatever a client sends, the worst result is a failed login.
            raise SaslFailure(f"the mechanism failed with {type(error).__name__}") from error
        if not exchange.is_complete:
            return challenge, None
        try:
            principal = self._peer.principal_of(self._mechanism, exchange.authorization_id, exchange.token_owner)
        except PrincipalRefused as refused:
            raise SaslFailure(str(refused)) from refused
        before = self._principal
        if before is not None and (before.type, before.name) != (principal.type, principal.name):
            raise SaslFailure.public(
                "Cannot change principals during re-authentication from "
                f"{before.type}.{before.name}: {principal.type}.{principal.name}"
            )
        self._principal = principal
        self._exchange = None
        self.state = SaslState.COMPLETE
        return challenge, Login(
            principal=principal,
            mechanism=self._mechanism,
            session_lifetime_ms=self._session_lifetime_ms(exchange.session_expires_at_ms),
            is_reauthentication=before is not None,
            client_can_reauthenticate=self._can_reauthenticate,
        )

    def _session_lifetime_ms(self, expires_at_ms: int | None) -> int | None:
        """Return the shorter of the setting and the remaining lifetime of the token."""
        longest_ms = self._listener.mechanisms[self._mechanism].reauthentication_ms_max
        candidates = [longest_ms] if longest_ms > 0 else []
        if expires_at_ms is not None:
            candidates.append(max(0, expires_at_ms - self._listener.clock.now_ms()))
        return min(candidates, default=None)

    def _general_message(self) -> str:
        doing = "re-authentication" if self.is_reauthentication else "authentication"
        return f"Authentication failed during {doing} due to invalid credentials with SASL mechanism {self._mechanism}"

    # --- the end

    def _refuse_handshake(self, request: _Request) -> Outcome:
        _check_version(request, ApiKey.SASL_HANDSHAKE)
        answer = _answer(request, SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))
        return self._fail("SaslHandshake was received during an exchange", answer)

    def _refuse_api_versions(self, request: _Request) -> Outcome:
        info = API_TABLE[ApiKey.API_VERSIONS]
        version = request.version if info.lowest <= request.version <= info.highest else 0
        response = ApiVersionsResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
        answer = _CORRELATION.pack(request.correlation_id) + response.encode(version)
        return self._fail("ApiVersions was received during an exchange", answer)

    def _refuse_other_mechanism(self, request: _Request) -> Outcome:
        return self._fail(
            f"SASL mechanism '{self._requested_mechanism}' requested by client is not supported for "
            f"re-authentication of mechanism '{self._mechanism}'"
        )


def _read_header(frame: bytes) -> _Request:
    key, version, correlation_id, client_id_length = read_fixed_header(frame)
    is_flexible = key == ApiKey.SASL_AUTHENTICATE and version >= _FLEXIBLE_AUTHENTICATE
    _, position = read_rest_of_header(
        frame, client_id_length, is_flexible=is_flexible, tagged_fields_max=_TAGGED_FIELDS_MAX
    )
    return _Request(frame, key, version, correlation_id, position)


def _check_version(request: _Request, api_key: ApiKey) -> None:
    info = API_TABLE[api_key]
    if not info.lowest <= request.version <= info.highest:
        raise _Broken(f"{info.name} version {request.version} is not served: {info.lowest} to {info.highest} are")


def _answer(request: _Request, response: Message) -> bytes:
    flexible = request.key == ApiKey.SASL_AUTHENTICATE and request.version >= _FLEXIBLE_AUTHENTICATE
    header = _CORRELATION.pack(request.correlation_id) + (b"\0" if flexible else b"")
    return header + response.encode(request.version)
