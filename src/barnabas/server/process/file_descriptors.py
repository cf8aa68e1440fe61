"""Divides the descriptors of the process between files, connections, and the rest.

A node without free descriptors can't open its own logs, so a client that opens many connections must not be
able to use them all. A connection beyond its share is closed immediately.
"""

from __future__ import annotations

import resource
from contextlib import suppress
from typing import NamedTuple

__all__ = ["DescriptorBudget", "descriptor_budget", "raise_descriptor_limit"]

FILES_MIN = 64
FILES_MAX = 8192
CONNECTIONS_MIN = 16
RESERVED = 64
"""The rest: metadata log, locks, checkpoints, threads that flush and compact, and connections just accepted."""


class DescriptorBudget(NamedTuple):
    files_max: int
    connections_max: int


def descriptor_budget(allowed: int, files_wanted: int = -1) -> DescriptorBudget:
    """Divide the descriptors. ``files_wanted`` is ``barnabas.max.open.files``; the default is half, up to a limit."""
    files = files_wanted if files_wanted > 0 else max(FILES_MIN, min(allowed // 2, FILES_MAX))
    return DescriptorBudget(files, max(CONNECTIONS_MIN, allowed - files - RESERVED))


def raise_descriptor_limit() -> int:
    """Raise the limit as far as the system allows, as Java does. Return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**31 - 1 if soft == resource.RLIM_INFINITY else soft
