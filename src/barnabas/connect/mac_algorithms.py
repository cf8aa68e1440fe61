"""The algorithms that may sign internal requests and generate session keys, by their names in Java 17.

Names are case-insensitive, as in Java. Algorithms that Java has and no worker can use are refused with a reason: MACs
that derive a key from a password, those of SSL 3, and generators that exist for TLS only. A generated key is as long as
one of Java's generators, because a leader replaces a key whose length differs from that of its own keys.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass

__all__ = [
    "KEY_GENERATORS",
    "MACS",
    "KeyGenerator",
    "Mac",
    "UnsupportedAlgorithm",
    "UnusableKeySize",
    "key_generator",
    "key_size",
    "mac",
]

_DIGESTS = {
    "HmacMD5": "md5",
    "HmacSHA1": "sha1",
    "HmacSHA224": "sha224",
    "HmacSHA256": "sha256",
    "HmacSHA384": "sha384",
    "HmacSHA512": "sha512",
    "HmacSHA512/224": "sha512_224",
    "HmacSHA512/256": "sha512_256",
    "HmacSHA3-224": "sha3_224",
    "HmacSHA3-256": "sha3_256",
    "HmacSHA3-384": "sha3_384",
    "HmacSHA3-512": "sha3_512",
}

_PASSWORD = "it derives its key from a password, which a session key is not"
_UNUSABLE_MACS = {
    "PBEWith": _PASSWORD,
    "HmacPBE": _PASSWORD,
    "SslMac": "it is the one of SSL 3, which is broken",
}


class UnsupportedAlgorithm(ValueError):
    """The text has the reason and the alternatives; it follows "Invalid value X for configuration Y: "."""


class UnusableKeySize(ValueError):
    """The generator does not support keys of this size. The text is Java's."""


@dataclass(frozen=True, slots=True)
class Mac:
    """``name`` is Java's spelling."""

    name: str
    digest: str

    def sign(self, key: bytes, body: bytes) -> bytes:
        return hmac.digest(key, body, self.digest)

    def is_valid(self, key: bytes, body: bytes, signature: bytes) -> bool:
        """Check a signature in constant time."""
        return hmac.compare_digest(self.sign(key, body), signature)


@dataclass(frozen=True, slots=True)
class KeyGenerator:
    """``name`` is Java's spelling, which is written into the record of a session key."""

    name: str
    default_size: int
    """The size in bytes."""
    _size_of: Callable[[int], int]

    def size(self, bits: int | None) -> int:
        """Return the bytes of a key for ``inter.worker.key.size`` in bits. Raise UnusableKeySize."""
        return self.default_size if bits is None else self._size_of(bits)


def _at_least(least: int) -> Callable[[int], int]:
    def size(bits: int) -> int:
        if bits < least:
            raise UnusableKeySize(f"Key length must be at least {least} bit{'s' if least > 1 else ''}")
        return (bits + 7) // 8

    return size


def _between(name: str, least: int, most: int) -> Callable[[int], int]:
    def size(bits: int) -> int:
        if not least <= bits <= most:
            raise UnusableKeySize(f"Key length for {name} must be between {least} and {most} bits")
        return (bits + 7) // 8

    return size


def _one_of(sizes: dict[int, int]) -> Callable[[int], int]:
    names = [str(bits) for bits in sizes]
    allowed = " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)

    def size(bits: int) -> int:
        if bits not in sizes:
            raise UnusableKeySize(f"Wrong keysize: must be equal to {allowed}")
        return sizes[bits]

    return size


def _blowfish(bits: int) -> int:
    if bits % 8 or not 32 <= bits <= 448:
        raise UnusableKeySize("Keysize must be multiple of 8, and can only range from 32 to 448 (inclusive)")
    return bits // 8


def _chacha20(bits: int) -> int:
    if bits != 256:
        raise UnusableKeySize("Key length for ChaCha20 must be 256 bits")
    return 32


MACS = {name: Mac(name, digest) for name, digest in _DIGESTS.items()}

KEY_GENERATORS = {
    algorithm.name: algorithm
    for algorithm in (
        KeyGenerator("AES", 16, _one_of({128: 16, 192: 24, 256: 32})),
        KeyGenerator("ARCFOUR", 16, _between("ARCFOUR", 40, 1024)),
        KeyGenerator("Blowfish", 16, _blowfish),
        KeyGenerator("ChaCha20", 32, _chacha20),
        KeyGenerator("DES", 8, _one_of({56: 8})),
        KeyGenerator("DESede", 24, _one_of({112: 24, 168: 24})),
        KeyGenerator("HmacMD5", 64, _at_least(1)),
        KeyGenerator("HmacSHA1", 64, _at_least(1)),
        KeyGenerator("HmacSHA224", 28, _at_least(40)),
        KeyGenerator("HmacSHA256", 32, _at_least(40)),
        KeyGenerator("HmacSHA384", 48, _at_least(40)),
        KeyGenerator("HmacSHA512", 64, _at_least(40)),
        KeyGenerator("HmacSHA512/224", 28, _at_least(40)),
        KeyGenerator("HmacSHA512/256", 32, _at_least(40)),
        KeyGenerator("HmacSHA3-224", 28, _at_least(40)),
        KeyGenerator("HmacSHA3-256", 32, _at_least(40)),
        KeyGenerator("HmacSHA3-384", 48, _at_least(40)),
        KeyGenerator("HmacSHA3-512", 64, _at_least(40)),
        KeyGenerator("RC2", 16, _between("RC2", 40, 1024)),
    )
}

_ALIASES = {"rc4": "ARCFOUR", "tripledes": "DESede"}
_MACS_BY_LOWER = {name.lower(): algorithm for name, algorithm in MACS.items()}
_GENERATORS_BY_LOWER = {name.lower(): generator for name, generator in KEY_GENERATORS.items()} | {
    alias: KEY_GENERATORS[name] for alias, name in _ALIASES.items()
}


def mac(name: str) -> Mac:
    """Return the MAC. Raise UnsupportedAlgorithm."""
    found = _MACS_BY_LOWER.get(name.lower())
    if found is not None:
        return found
    for prefix, reason in _UNUSABLE_MACS.items():
        if name.lower().startswith(prefix.lower()):
            raise UnsupportedAlgorithm(f"this algorithm can't sign requests, because {reason}; {_supported(MACS)}")
    raise UnsupportedAlgorithm(f"the algorithm is not supported; {_supported(MACS)}")


def key_generator(name: str) -> KeyGenerator:
    """Return the generator. Raise UnsupportedAlgorithm."""
    found = _GENERATORS_BY_LOWER.get(name.lower())
    if found is not None:
        return found
    if name.lower().startswith("suntls"):
        raise UnsupportedAlgorithm(f"this generator creates only keys of a TLS session; {_supported(KEY_GENERATORS)}")
    raise UnsupportedAlgorithm(f"the algorithm is not supported; {_supported(KEY_GENERATORS)}")


def key_size(algorithm: str, bits: int | None) -> int:
    """Return the bytes of a session key. Raise UnsupportedAlgorithm, or UnusableKeySize with the text of Kafka."""
    generator = key_generator(algorithm)
    try:
        return generator.size(bits)
    except UnusableKeySize as error:
        raise UnusableKeySize(
            f"Unable to create key generator with algorithm {algorithm} and key size {bits}: {error}"
        ) from error


def _supported(table: dict[str, Mac] | dict[str, KeyGenerator]) -> str:
    return f"the supported algorithms are: [{', '.join(sorted(table))}]"
