"""Log in to a node over SASL, and again before the session ends (KIP-368).

Credentials are in ``sasl.jaas.config``, as for Kafka's clients: user and password for PLAIN and SCRAM (a delegation
token's id and HMAC with ``tokenauth="true"``). An OAUTHBEARER token is read from the file of
``sasl.oauthbearer.token.endpoint.url``, again for each login, because another program renews it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from barnabas.clients.errors import AuthenticationFailed, InvalidClientConfig, UnsupportedVersion
from barnabas.common.error_code import ErrorCode
from barnabas.common.scram_mechanism import ScramMechanism
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest
from barnabas.security.sasl.jaas import InvalidJaasConfig, JaasEntry, parse_jaas_entry
from barnabas.security.sasl.sasl_client import OAuthBearerClient, PlainClient, SaslClient, ScramClient
from barnabas.security.sasl.sasl_server import SaslFailure

if TYPE_CHECKING:
    from barnabas.clients.client_config import ClientConfig
    from barnabas.clients.node_connection import NodeConnection

__all__ = ["SaslLogin", "sasl_client_maker"]

_EARLIEST_RENEWAL, _LATEST_RENEWAL = 0.85, 0.95
"""The fraction of a session after which it is renewed: random, so that many clients don't log in simultaneously."""

_TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
_LOGIN_MODULES = {"PLAIN": "PlainLoginModule", "OAUTHBEARER": "OAuthBearerLoginModule"}
_SCRAM_LOGIN_MODULE = "ScramLoginModule"
_EXTENSION_PREFIX = "extension_"


class SaslLogin:
    def __init__(self, connection: NodeConnection, mechanism: str, make_client: Callable[[], SaslClient]) -> None:
        self._connection = connection
        self._mechanism = mechanism
        self._make_client = make_client

    async def log_in(self) -> None:
        """Log in. Raise AuthenticationFailed with the node's message."""
        connection, client = self._connection, self._make_client()
        await self._shake_hands()
        token, lifetime_ms = self._answer(client, b""), 0
        while True:
            response = await connection.exchange(SaslAuthenticateRequest(auth_bytes=token))
            if response.error_code:
                why = response.error_message or _name(response.error_code)
                raise AuthenticationFailed(f"{connection.address} refused the login with {self._mechanism}: {why}")
            lifetime_ms = response.session_lifetime_ms
            if client.is_complete and not response.auth_bytes:
                break
            token = self._answer(client, response.auth_bytes)
            if client.is_complete and not token:
                break
        if lifetime_ms > 0:
            part = random.uniform(_EARLIEST_RENEWAL, _LATEST_RENEWAL)
            connection.set_session(self.log_in, lifetime_ms / 1000 * part)
        else:
            connection.set_session(None)

    async def _shake_hands(self) -> None:
        connection = self._connection
        if connection.version_of(ApiKey.SASL_HANDSHAKE) < 1:
            raise UnsupportedVersion(f"the node at {connection.address} is older than Kafka 1.0")
        response = await connection.exchange(SaslHandshakeRequest(mechanism=self._mechanism))
        if response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(response.mechanisms) or "no mechanism"
            raise AuthenticationFailed(
                f"{connection.address} does not offer sasl.mechanism {self._mechanism}; it offers {offered}"
            )
        if response.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            raise AuthenticationFailed(
                f"clients do not log in at {connection.address} -> remove SASL_ from security.protocol"
            )
        if response.error_code:
            raise AuthenticationFailed(f"{connection.address} refused the SASL handshake: {_name(response.error_code)}")

    def _answer(self, client: SaslClient, challenge: bytes) -> bytes:
        try:
            return client.evaluate_challenge(challenge)
        except SaslFailure as error:
            raise AuthenticationFailed(f"login at {self._connection.address}: {error.reason}") from error


def sasl_client_maker(config: ClientConfig) -> Callable[[], SaslClient]:
    """Create the client of the mechanism. Raise InvalidClientConfig for unusable settings."""
    try:
        entry = parse_jaas_entry(config.values["sasl.jaas.config"].value)
        return _maker(config, entry)
    except (InvalidJaasConfig, ValueError) as error:
        raise InvalidClientConfig([f"sasl.jaas.config: {error}"]) from error


def _maker(config: ClientConfig, entry: JaasEntry) -> Callable[[], SaslClient]:
    mechanism = config.sasl_mechanism
    module = _LOGIN_MODULES.get(mechanism, _SCRAM_LOGIN_MODULE)
    if entry.login_module.rpartition(".")[2] != module:
        raise ValueError(f"sasl.mechanism={mechanism} needs the login module {module}, not {entry.login_module}")
    options = entry.options
    if mechanism == "OAUTHBEARER":
        return _oauth_maker(config, options={k: v for k, v in options.items() if k.startswith(_EXTENSION_PREFIX)})
    user, password = options.get("username"), options.get("password")
    if user is None or password is None:
        raise ValueError(f"{module} needs username and password")
    if mechanism == "PLAIN":
        PlainClient(user, password)  # Refuses bad values before a connection is opened.
        return lambda: PlainClient(user, password)
    scram = next(candidate for candidate in ScramMechanism if candidate.mechanism_name == mechanism)
    token_auth = options.get("tokenauth", "").lower() == "true"
    return lambda: ScramClient(scram, user, password, token_auth=token_auth)


def _oauth_maker(config: ClientConfig, options: dict[str, str]) -> Callable[[], SaslClient]:
    url = config.values[_TOKEN_URL]
    parts = urlsplit(url or "")
    if parts.scheme != "file" or not parts.path:
        raise InvalidClientConfig(
            [f"{_TOKEN_URL}={url or ''} can't be used: this client takes a token from a file, as in file:///run/token"]
        )
    path = Path(unquote(parts.path))
    extensions = {name.removeprefix(_EXTENSION_PREFIX): value for name, value in options.items()}

    def token() -> str:
        try:
            return path.read_text().strip()
        except OSError as error:
            raise SaslFailure.public(f"can't read the token in {path}: {error.strerror}") from error

    OAuthBearerClient(token, extensions)
    return lambda: OAuthBearerClient(token, extensions)


def _name(code: int) -> str:
    return ErrorCode(code).name if code in ErrorCode._value2member_map_ else f"error {code}"
