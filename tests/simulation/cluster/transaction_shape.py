"""The transactional clients of a run, and the settings of its transactions, drawn from the seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import NamedTuple

from barnabas.coordinator.transaction.transaction_coordinator_config import TransactionCoordinatorConfig
from tests.simulation.cluster.failed_seeds import failed_before

__all__ = ["TRANSACTIONS_TOPIC", "TransactionShape", "TransactionalClient", "draw_transactions"]

TRANSACTIONS_TOPIC = "__transaction_state"
SHARE = 0.12
"""The share of runs with transactions."""


class TransactionalClient(NamedTuple):
    transactional_id: str
    is_v2: bool
    """Whether its software leaves it to brokers to add partitions, and takes a new epoch with each transaction."""
    copies: bool
    """Whether it commits offsets of a group with its records: it consumes, processes and produces."""
    is_zombie: bool
    """Whether it is the second process with this id: an operator has started both."""

    @property
    def group(self) -> str:
        """The group whose offsets it commits."""
        return f"copies-of-{self.transactional_id}"


@dataclass(frozen=True, slots=True)
class TransactionShape:
    clients: tuple[TransactionalClient, ...]
    version: int
    """The cluster's transaction.version."""
    timeout_ms: int
    partitions: int
    """Of ``__transaction_state``."""
    flushes: bool
    """Whether each append is flushed, so that power failures lose no records."""
    last_epoch: int
    """The last epoch of a producer id: small in some runs, so that ids are used up."""
    expires_ids: bool
    """Whether unused transactional ids are removed after some seconds."""

    @property
    def copies(self) -> list[TransactionalClient]:
        return [client for client in self.clients if client.copies and not client.is_zombie]

    @property
    def coordinator_config(self) -> TransactionCoordinatorConfig:
        return TransactionCoordinatorConfig(
            transactional_id_expiration_ms=2500 if self.expires_ids else 604_800_000,
            transaction_abort_timed_out_transaction_cleanup_interval_ms=500,
            transaction_remove_expired_transaction_cleanup_interval_ms=700,
            transaction_state_log_num_partitions=self.partitions,
        )


def draw_transactions(draw: random.Random, seed: int, versions: tuple[int, ...]) -> TransactionShape | None:
    """Return None for a run without transactions. ``versions``: the levels of transaction.version to draw from."""
    if draw.random() >= SHARE or seed in failed_before("with transactions"):
        return None
    clients: list[TransactionalClient] = []
    for number in range(draw.randrange(1, 4)):
        first = TransactionalClient(f"id-{number}", draw.random() < 0.6, draw.random() < 0.5, False)
        clients.append(first)
        if draw.random() < 0.5:
            clients.append(first._replace(is_v2=draw.random() < 0.6, is_zombie=True))
    return TransactionShape(
        tuple(clients),
        version=draw.choice(versions),
        timeout_ms=draw.choice((300, 600, 1500, 4000)),
        partitions=draw.randrange(1, 3),
        flushes=draw.random() < 0.5,
        last_epoch=draw.choice((3, 8, 2**15 - 2, 2**15 - 2)),
        expires_ids=draw.random() < 0.3,
    )
