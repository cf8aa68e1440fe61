"""The pattern of ListTransactions 2: a regular expression of RE2, which an id matches as a whole.

Kafka uses RE2/J. Where RE2 accepts more, RE2/J's answer applies: it refuses ``\\C`` (any byte) and two groups of one
name. RE2's own limit of repetitions stays: 1000 in all, for nested ones too.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import re2

from barnabas.common.errors import ApiException, ErrorCode

__all__ = ["compile_pattern"]

_MEMORY_BYTES = 256 * 1024
"""The maximum of a compiled pattern: it limits how long a match takes."""

_TOKEN = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]|\(\?P?<(?P<group>\w+)>|.", re.DOTALL)


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """Return whether a text matches as a whole. Raise ApiException with INVALID_REGULAR_EXPRESSION."""
    if _is_refused(pattern):
        raise ApiException(ErrorCode.INVALID_REGULAR_EXPRESSION)
    options = re2.Options()
    options.max_mem = _MEMORY_BYTES
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        raise ApiException(ErrorCode.INVALID_REGULAR_EXPRESSION) from error
    return lambda text: compiled.fullmatch(text) is not None


def _is_refused(pattern: str) -> bool:
    """Return whether RE2/J refuses what RE2 accepts."""
    groups: set[str] = set()
    for token in _TOKEN.finditer(pattern):
        group = token["group"]
        if token[0] == r"\C" or group in groups:
            return True
        if group:
            groups.add(group)
    return False
