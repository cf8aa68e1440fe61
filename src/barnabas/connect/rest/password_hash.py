"""Passwords of the users file, stored as scrypt hashes: ``scrypt$131072$8$1$<salt>$<hash>``, both in base64.

The three numbers are scrypt's cost, block size and parallelism. Each hash names its own, so older hashes stay valid.
A new hash takes 128 MiB and some tenths of a second: the first choice of OWASP's Password Storage Cheat Sheet.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from dataclasses import dataclass

from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

__all__ = ["PasswordHash", "UnusableHash", "hash_password"]

_COST, _BLOCK, _PARALLEL = 2**17, 8, 1
_HASH_BYTES, _SALT_BYTES_MIN = 32, 16
_MEMORY_MAX = 256 * 1024 * 1024
_FORM = "scrypt$<cost>$<block size>$<parallelism>$<salt in base64>$<hash in base64>"


class UnusableHash(ValueError):
    """An invalid hash. The text says why."""


@dataclass(frozen=True, slots=True)
class PasswordHash:
    cost: int
    block: int
    parallel: int
    salt: bytes
    digest: bytes

    @classmethod
    def parse(cls, text: str) -> PasswordHash:
        """Parse a hash. Raise UnusableHash."""
        parts = text.split("$")
        try:
            if parts[0] != "scrypt" or len(parts) != 6:
                raise ValueError
            cost, block, parallel = (int(part) for part in parts[1:4])
            salt, digest = (base64.b64decode(part, validate=True) for part in parts[4:])
        except (ValueError, binascii.Error):
            raise UnusableHash(f"is not of the form {_FORM}") from None
        if (
            cost < 2**10
            or cost & (cost - 1)
            or block < 1
            or parallel < 1
            or 128 * cost * block * parallel > _MEMORY_MAX
        ):
            raise UnusableHash("has an unsupported cost; use 131072, 8 and 1")
        if len(salt) < _SALT_BYTES_MIN or len(digest) < _HASH_BYTES:
            raise UnusableHash(f"has less than {_SALT_BYTES_MIN} bytes of salt or {_HASH_BYTES} of hash")
        return cls(cost, block, parallel, salt, digest)

    def matches(self, password: str) -> bool:
        """Check a password. Takes some tenths of a second and 128 MiB on purpose: check one password at a time."""
        return hmac.compare_digest(self._derive(password), self.digest)

    def _derive(self, password: str) -> bytes:
        return Scrypt(self.salt, len(self.digest), self.cost, self.block, self.parallel).derive(password.encode())

    def __str__(self) -> str:
        salt, digest = (base64.b64encode(data).decode("ascii") for data in (self.salt, self.digest))
        return f"scrypt${self.cost}${self.block}${self.parallel}${salt}${digest}"


def hash_password(password: str, salt: bytes) -> PasswordHash:
    empty = PasswordHash(_COST, _BLOCK, _PARALLEL, salt, bytes(_HASH_BYTES))
    return PasswordHash(_COST, _BLOCK, _PARALLEL, salt, empty._derive(password))
