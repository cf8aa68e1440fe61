"""Limits of a decoder for one message, besides its number of bytes.

A few bytes can decode to an object of some hundred bytes: an element of an array, or a tagged field. The count of both
is checked before the first of them is read.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["UNLIMITED", "DecodeLimits"]


class DecodeLimits(NamedTuple):
    """``elements`` is for a message in total, tagged fields included; ``tagged_fields`` for each structure."""

    elements: int
    tagged_fields: int


UNLIMITED = DecodeLimits(elements=2**62, tagged_fields=2**31)
"""Limits for data written by this process or by a trusted server."""
