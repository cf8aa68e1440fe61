"""The SCRAM mechanisms that Kafka knows, with their numbers in requests and in the metadata log."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["SCRAM_ITERATIONS_MAX", "SCRAM_ITERATIONS_MIN", "ScramMechanism"]

SCRAM_ITERATIONS_MIN = 4096
"""Fewer iterations are refused when a credential is created and when it is used."""
SCRAM_ITERATIONS_MAX = 16384
"""More iterations are refused when a credential is created: each login would cost the client that much."""


class ScramMechanism(IntEnum):
    """``UNKNOWN`` may occur in a request, never in a credential."""

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
        """Return the mechanism of this name; ``UNKNOWN`` for a name that is not a SCRAM mechanism's."""
        return _BY_NAME.get(name, cls.UNKNOWN)

    @classmethod
    def from_code(cls, code: int) -> ScramMechanism:
        """Return the mechanism with this number; ``UNKNOWN`` for any other number."""
        return cls(code) if code in (1, 2) else cls.UNKNOWN


_DIGESTS = {ScramMechanism.SCRAM_SHA_256: "sha256", ScramMechanism.SCRAM_SHA_512: "sha512"}
_BY_NAME = {mechanism.mechanism_name: mechanism for mechanism in _DIGESTS}
