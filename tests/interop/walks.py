"""How long random walks are and which seeds they have: fixed ones in ``make test``, others in ``make walks``."""

from __future__ import annotations

import os

__all__ = ["walk_seeds", "walk_steps"]


def walk_steps(usual: int) -> int:
    return int(os.environ.get("BARNABAS_WALK_STEPS", usual))


def walk_seeds(*usual: int) -> list[int]:
    given = os.environ.get("BARNABAS_WALK_SEEDS")
    return [int(seed) for seed in given.split(",")] if given else list(usual)
