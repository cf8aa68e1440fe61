"""The signature of an internal request between workers: create, parse and verify it (KIP-507).

A signature is a MAC of the exact bytes of the body, created with the group's session key. It covers nothing else, so it
only proves that a member of the group once sent these bytes; ``request_freshness`` proves the rest between
Barnabas workers.

The receiver checks in this order, with these answers to failures:

1. If both headers exist: the MAC algorithm exists (400), and the base64 can be decoded (400). This applies also without
   verification. A request with only one of the headers counts as unsigned.
2. If the group has agreed on ``sessioned``: a signature exists (400), its MAC is one of
   ``inter.worker.verification.algorithms``, case-sensitive (400), this worker has a session key (503), the
   signature is right (403). Only the current key counts.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from barnabas.connect.errors import BadRequest, ConnectError
from barnabas.connect.mac_algorithms import Mac, UnsupportedAlgorithm, mac
from barnabas.connect.rest.strict_base64 import MalformedBase64, decode

__all__ = [
    "ALGORITHM_HEADER",
    "SIGNATURE_HEADER",
    "InvalidSignature",
    "KeyNotReady",
    "RequestSignature",
    "check_claim",
    "check_signature",
    "signed_headers",
]

SIGNATURE_HEADER = "X-Connect-Authorization"
ALGORITHM_HEADER = "X-Connect-Request-Signature-Algorithm"


class InvalidSignature(ConnectError):
    http_status = 403


class KeyNotReady(ConnectError):
    http_status = 503


@dataclass(frozen=True, slots=True)
class RequestSignature:
    """``algorithm`` is the name as sent, ``mac`` the algorithm that it names."""

    algorithm: str
    mac: Mac = field(repr=False)
    signature: bytes = field(repr=False)

    @classmethod
    def from_headers(cls, headers: Mapping[str, str]) -> RequestSignature | None:
        """Parse ``headers``, whose names are case-insensitive. None unless both exist. Raise BadRequest."""
        signature, algorithm = headers.get(SIGNATURE_HEADER), headers.get(ALGORITHM_HEADER)
        if signature is None or algorithm is None:
            return None
        known = _known_mac(algorithm)
        try:
            return cls(algorithm, known, decode(signature))
        except MalformedBase64 as error:
            raise BadRequest(str(error)) from None

    @classmethod
    def sign(cls, algorithm: str, key: bytes, body: bytes) -> RequestSignature:
        """Sign a body. Raise BadRequest for an algorithm that does not exist."""
        known = _known_mac(algorithm)
        return cls(algorithm, known, known.sign(key, body))

    def is_valid(self, key: bytes, body: bytes) -> bool:
        """Check the signature in constant time."""
        return self.mac.is_valid(key, body, self.signature)

    def headers(self) -> dict[str, str]:
        return {
            SIGNATURE_HEADER: base64.b64encode(self.signature).decode("ascii"),
            ALGORITHM_HEADER: self.algorithm,
        }


def check_signature(
    signature: RequestSignature | None,
    body: bytes,
    *,
    is_verification_in_force: bool,
    key: bytes | None,
    permitted_algorithms: Sequence[str],
) -> None:
    """Return if the request is accepted; raise BadRequest, KeyNotReady or InvalidSignature."""
    if not is_verification_in_force:
        return
    found, known_key = check_claim(signature, key=key, permitted_algorithms=permitted_algorithms)
    if not found.is_valid(known_key, body):
        raise InvalidSignature("Internal request contained invalid signature.")


def check_claim(
    signature: RequestSignature | None, *, key: bytes | None, permitted_algorithms: Sequence[str]
) -> tuple[RequestSignature, bytes]:
    """Check the headers before the body has arrived. Raise BadRequest or KeyNotReady."""
    if signature is None:
        raise BadRequest("Internal request missing required signature")
    if signature.algorithm not in permitted_algorithms:
        raise BadRequest(
            f"This worker does not support the '{signature.algorithm}' key signing algorithm used by other workers. "
            f"This worker is currently configured to use: [{', '.join(permitted_algorithms)}]. "
            "Check that all workers' configuration files permit the same set of signature algorithms, "
            "and correct any misconfigured worker and restart it."
        )
    if key is None:
        raise KeyNotReady(
            "This worker is still starting up and has not been able to read a session key from the config topic yet"
        )
    return signature, key


def signed_headers(algorithm: str | None, key: bytes | None, body: bytes) -> dict[str, str]:
    """Return the two headers for a request with this body; none without a key: the request is then unsigned."""
    if algorithm is None or key is None:
        return {}
    return RequestSignature.sign(algorithm, key, body).headers()


def _known_mac(algorithm: str) -> Mac:
    try:
        return mac(algorithm)
    except UnsupportedAlgorithm:
        raise BadRequest(f"Algorithm {algorithm} not available") from None
