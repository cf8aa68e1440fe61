"""Recordings of real workers 4.3.1 in one group, most of the time two of them, with a delay of 20 s.

``group_protocol``: all distinct metadata and assignments. ``group_requests``: the requests of all group members, frame
by frame. ``group_rounds``: for every rebalance input and decision of its leader, and the configuration at that offset.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["MAX_DELAY_MS", "recorded"]

MAX_DELAY_MS = 20_000
_FOLDER = Path(__file__).parents[4] / "vectors" / "connect"


@cache
def recorded(name: str) -> list[dict[str, Any]]:
    with gzip.open(_FOLDER / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]
