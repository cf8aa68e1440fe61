"""``barnabas transactions list|describe|describe-producers|find-hanging|abort|force-terminate``.

A transaction hangs if it is open in a partition, but its coordinator does not know it. It will never end, and consumers
with isolation.level=read_committed can't read past it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from barnabas.cli.arguments.cluster_app import cluster_app, main_of
from barnabas.cli.arguments.cluster_options import ChangeOptions, ClusterOptions, Long, NodeId, UsageError
from barnabas.cli.output.advice import problems_of
from barnabas.cli.output.answer import Answer, Change, Problem, change_answer
from barnabas.cli.output.moment import moment
from barnabas.cli.output.table import Sheet
from barnabas.cli.transactions.partitions import parse_partition, partitions_of
from barnabas.cli.transactions.search import PRODUCERS, open_transactions, transaction_at, unknown_to_coordinators
from barnabas.cli.transactions.tables import (
    described_document,
    described_sheet,
    hanging_sheet,
    number,
    producer_document,
)
from barnabas.common.error_code import ErrorCode

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient

__all__ = ["app", "main"]

app = cluster_app("transactions", "List and describe transactions, find hanging ones, and end them.")
main = main_of(app)

_DESCRIBE = "DESCRIBE on TransactionalId:{item}"
_MARKERS = "ALTER or CLUSTER_ACTION on Cluster"
_MINUTE_MS = 60_000
_ADVICE = {
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "'barnabas transactions list' shows the transactions that you may see",
    ErrorCode.INVALID_REGULAR_EXPRESSION: (
        "write a regular expression of RE2, which has no look-ahead and no back references: "
        "https://github.com/google/re2/wiki/Syntax"
    ),
    ErrorCode.INVALID_PRODUCER_EPOCH: "the producer has started a new transaction: check again",
}


@app.command(name="list")
def list_(
    *,
    state: list[str] | None = None,
    producer_id: list[Long] | None = None,
    duration_filter: Long | None = None,
    transactional_id_pattern: str | None = None,
    options: ClusterOptions | None = None,
) -> int:
    """List the transactional ids that you may see, with their states.

    For example:

        barnabas transactions list
        barnabas transactions list --state Ongoing --duration-filter 60000
        barnabas transactions list --transactional-id-pattern 'billing-.*' --output json

    Parameters
    ----------
    state
        Only transactions in this state, for example Ongoing or Empty. May be repeated.
    producer_id
        Only transactions of the producer with this id. May be repeated.
    duration_filter
        Only transactions that run longer than this number of milliseconds. Needs Kafka 3.8 or later.
    transactional_id_pattern
        Only ids that match this regular expression as a whole. Needs Kafka 4.1 or later.
    """

    async def work(admin: AdminClient) -> Answer:
        found = await admin.list_transactions(
            states=state or (), producer_ids=producer_id or (), transactional_id_pattern=transactional_id_pattern,
            longer_than_ms=duration_filter,
        )  # fmt: skip
        sheet = Sheet(columns=("transactional id", "coordinator", "producer id", "state"))
        for listing in found.transactions:
            sheet.add(listing.transactional_id, str(listing.coordinator_id), str(listing.producer_id), listing.state)
        document = {
            "transactions": [
                {
                    "transactional_id": listing.transactional_id, "coordinator": listing.coordinator_id,
                    "producer_id": listing.producer_id, "state": listing.state,
                }
                for listing in found.transactions
            ]
        }  # fmt: skip
        notes = [] if found.transactions or found.errors else ["no such transactions exist, or you may not see them"]
        problems = problems_of(found.errors, right="DESCRIBE on the transactional ids", advice=_ADVICE)
        return Answer(document, [sheet] if found.transactions else [], notes, problems)

    return (options or ClusterOptions()).run(work, right="DESCRIBE on the transactional ids")


@app.command
def describe(
    transactional_id: list[str] | None = None,
    *,
    options: ClusterOptions | None = None,
) -> int:
    """Show the state of transactional ids, their start times, and the partitions in the transaction.

    For example:

        barnabas transactions describe billing-1

    Parameters
    ----------
    transactional_id
        The transactional.id of a producer. May be repeated.
    """
    ids = _require_ids(transactional_id)

    async def work(admin: AdminClient) -> Answer:
        from barnabas.protocol.api_keys import ApiKey

        await admin.require_api(ApiKey.DESCRIBE_TRANSACTIONS)
        results = await admin.describe_transactions(ids)
        now_ms = int(time.time() * 1000)
        rows = [results.values[transactional_id] for transactional_id in ids if transactional_id in results.values]
        problems = await _id_problems(admin, results.errors, _DESCRIBE)
        document = {"transactions": [described_document(row, now_ms) for row in rows]}
        return Answer(document, [described_sheet(rows, now_ms)] if rows else [], problems=problems)

    return (options or ClusterOptions()).run(work, right="DESCRIBE on the transactional ids")


@app.command(name="describe-producers")
def describe_producers(
    topic: str,
    *,
    partition: NodeId | None = None,
    broker_id: NodeId | None = None,
    options: ClusterOptions | None = None,
) -> int:
    """Show the producers that a partition knows, and the start offsets of their open transactions.

    For example:

        barnabas transactions describe-producers --topic orders --partition 0
        barnabas transactions describe-producers orders:0 --broker-id 2

    Parameters
    ----------
    topic
        The topic, or its partition as in orders:0.
    partition
        The partition.
    broker_id
        Read the replica on this broker. Default: the leader.
    """
    wanted = parse_partition(topic, partition)

    async def work(admin: AdminClient) -> Answer:
        results = await admin.describe_producers([wanted], broker_id=broker_id)
        sheet = Sheet(
            columns=("producer id", "epoch", "coordinator epoch", "last sequence", "last written", "transaction from")
        )
        producers = results.values.get(wanted, ())
        for producer in producers:
            sheet.add(
                str(producer.producer_id), str(producer.producer_epoch), number(producer.coordinator_epoch),
                str(producer.last_sequence), moment(producer.last_timestamp_ms),
                number(producer.transaction_start_offset),
            )  # fmt: skip
        document = {
            "topic": wanted.topic,
            "partition": wanted.partition,
            "producers": [producer_document(e) for e in producers],
        }
        notes = [] if producers or results.errors else [f"{wanted} does not know any producer"]
        problems = problems_of(results.errors, right=PRODUCERS.replace("{item}", wanted.topic))
        return Answer(document, [sheet] if producers else [], notes, problems)

    return (options or ClusterOptions()).run(work, right=PRODUCERS.replace("{item}", wanted.topic))


@app.command(name="find-hanging")
def find_hanging(
    *,
    broker_id: NodeId | None = None,
    topic: str | None = None,
    partition: NodeId | None = None,
    max_transaction_timeout: int = 15,
    options: ClusterOptions | None = None,
) -> int:
    """Find hanging transactions: those that are open in a partition but unknown to their coordinator.

    For example:

        barnabas transactions find-hanging
        barnabas transactions find-hanging --broker-id 1 --max-transaction-timeout 60
        barnabas transactions find-hanging --topic orders --partition 0

    Parameters
    ----------
    broker_id
        Only partitions that this broker leads.
    topic
        Only partitions of this topic, or one of them as in orders:0.
    partition
        With --topic: only this partition.
    max_transaction_timeout
        Longest duration of a transaction in minutes (transaction.max.timeout.ms of the brokers). Skip shorter ones.
    """
    if partition is not None and topic is None:
        raise UsageError("--partition needs --topic")
    if max_transaction_timeout < 0:
        raise UsageError(f"--max-transaction-timeout {max_transaction_timeout}: the minutes must be at least 0")

    async def work(admin: AdminClient) -> Answer:
        from barnabas.protocol.api_keys import ApiKey

        for api in (ApiKey.DESCRIBE_PRODUCERS, ApiKey.LIST_TRANSACTIONS):
            await admin.require_api(api)
        wanted = await partitions_of(admin, topic, partition, broker_id)
        before_ms = int(time.time() * 1000) - max_transaction_timeout * _MINUTE_MS
        open_ones, problems = await open_transactions(admin, wanted, before_ms)
        hanging = await unknown_to_coordinators(admin, open_ones)
        document = {
            "hanging": [
                {"topic": tp.topic, "partition": tp.partition, **producer_document(producer)}
                for tp, producer in hanging
            ]
        }
        notes = [] if hanging else [f"found no hanging transactions in {len(wanted)} partitions"]
        if hanging:
            notes.append("'barnabas transactions abort --topic ... --partition ... --start-offset ...' ends one")
        return Answer(document, [hanging_sheet(hanging)] if hanging else [], notes, problems)

    return (options or ClusterOptions()).run(work, right="READ on the topics and DESCRIBE on the transactional ids")


@app.command
def abort(
    topic: str,
    *,
    partition: NodeId | None = None,
    start_offset: Long | None = None,
    producer_id: Long | None = None,
    producer_epoch: int | None = None,
    coordinator_epoch: int | None = None,
    options: ChangeOptions | None = None,
) -> int:
    """Abort a hanging transaction in a partition. Its records count as aborted.

    For example:

        barnabas transactions abort --topic orders --partition 0 --start-offset 1234 --dry-run
        barnabas transactions abort orders:0 --producer-id 5 --producer-epoch 0 --coordinator-epoch 3

    Parameters
    ----------
    topic
        The topic, or its partition as in orders:0.
    partition
        The partition.
    start_offset
        The start offset of the transaction, as find-hanging and describe-producers show it.
    producer_id
        Instead of --start-offset, for Kafka before 3.0: the producer's id.
    producer_epoch
        With --producer-id: the producer's epoch.
    coordinator_epoch
        With --producer-id: the epoch of the transaction's coordinator.
    """
    wanted = parse_partition(topic, partition)
    numbers = (producer_id, producer_epoch, coordinator_epoch)
    if (start_offset is None) == (producer_id is None) or (producer_id is not None and None in numbers):
        raise UsageError(
            "no transaction given: use --start-offset, or --producer-id with --producer-epoch and --coordinator-epoch"
        )
    options = options or ChangeOptions()
    dry_run = options.dry_run

    async def work(admin: AdminClient) -> Answer:
        if start_offset is not None:
            found = await transaction_at(admin, wanted, start_offset)
            if isinstance(found, Problem):
                return change_answer([], [found], dry_run=dry_run)
            chosen = (found.producer_id, found.producer_epoch, found.coordinator_epoch)
        else:
            chosen = (producer_id or 0, producer_epoch or 0, coordinator_epoch)
        if not dry_run:
            await admin.abort_transaction(
                wanted, producer_id=chosen[0], producer_epoch=chosen[1],
                coordinator_epoch=-1 if chosen[2] is None else chosen[2],
            )  # fmt: skip
        more = {"topic": wanted.topic, "partition": wanted.partition, "producer_id": chosen[0]}
        change = Change("transaction in", str(wanted), "aborted", f"of producer {chosen[0]}, epoch {chosen[1]}", more)
        return change_answer([change], dry_run=dry_run)

    return options.run(work, right=_MARKERS)


@app.command(name=["force-terminate", "forceTerminateTransaction"])
def force_terminate(
    transactional_id: list[str] | None = None,
    *,
    options: ChangeOptions | None = None,
) -> int:
    """End the transactions of these transactional ids, and fence their producers.

    A producer that starts again with the id can continue.

    For example:

        barnabas transactions force-terminate billing-1 --dry-run

    Parameters
    ----------
    transactional_id
        The transactional.id of a producer. May be repeated.
    """
    ids = _require_ids(transactional_id)
    options = options or ChangeOptions()
    dry_run = options.dry_run

    async def work(admin: AdminClient) -> Answer:
        from barnabas.protocol.api_keys import ApiKey

        await admin.require_api(ApiKey.DESCRIBE_TRANSACTIONS)
        before = await admin.describe_transactions(ids)
        problems = await _id_problems(admin, before.errors, _DESCRIBE)
        there = [transactional_id for transactional_id in ids if transactional_id in before.values]
        if not dry_run and there:
            results = await admin.fence_producers(there)
            problems += problems_of(results.errors, right="WRITE on TransactionalId:{item}")
            there = [transactional_id for transactional_id in there if transactional_id in results.values]
        changes = [
            Change(
                "transactional id", transactional_id, "terminated", f"it was {before.values[transactional_id].state}"
            )
            for transactional_id in there
        ]
        return change_answer(changes, problems, dry_run=dry_run)

    return options.run(work, right="WRITE on the transactional ids")


def _require_ids(ids: Sequence[str] | None) -> list[str]:
    if not ids:
        raise UsageError("no transaction given: pass its transactional id as an argument or with --transactional-id")
    return list(dict.fromkeys(ids))


async def _id_problems(admin: AdminClient, errors: Mapping[str, Any], right: str) -> list[Problem]:
    known = [listing.transactional_id for listing in (await admin.list_transactions()).transactions] if errors else []
    return problems_of(errors, right=right, names=known, advice=_ADVICE)
