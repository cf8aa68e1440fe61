"""Derives a server's credential from a password (RFC 5802, section 3).

A client may do the costly half itself: Kafka's AlterUserScramCredentials contains the salted password, so that the
password never leaves the tool. ``hashlib`` is imported when a credential is computed, not when a node starts.
"""

from __future__ import annotations

import hashlib
import hmac
from hashlib import pbkdf2_hmac
from typing import TYPE_CHECKING

from barnabas.security.sasl.credential_store import ScramCredential

if TYPE_CHECKING:
    from barnabas.common.scram_mechanism import ScramMechanism

__all__ = ["credential_of_password", "credential_of_salted_password", "salted_password_of"]


def salted_password_of(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Return PBKDF2 of the password's UTF-8 bytes, in some milliseconds. Like Kafka, without SASLprep."""
    return pbkdf2_hmac(mechanism.digest, password.encode(), salt, iterations)


def credential_of_salted_password(
    mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    digest = mechanism.digest
    client_key = hmac.digest(salted_password, b"Client Key", digest)
    return ScramCredential(
        salt=salt,
        stored_key=hashlib.new(digest, client_key).digest(),
        server_key=hmac.digest(salted_password, b"Server Key", digest),
        iterations=iterations,
    )


def credential_of_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> ScramCredential:
    salted = salted_password_of(mechanism, password, salt, iterations)
    return credential_of_salted_password(mechanism, salted, salt, iterations)
