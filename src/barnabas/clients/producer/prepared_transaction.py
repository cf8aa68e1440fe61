"""A transaction whose records are written, and that any process may end: by its id, its producer id and its epoch.

Workers write records, and return what ``TransactionalProducer.prepare`` returns. Their driver decides about all of them
at once, and may repeat its decision after a restart, as long as no producer of a transactional id has started since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.clients.admin.retry import Deadline
from barnabas.clients.producer.batch import ProducerId
from barnabas.clients.producer.transaction_requests import TransactionRequests

if TYPE_CHECKING:
    from barnabas.clients.network_client import NetworkClient

__all__ = ["PreparedTransaction", "end_prepared_transaction"]


class PreparedTransaction(NamedTuple):
    """The fields are text and numbers, so that they can be stored and sent."""

    transactional_id: str
    producer_id: int
    epoch: int


async def end_prepared_transaction(
    network: NetworkClient, prepared: PreparedTransaction, *, is_commit: bool, timeout_s: float | None = None
) -> None:
    """Commit the transaction, or abort it. The same call may be repeated until the next transaction of the id begins.

    ``timeout_s`` is ``default.api.timeout.ms`` by default; TransactionTimedOut says that the outcome is unknown. Raise
    ProducerFenced if the transaction was aborted since, because its time was over or another producer of the id has
    started. Raise FatalTransactionError if it has ended with the other outcome, or was never begun.
    """
    limit_s = float(network.config.values["default.api.timeout.ms"]) / 1000 if timeout_s is None else timeout_s
    deadline = Deadline(limit_s)
    requests = TransactionRequests(network, prepared.transactional_id)
    try:
        await requests.connect(deadline)
        producer = ProducerId(prepared.producer_id, prepared.epoch)
        await requests.end(producer, deadline, is_commit=is_commit, is_version_2=requests.is_version_2)
    finally:
        await requests.close()
