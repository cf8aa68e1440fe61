"""The interpreter's switch interval: how long a computing thread delays an event loop, each time."""

from __future__ import annotations

import sys
from typing import Final

__all__ = ["shorten_switch_interval"]

_SWITCH_INTERVAL_S: Final = 0.0005
"""Python's own is ten times that: a request waited 5 ms whenever a batch was checked or a large body was parsed."""


def shorten_switch_interval() -> None:
    """Set the switch interval of a process whose loop answers requests while its threads compute."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
