"""How much the controllers and listeners of a run do in one turn: mostly far less than in production.

A run has some ten partitions. With the sizes of production no decision would ever need a second turn.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from barnabas.controller import partition_walk, quorum_controller

__all__ = ["install_turn_sizes"]

_SIZES = (1, 1, 2, 3, 250)


def install_turn_sizes(seed: int) -> Callable[[], None]:
    """Draw them from the seed; returns what restores those of production."""
    before = partition_walk.PARTITIONS_A_TURN, quorum_controller.RECORDS_A_TICK
    size = random.Random(f"turns {seed}").choice(_SIZES)
    _install(size, min(size, before[1]))
    return lambda: _install(*before)


def _install(partitions_a_turn: int, records_a_tick: int) -> None:
    partition_walk.PARTITIONS_A_TURN = partitions_a_turn  # type: ignore[misc]
    quorum_controller.RECORDS_A_TICK = records_a_tick  # type: ignore[misc]
