"""Small sets of numbers as the bits of a 32-bit field, as answers carry authorized operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["bits_of", "to_bit_field"]


def to_bit_field(numbers: Iterable[int]) -> int:
    """Return the field with the bit of each number set, as a signed 32-bit value."""
    field = 0
    for number in numbers:
        if not 0 <= number <= 31:
            raise ValueError(f"a 32-bit field has the bits 0 to 31, not {number}")
        field |= 1 << number
    return field - 0x100000000 if field & 0x80000000 else field


def bits_of(field: int) -> frozenset[int]:
    """Return the numbers whose bits are set."""
    return frozenset(number for number in range(32) if field >> number & 1)
