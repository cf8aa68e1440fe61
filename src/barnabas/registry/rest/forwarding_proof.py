"""How a registry proves to the leader for whom it forwards a request (``barnabas.registry.forwarding.secret``).

A header names the user, the address of the client, and a time, with a keyed hash over these, the method, the target and
the body. The leader accepts a proof for a minute, which bounds how long a copied request could be repeated.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from dataclasses import dataclass

__all__ = ["PROOF_HEADER", "Caller", "InvalidProof", "proof_of", "proven_caller"]

PROOF_HEADER = "Barnabas-Registry-Caller"
_AGE_MS_MAX = 60_000
_HASH = "sha256"


class InvalidProof(ValueError):
    """The header was not made with the secret for this request, or is too old."""


@dataclass(frozen=True, slots=True)
class Caller:
    """``user`` is the name of a principal of the type User; ``host`` its address."""

    user: str
    host: str


def proof_of(secret: bytes, caller: Caller, method: str, target: str, body: bytes, now_ms: int) -> str:
    """Return the value of the header."""
    claim = base64.urlsafe_b64encode(json.dumps([caller.user, caller.host, now_ms]).encode()).decode()
    return f"{claim}.{_mac(secret, claim, method, target, body)}"


def proven_caller(secret: bytes, header: str, method: str, target: str, body: bytes, now_ms: int) -> Caller:
    """Return the caller that the header proves. Raise InvalidProof."""
    claim, _, mac = header.partition(".")
    if not hmac.compare_digest(mac.encode(), _mac(secret, claim, method, target, body).encode()):
        raise InvalidProof("the proof was made with another secret, or for another request")
    try:
        user, host, at_ms = json.loads(base64.urlsafe_b64decode(claim))
        age_ms = abs(now_ms - at_ms)
    except (ValueError, TypeError, binascii.Error) as error:
        raise InvalidProof("the claim can't be read") from error
    if age_ms > _AGE_MS_MAX:
        raise InvalidProof(f"the proof is {age_ms / 1000:.0f} s old, or the clocks of the registries differ")
    return Caller(str(user), str(host))


def _mac(secret: bytes, claim: str, method: str, target: str, body: bytes) -> str:
    parts = [claim, method, target, hashlib.sha256(body).hexdigest()]
    return hmac.new(secret, "\n".join(parts).encode(), _HASH).hexdigest()
