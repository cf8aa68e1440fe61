"""The SCRAM mechanisms that Kafka knows, with their numbers in requests and in the metadata log."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["SCRAM_ITERATIONS_MAX", "SCRAM_ITERATIONS_MIN", "ScramMechanism"]

SCRAM_ITERATIONS_MIN = 4096
"""Fewer are refused where a credential is made and where one is used."""
SCRAM_ITERATIONS_MAX = 16384
"""More are refused where a credential is made: each login would cost the client that much."""


class ScramMechanism(IntEnum):
    """``UNKNOWN`` is what a request may carry and no credential has."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def mechanism_name(self) -> str:
        """The mechanism's name in SASL: ``SCRAM-SHA-256``."""
        return self.name.replace("_", "-")

    @property
    def digest(self) -> str:
        """The hash function's name in ``hashlib``."""
        return _DIGESTS[self]

    @classmethod
    def from_name(cls, name: str) -> ScramMechanism:
        """``UNKNOWN`` for a name that is not one of a SCRAM mechanism."""
        return _BY_NAME.get(name, cls.UNKNOWN)

    @classmethod
    def from_code(cls, code: int) -> ScramMechanism:
        """``UNKNOWN`` for any other number."""
        return cls(code) if code in (1, 2) else cls.UNKNOWN


_DIGESTS = {ScramMechanism.SCRAM_SHA_256: "sha256", ScramMechanism.SCRAM_SHA_512: "sha512"}
_BY_NAME = {mechanism.mechanism_name: mechanism for mechanism in _DIGESTS}
