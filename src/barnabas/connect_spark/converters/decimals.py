"""Connect's Decimal: the unscaled value as big-endian two's complement bytes, in expressions of Spark.

Spark's decimals have at most 38 digits, which fit into 16 bytes. ``conv`` reads and writes the two halves as 64-bit
numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DecimalType

__all__ = ["bytes_of_decimal", "decimal_of_bytes", "with_name"]

_TWO_TO_64 = "18446744073709551616"
_HALF = 16
_DIGITS = 32


def with_name(column: Column, expression: Callable[[Column], Column]) -> Column:
    """Return an expression that uses another one many times, with only one copy of it in the plan."""
    return F.get(F.transform(F.array(column), expression), F.lit(0))


def decimal_of_bytes(content: Column, kind: DecimalType) -> Column:
    """Return the number; null where it doesn't fit into the type."""
    return with_name(F.hex(content), lambda digits: _decimal_of_digits(digits, kind))


def _decimal_of_digits(digits: Column, kind: DecimalType) -> Column:
    negative = F.substring(digits, 1, 1) >= "8"
    sign = F.when(negative, F.lit("F")).otherwise(F.lit("0"))
    padded = F.right(F.concat(F.repeat(sign, F.lit(_DIGITS)), digits), F.lit(_DIGITS))
    # A longer number is valid only if all removed bytes repeat the sign.
    cut = F.left(digits, F.greatest(F.length(digits) - _DIGITS, F.lit(0)))
    repeats = (F.translate(cut, "F", "") == "") & negative | (F.translate(cut, "0", "") == "") & ~negative
    same_sign = (F.substring(padded, 1, 1) >= "8") == negative
    high = F.conv(F.left(padded, F.lit(_HALF)), 16, -10).cast("decimal(20,0)")
    low = F.conv(F.right(padded, F.lit(_HALF)), 16, 10).cast("decimal(20,0)")
    unscaled = F.try_add(F.try_multiply(high, F.lit(_TWO_TO_64).cast("decimal(20,0)")), low)
    scaled = F.concat(unscaled.try_cast("decimal(38,0)").cast("string"), F.lit(f"E-{kind.scale}")).try_cast(kind)
    return F.when((F.length(digits) > 0) & repeats & same_sign, scaled)


def bytes_of_decimal(number: Column, kind: DecimalType) -> Column:
    """Return the fewest bytes, as Java's BigInteger does."""
    # A session setting decides whether Spark writes an exponent. Without the exponent and the point, the digits are the
    # unscaled value either way.
    digits = F.regexp_replace(F.regexp_replace(number.cast(kind).cast("string"), "E.*$", ""), "[.]", "")
    return with_name(digits.cast("decimal(38,0)"), _bytes_of_unscaled)


def _bytes_of_unscaled(unscaled: Column) -> Column:
    modulus = F.lit(_TWO_TO_64).cast("decimal(20,0)")
    low = F.pmod(unscaled, modulus).cast("decimal(20,0)")
    low_digits = F.lpad(F.conv(low.cast("string"), 10, 16), _HALF, "0")
    high = F.call_function("div", unscaled - low, modulus)
    high_digits = F.lpad(F.hex(high), _HALF, "0")
    whole = F.concat(high_digits, low_digits)
    shortest = F.regexp_replace(whole, "^(?:(?:00)+(?=[0-7].)|(?:FF)+(?=[89A-F].))", "")
    return F.unhex(shortest)
