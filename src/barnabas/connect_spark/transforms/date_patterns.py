"""Convert patterns of Java's SimpleDateFormat, which Connect's settings use, for Spark's date functions.

Both use the same letters for all common parts. A letter with another meaning in Spark, or none, is refused
when the connector is configured.
"""

from __future__ import annotations

import re

from barnabas.common.config_value import ConfigException

__all__ = ["spark_pattern"]

_SAME = "GyMdDaHhKkmsSEzZX"
_UNQUOTED = re.compile(r"'(?:[^']|'')*'")


def spark_pattern(setting: str, pattern: str) -> str:
    """Return Spark's pattern. Raise ConfigException."""
    letters = set(re.findall("[A-Za-z]", _UNQUOTED.sub("", pattern)))
    other = sorted(letters - set(_SAME))
    if other:
        raise ConfigException(
            setting,
            pattern,
            f"Spark's patterns have no {', '.join(other)} with this meaning; use {', '.join(_SAME)}, or text between '",
        )
    return pattern
