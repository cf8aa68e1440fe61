"""Validates the signed tokens of OAUTHBEARER: signature, times, issuer, audience, and principal.

Only asymmetric signatures count (RS, PS and ES), and only with a key that the issuer publishes for them: an unsigned
token, or one "signed" with a public key as a shared secret, is refused whatever it says. The rules are those of Kafka's
BrokerJwtValidator: ``exp`` and ``iat`` are required, ``aud`` must be an expected one (a token with ``aud`` is refused
if none is expected), ``iss`` is compared if an issuer is expected.

PyJWT does the cryptography. It is imported with this module, which a node loads only when a listener needs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import jwt

from barnabas.security.sasl.jwks import ALGORITHMS
from barnabas.security.sasl.oauthbearer import BearerToken, InvalidToken

if TYPE_CHECKING:
    from jwt.types import Options

    from barnabas.common.clock import Clock
    from barnabas.security.sasl.jwks import JsonWebKeys

__all__ = ["JwtRules", "JwtValidator"]

_KEYS_TRIED_MAX = 8
# Times are checked here, with the node's clock; PyJWT's other checks stay enabled.
_OPTIONS: Options = {
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_sub": False,
    "verify_jti": False,
}


@dataclass(frozen=True, slots=True)
class JwtRules:
    """The requirements on a token."""

    audiences: tuple[str, ...] = ()
    issuer: str | None = None
    clock_skew_s: int = 30
    scope_claim: str = "scope"
    subject_claim: str = "sub"


class JwtValidator:
    def __init__(self, keys: JsonWebKeys, rules: JwtRules, clock: Clock) -> None:
        self._keys = keys
        self._rules = rules
        self._clock = clock

    def validate(self, token: str) -> BearerToken:
        rules = self._rules
        claims = self._verified_claims(token)
        now_s = self._clock.now_ms() / 1000
        expires_s = _number(claims, "exp", required=True)
        if now_s - rules.clock_skew_s >= expires_s:
            raise InvalidToken("the token has expired")
        if now_s + rules.clock_skew_s < _number(claims, "nbf", required=False):
            raise InvalidToken("the token is not valid yet")
        _number(claims, "iat", required=True)
        return BearerToken(_subject(claims, rules.subject_claim), int(expires_s * 1000), _scope(claims, rules))

    def _verified_claims(self, token: str) -> dict[str, object]:
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            raise InvalidToken("it is not a signed JSON Web Token") from None
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise InvalidToken("it is not signed with one of " + ", ".join(ALGORITHMS))
        keys = self._keys.candidates(key_id if isinstance(key_id, str) else None, algorithm)
        if not keys:
            raise InvalidToken("no key of the issuer fits it")
        reason = "its signature is wrong"
        for key in keys[:_KEYS_TRIED_MAX]:
            try:
                claims: dict[str, object] = jwt.decode(
                    token,
                    key,
                    algorithms=[algorithm],
                    audience=self._rules.audiences or None,
                    issuer=self._rules.issuer,
                    options=_OPTIONS,
                )
            except jwt.InvalidSignatureError:
                continue
            except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
                raise InvalidToken(_REASONS.get(type(error), "it is not a usable JSON Web Token")) from None
            return claims
        raise InvalidToken(reason)


_REASONS: dict[type[Exception], str] = {
    jwt.InvalidAudienceError: "its audience (aud) is not an expected one",
    jwt.InvalidIssuerError: "its issuer (iss) is not the expected one",
}


def _number(claims: dict[str, object], name: str, *, required: bool) -> float:
    value = claims.get(name)
    if value is None and not required:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53:
        raise InvalidToken(f"it has no usable claim '{name}'")
    return float(value)


def _subject(claims: dict[str, object], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not value.strip():
        raise InvalidToken(f"it has no usable claim '{name}'")
    return value.strip()


def _scope(claims: dict[str, object], rules: JwtRules) -> frozenset[str]:
    """Return the scopes: a text is one, a list several, a missing claim none. A duplicate is refused, as by Kafka."""
    value = claims.get(rules.scope_claim, [])
    scopes = [value] if isinstance(value, str) else value
    if not isinstance(scopes, list) or not all(isinstance(scope, str) and scope.strip() for scope in scopes):
        raise InvalidToken(f"it has no usable claim '{rules.scope_claim}'")
    trimmed = [scope.strip() for scope in scopes]
    if len(set(trimmed)) < len(trimmed):
        raise InvalidToken(f"it has a duplicate in its claim '{rules.scope_claim}'")
    return frozenset(trimmed)
