"""The server of SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), and the formulas that both sides need.

Guessing user names reveals nothing. An unknown user receives a salt, always the same one for the same name from every
node, and fails with the same words after the same work, when the proof arrives. A real Kafka refuses an unknown user at
the first message, which reveals whether a user exists.

With the extension ``tokenauth=true`` the user is the id of a delegation token and the password is its HMAC in base64.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING

from barnabas.common.scram_mechanism import SCRAM_ITERATIONS_MIN
from barnabas.security.sasl.credential_store import ScramCredential
from barnabas.security.sasl.sasl_server import SaslFailure
from barnabas.security.sasl.scram_messages import ClientFinal, ClientFirst, ServerFinal, ServerFirst, user_name

if TYPE_CHECKING:
    from barnabas.common.clock import Clock
    from barnabas.common.scram_mechanism import ScramMechanism
    from barnabas.security.principal import Principal
    from barnabas.security.sasl.credential_store import CredentialStore

__all__ = [
    "RANDOM_BYTES",
    "FakeCredentials",
    "ScramServer",
    "credential_from_text",
    "credential_to_text",
    "new_nonce",
    "random_text",
    "server_signature",
    "sign",
    "signed_text",
]

_MESSAGE_BYTES_MAX = 32 * 1024
_RANDOM_BITS = 130
RANDOM_BYTES = (_RANDOM_BITS + 7) // 8
"""The number of random bytes in a nonce or a salt."""
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_WRONG = "Authentication failed: Invalid user credentials"


class FakeCredentials:
    """Credentials that no proof can match, for users that do not exist; they differ by user.

    They look like those that Kafka's tools create: a salt of letters and digits, and the iterations of most users. The
    key must be the same on all nodes: two different salts for a name would reveal that the user does not exist.
    """

    __slots__ = ("_key",)

    def __init__(self, key: bytes = b"") -> None:
        """Without a key, a random one is drawn."""
        self._key = key or os.urandom(32)

    def credential(
        self, mechanism: ScramMechanism, user: str, iterations: int = SCRAM_ITERATIONS_MIN
    ) -> ScramCredential:
        salt, stored_key, server_key = (
            hmac.digest(self._key, f"{purpose}\0{mechanism.mechanism_name}\0{user}".encode(), mechanism.digest)
            for purpose in ("salt", "stored key", "server key")
        )
        return ScramCredential(random_text(salt).encode(), stored_key, server_key, iterations)


class ScramServer:
    __slots__ = (
        "_clock",
        "_credential",
        "_fakes",
        "_first",
        "_is_known",
        "_mechanism",
        "_sent",
        "_server_nonce",
        "_store",
        "_token_expires_at_ms",
        "_token_owner",
        "_user",
        "is_complete",
    )

    def __init__(
        self,
        mechanism: ScramMechanism,
        store: CredentialStore,
        fakes: FakeCredentials,
        clock: Clock,
        *,
        nonce: str | None = None,
    ) -> None:
        self._mechanism = mechanism
        self._store = store
        self._fakes = fakes
        self._clock = clock
        self._server_nonce = new_nonce() if nonce is None else nonce
        self._first: ClientFirst | None = None
        self._sent: ServerFirst | None = None
        self._credential: ScramCredential | None = None
        self._is_known = False
        self._user = ""
        self._token_owner: Principal | None = None
        self._token_expires_at_ms: int | None = None
        self.is_complete = False

    @property
    def server_first(self) -> ServerFirst | None:
        """The challenge that was sent."""
        return self._sent

    @property
    def authorization_id(self) -> str:
        """The user, or the owner of the token."""
        if not self.is_complete:
            return ""
        return self._user if self._token_owner is None else self._token_owner.name

    @property
    def session_expires_at_ms(self) -> int | None:
        return self._token_expires_at_ms

    @property
    def token_owner(self) -> Principal | None:
        return self._token_owner

    def evaluate_response(self, response: bytes) -> bytes:
        if self.is_complete:
            raise SaslFailure("a message after a complete exchange")
        if len(response) > _MESSAGE_BYTES_MAX:
            raise SaslFailure(f"a SCRAM message longer than {_MESSAGE_BYTES_MAX} bytes")
        try:
            return self._challenge(response) if self._sent is None else self._check_proof(response)
        except ValueError as error:
            raise SaslFailure(str(error)) from None

    def _challenge(self, response: bytes) -> bytes:
        first = self._first = ClientFirst.read(response)
        self._user = user_name(first.name)
        credential = self._known_credential(first)
        usual = SCRAM_ITERATIONS_MIN if first.is_token_authenticated else self._store.usual_iterations(self._mechanism)
        fake = self._fakes.credential(self._mechanism, self._user, usual)
        self._is_known = credential is not None
        self._credential = credential = credential or fake
        if first.authorization_id and user_name(first.authorization_id) != self._user:
            raise SaslFailure.public(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        if credential.iterations < SCRAM_ITERATIONS_MIN:
            raise SaslFailure(
                f"Iterations {credential.iterations} is less than the minimum {SCRAM_ITERATIONS_MIN} for "
                f"{self._mechanism.name}"
            )
        self._sent = ServerFirst(first.nonce + self._server_nonce, credential.salt, credential.iterations)
        return self._sent.text().encode()

    def _known_credential(self, first: ClientFirst) -> ScramCredential | None:
        if not first.is_token_authenticated:
            return self._store.scram_credential(self._mechanism, self._user)
        token = self._store.delegation_token(self._user)
        if token is None or token.expires_at_ms <= self._clock.now_ms():
            return None
        self._token_owner = token.owner
        self._token_expires_at_ms = token.expires_at_ms
        return token.scram_credentials.get(self._mechanism)

    def _check_proof(self, response: bytes) -> bytes:
        first, sent, credential = self._first, self._sent, self._credential
        if first is None or sent is None or credential is None:
            raise SaslFailure("a final message without a first")
        final = ClientFinal.read(response)
        if not hmac.compare_digest(final.nonce.encode(), sent.nonce.encode()):
            raise SaslFailure("Invalid client nonce in the final client message.")
        digest = self._mechanism.digest
        text = signed_text(first, sent, final)
        signature = sign(credential.stored_key, text, digest)
        proof = final.proof if len(final.proof) == len(signature) else bytes(len(signature))
        client_key = bytes(left ^ right for left, right in zip(proof, signature, strict=True))
        is_right = hmac.compare_digest(hashlib.new(digest, client_key).digest(), credential.stored_key)
        answer = server_signature(credential.server_key, text, digest)
        if not (is_right and self._is_known and self._is_still_valid()):
            raise SaslFailure(_WRONG)
        self._credential = None
        self.is_complete = True
        return ServerFinal(answer).text().encode()

    def _is_still_valid(self) -> bool:
        return self._token_expires_at_ms is None or self._token_expires_at_ms > self._clock.now_ms()


def new_nonce() -> str:
    return random_text(os.urandom(RANDOM_BYTES))


def random_text(data: bytes) -> str:
    """Return 130 of the bits in base 36, as Kafka's nonces and salts. ``data`` has RANDOM_BYTES or more."""
    number = int.from_bytes(data[:RANDOM_BYTES], "big") & ((1 << _RANDOM_BITS) - 1)
    digits = []
    while number:
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits)) or "0"


def signed_text(first: ClientFirst, sent: ServerFirst, final: ClientFinal) -> bytes:
    """Return the AuthMessage of RFC 5802."""
    return f"{first.bare},{sent.text()},{final.without_proof}".encode()


def sign(stored_key: bytes, text: bytes, digest: str) -> bytes:
    """Return the client's signature: exclusive-or with it converts the client key to the proof, and back."""
    return hmac.digest(stored_key, text, digest)


def server_signature(server_key: bytes, text: bytes, digest: str) -> bytes:
    return hmac.digest(server_key, text, digest)


_TEXT_KEYS = ("salt", "stored_key", "server_key", "iterations")


def credential_to_text(credential: ScramCredential) -> str:
    """``salt=...,stored_key=...,server_key=...,iterations=...``, as Kafka's tools write a credential."""
    salt, stored, server = (
        b64encode(value).decode() for value in (credential.salt, credential.stored_key, credential.server_key)
    )
    return f"salt={salt},stored_key={stored},server_key={server},iterations={credential.iterations}"


def credential_from_text(text: str) -> ScramCredential:
    """Parse the text of ``credential_to_text``. Raises ValueError."""
    values = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not equals:
            raise ValueError("Credentials not valid: a part without an equals sign")
        values[key] = value
    if sorted(values) != sorted(_TEXT_KEYS):
        raise ValueError(f"Credentials not valid: exactly {', '.join(_TEXT_KEYS)} are required")
    salt, stored, server = (b64decode(values[key], validate=True) for key in _TEXT_KEYS[:3])
    return ScramCredential(salt, stored, server, int(values["iterations"]))
