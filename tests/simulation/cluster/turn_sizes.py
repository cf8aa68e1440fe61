"""Numbers of the product that are far smaller than in production, because a run is small.

Controllers and listeners do less in one turn: a run has about ten partitions, and with the sizes of production every
decision would fit in one turn. A producer id has fewer epochs in some runs, so that it is used up. Regular expressions
of a group are matched with new topics sooner.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from barnabas.broker import replica_changes, share_persister
from barnabas.controller import decision_queue, decision_steps, partition_walk, quorum_controller
from barnabas.coordinator.group.consumer import group_changes
from barnabas.coordinator.transaction import transaction_coordinator_shard, transaction_end, transaction_metadata
from barnabas.metadata import loader
from barnabas.metadata.image import topics
from barnabas.server.quorum import commit_delivery

if TYPE_CHECKING:
    from tests.simulation.cluster.consumer_group_shape import ConsumerGroupShape
    from tests.simulation.cluster.transaction_shape import TransactionShape

__all__ = ["install_jitter", "install_last_epoch", "install_regex_pause", "install_turn_sizes"]

_SIZES = (1, 1, 2, 3, 200)
_PLACES: tuple[tuple[ModuleType, str], ...] = (
    (partition_walk, "PARTITIONS_A_TURN"),
    (quorum_controller, "RECORDS_A_TICK"),
    (commit_delivery, "RECORDS_A_TURN"),
    (replica_changes, "REPLICAS_A_STEP"),
    (replica_changes, "DELETIONS_A_STEP"),
    (loader, "RECORDS_A_STEP"),
    (topics, "CHANGES_A_STEP"),
    (decision_steps, "UNITS_A_STEP"),
    (decision_steps, "RESOURCES_A_STEP"),
    (decision_steps, "VALUES_A_STEP"),
    (decision_queue, "DECISIONS_A_TICK"),
)


def install_turn_sizes(seed: int) -> Callable[[], None]:
    """Draw the sizes from the seed; return a function that restores those of production."""
    before = [getattr(module, name) for module, name in _PLACES]
    draw = random.Random(f"turns {seed}")
    _install([draw.choice(_SIZES) for _ in _PLACES])
    return lambda: _install(before)


def _install(sizes: Sequence[int]) -> None:
    for (module, name), size in zip(_PLACES, sizes, strict=True):
        setattr(module, name, size)


_KNOW_LAST_EPOCH = (transaction_metadata, transaction_coordinator_shard, transaction_end)


def install_last_epoch(shape: TransactionShape | None) -> Callable[[], None]:
    """Use the last epoch of the run; return a function that restores that of production."""
    before = transaction_metadata.LAST_EPOCH

    def install(last_epoch: int) -> None:
        for module in _KNOW_LAST_EPOCH:
            module.LAST_EPOCH = last_epoch  # type: ignore[attr-defined]

    if shape is not None:
        install(shape.last_epoch)
    return lambda: install(before)


def install_regex_pause(shape: ConsumerGroupShape | None) -> Callable[[], None]:
    """Use the pause of the run; return a function that restores that of production."""
    before = group_changes._REFRESH_PAUSE_MS

    def install(pause_ms: int) -> None:
        group_changes._REFRESH_PAUSE_MS = pause_ms

    if shape is not None:
        install(shape.regex_pause_ms)
    return lambda: install(before)


def install_jitter(seed: int) -> Callable[[], None]:
    """Let the pauses of the persister follow from the seed; return a function that restores those of production."""
    module: Any = share_persister
    before = module.uniform

    def install(uniform: Callable[[float, float], float]) -> None:
        module.uniform = uniform

    install(random.Random(f"persister {seed}").uniform)
    return lambda: install(before)
