"""How the descriptors that the system allows the process are shared out: files, connections, and the rest.

A node that has none left can't open its own logs any more, so a client that opens connections without end must not be
able to take them all. One that is beyond its share is closed again at once.
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
"""Metadata log, locks, checkpoints, threads that flush and compact, and connections just accepted."""


class DescriptorBudget(NamedTuple):
    files_max: int
    connections_max: int


def descriptor_budget(allowed: int, files_wanted: int = -1) -> DescriptorBudget:
    """``files_wanted`` is ``barnabas.max.open.files``; without it half of all are for files, up to a point."""
    files = files_wanted if files_wanted > 0 else max(FILES_MIN, min(allowed // 2, FILES_MAX))
    return DescriptorBudget(files, max(CONNECTIONS_MIN, allowed - files - RESERVED))


def raise_descriptor_limit() -> int:
    """Take as many as the system lets us, as Java does; returns how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**31 - 1 if soft == resource.RLIM_INFINITY else soft
