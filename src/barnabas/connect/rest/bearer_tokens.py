"""Users with a signed token (``Authorization: Bearer``): the rules of OAUTHBEARER, with roles in a claim.

``barnabas.connect.jwt.keys.file`` is a file or a URL with the issuer's public keys, as a JSON Web Key Set or as PEM.
The roles are the words read, operate and admin of the claim; other words in it are ignored.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from barnabas.connect.rest.authentication import NotAuthenticated
from barnabas.connect.rest.roles import Role, RoleTable, User
from barnabas.security.sasl.jwks import JsonWebKeys, RefreshPolicy, UnusableJwks, fetch, read_key_set
from barnabas.security.sasl.jwt_validator import JwtRules, JwtValidator
from barnabas.security.sasl.oauthbearer import InvalidToken

if TYPE_CHECKING:
    from barnabas.common.clock import Clock

__all__ = ["BearerTokens", "open_keys"]

_END = b"-----END PUBLIC KEY-----"
_TOKEN_LENGTH_MAX = 16 * 1024


class BearerTokens:
    """A TokenCheck."""

    def __init__(
        self, keys: JsonWebKeys, rules: JwtRules, algorithms: frozenset[str], roles: RoleTable, clock: Clock
    ) -> None:
        self._validator = JwtValidator(keys, rules, clock)
        self._algorithms = algorithms
        self._roles = roles

    def __call__(self, token: str) -> User:
        """Check the token. Raise NotAuthenticated."""
        try:
            self._check_algorithm(token)
            bearer = self._validator.validate(token)
        except InvalidToken as error:
            raise NotAuthenticated(f"The bearer token is invalid: {error}.") from None
        claimed = [Role.named(word.lower()) for text in bearer.scope for word in text.split()]
        return User(bearer.subject, self._roles.role_of(bearer.subject, *claimed))

    def _check_algorithm(self, token: str) -> None:
        if len(token) > _TOKEN_LENGTH_MAX:
            raise InvalidToken(f"it is longer than {_TOKEN_LENGTH_MAX} characters")
        try:
            algorithm = jwt.get_unverified_header(token).get("alg")
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            raise InvalidToken("it is not a signed JSON Web Token") from None
        if algorithm not in self._algorithms:
            raise InvalidToken("it is not signed with one of " + ", ".join(sorted(self._algorithms)))


def open_keys(place: str, setting: str) -> JsonWebKeys:
    """Return the keys at the path or URL of ``setting``, not yet fetched (``start``).

    Raise UnusableJwks for a file without keys.
    """
    url = place if "://" in place else Path(place).absolute().as_uri()
    if url.lower().startswith("file:"):
        read_key_set(_fetch_keys(url))
    return JsonWebKeys(url, RefreshPolicy(), fetch_document=_fetch_keys, setting=setting)


def _fetch_keys(url: str) -> bytes:
    """Return a JSON Web Key Set, converted from PEM if necessary. Raise UnusableJwks."""
    document = fetch(url)
    if not document.lstrip().startswith(b"-----BEGIN"):
        return document
    blocks = [block + _END for block in document.split(_END)[:-1]]
    try:
        keys = [_web_key(block.lstrip()) for block in blocks]
    except (ValueError, TypeError) as error:
        raise UnusableJwks(f"it is not PEM with public keys: {error}") from None
    if not keys:
        raise UnusableJwks("it contains no PUBLIC KEY")
    return json.dumps({"keys": keys}).encode()


def _web_key(pem: bytes) -> dict[str, object]:
    key = load_pem_public_key(pem)
    if isinstance(key, RSAPublicKey):
        return RSAAlgorithm.to_jwk(key, as_dict=True)
    if isinstance(key, EllipticCurvePublicKey):
        return ECAlgorithm.to_jwk(key, as_dict=True)
    raise ValueError("only RSA and EC keys are supported")
