"""``barnabas bench produce|consume|end-to-end|admin|connections|api-versions``: measure a cluster over the wire."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Literal

from barnabas.cli.arguments.cluster_app import cluster_app, main_of
from barnabas.cli.arguments.cluster_options import Flag, UsageError
from barnabas.cli.bench.advice import READER_ADVICE
from barnabas.cli.bench.checks import at_least, check_record_size, check_throughput
from barnabas.cli.bench.options import BenchOptions, RecordOptions, put, usage_error
from barnabas.cli.bench.topic import NewTopicOptions, check_topic

if TYPE_CHECKING:
    from barnabas.cli.output.answer import Answer
    from barnabas.clients.client_config import ClientConfig

__all__ = ["app", "main"]

app = cluster_app(
    "bench",
    "Measure any Kafka cluster over the network: throughput of records, and latency of requests.\n\n"
    "Ctrl-C ends a measurement and prints the results so far, with exit status 130. "
    "MB are 1024 * 1024 bytes, as in Kafka's own tools.",
)
main = main_of(app)

_TRANSACTION_MS = 3000
"""As in kafka-producer-perf-test."""


@app.command
def produce(
    *,
    topic: str,
    num_records: int,
    record_size: int | None = None,
    throughput: float = -1,
    payload_file: str | None = None,
    payload_delimiter: str = "\\n",
    warmup_records: int = 0,
    acks: Literal["all", "-1", "0", "1"] | None = None,
    batch_size: int | None = None,
    linger_ms: int | None = None,
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"] | None = None,
    transactional_id: str | None = None,
    transaction_duration_ms: int | None = None,
    transaction_size: int | None = None,
    dry_run: Flag = False,
    new_topic: NewTopicOptions | None = None,
    options: RecordOptions | None = None,
) -> int:
    """Write records to a topic, and measure throughput and the latency of acknowledgements.

    The command works like kafka-producer-perf-test. Latency counts from the time at which a record is due, so a stall
    of the cluster increases the latency of all records of that time. Without --throughput, a record is due when the
    producer's buffer (buffer.memory) accepts it. With --transactional-id, records are written in transactions, and the
    latency is that of commits: from the request to commit, with unsent records, to its answer.

    For example:

        barnabas bench produce --topic load --num-records 1000000 --record-size 1000
        barnabas bench produce --topic load --num-records 60000 --throughput 1000 --acks 1 --output json
        barnabas bench produce --topic load --num-records 1000 --create-topic --partitions 3
        barnabas bench produce --topic load --num-records 1000 --command-property linger.ms=0 enable.idempotence=false
        barnabas bench produce --topic load --num-records 100000 --transactional-id load --transaction-size 100

    Parameters
    ----------
    topic
        The topic to write to.
    num_records
        Number of records.
    record_size
        Size of each record's value in bytes, random letters. Default without --payload-file: 1000.
    throughput
        Records per second; -1 for as fast as the cluster accepts them.
    payload_file
        A file of values. Each record has a randomly chosen value of the file.
    payload_delimiter
        The separator between the values of the file.
    warmup_records
        Number of records that are written before the measurement begins. They are not counted.
    acks
        Which replicas must acknowledge a record: all in sync, the leader (1), none (0).
    batch_size
        Largest size of a batch in bytes (batch.size).
    linger_ms
        How long a batch waits for more records (linger.ms).
    compression_type
        Compression of batches.
    transactional_id
        Write the records in transactions of this id.
    transaction_duration_ms
        Commit a transaction after this number of milliseconds. Default without --transaction-size: 3000.
    transaction_size
        Commit a transaction after this number of records.
    dry_run
        Check that the topic can be written to, and show the load without writing.
    """
    options, new_topic = options or RecordOptions(), new_topic or NewTopicOptions()
    check_topic(topic)
    new_topic.check()
    at_least(1, num_records=num_records)
    at_least(0, warmup_records=warmup_records, record_size=record_size or 0)
    check_throughput(throughput, "as fast as the cluster accepts them")
    if payload_file is not None and record_size is not None:
        raise UsageError("--payload-file and --record-size can't be used together: the file determines the record size")
    from barnabas.cli.bench.payloads import RandomPayloads, read_payloads
    from barnabas.clients.errors import InvalidClientConfig
    from barnabas.clients.producer.config import PRODUCER_PROPERTIES, producer_config

    own = {
        "acks": acks,
        "batch.size": put(batch_size),
        "linger.ms": put(linger_ms),
        "compression.type": compression_type,
        "transactional.id": transactional_id,
    }
    at_least(1, transaction_duration_ms=transaction_duration_ms or 1, transaction_size=transaction_size or 1)
    try:
        properties = options.properties(own, PRODUCER_PROPERTIES)
        settings = producer_config(properties, source=options.source, is_transactional=True)
    except InvalidClientConfig as error:
        raise usage_error(error) from error
    if settings.transactional_id is None and (transaction_duration_ms or transaction_size):
        raise UsageError("--transaction-duration-ms and --transaction-size need --transactional-id")
    payloads = (
        read_payloads(payload_file, payload_delimiter)
        if payload_file is not None
        else RandomPayloads(1000 if record_size is None else record_size)
    )
    check_record_size(payloads.largest, settings.max_request_size)

    async def work(config: ClientConfig, stop: asyncio.Event) -> Answer:
        from barnabas.cli.bench.produce import ProduceLoad, measure_produce, produce_dry_run

        load = ProduceLoad(
            topic, num_records + warmup_records, payloads, None if throughput < 0 else throughput, warmup_records
        )
        notes = await new_topic.made(config, topic, dry_run=dry_run)
        if dry_run:
            rate = "as fast as the cluster accepts them" if load.rate is None else f"{load.rate:g} a second"
            answer = await produce_dry_run(config, topic, load.count, rate, is_new=bool(notes))
        elif settings.transactional_id is None:
            answer = await measure_produce(config, settings, load, stop)
        else:
            from barnabas.cli.bench.transactions import TransactionLoad, measure_transactions

            duration_ms = transaction_duration_ms or (_TRANSACTION_MS if transaction_size is None else None)
            transactions = TransactionLoad(load, transaction_size, None if duration_ms is None else duration_ms / 1000)
            answer = await measure_transactions(config, settings, transactions, stop)
        answer.notes = [*notes, *answer.notes]
        return answer

    return options.measure(work, right=f"WRITE on Topic:{topic}")


@app.command
def consume(
    *,
    topic: str,
    num_records: int | None = None,
    from_latest: Flag = False,
    fetch_size: int | None = None,
    fetch_max_bytes: int | None = None,
    fetch_max_wait_ms: int | None = None,
    timeout_ms: int = 10_000,
    group: str | None = None,
    group_protocol: Literal["classic", "consumer"] | None = None,
    options: RecordOptions | None = None,
) -> int:
    """Read records of all partitions of a topic, from the beginning, and measure throughput.

    The command works like kafka-consumer-perf-test, but without a group unless --group names one. MB include keys and
    values. Latencies are those of fetch requests that returned records. With a group, the time until it has assigned
    partitions is measured, too; reading begins at its committed offsets, and what was read is committed.

    For example:

        barnabas bench consume --topic load
        barnabas bench consume --topic load --num-records 1000000 --output json
        barnabas bench consume --topic load --num-records 5000 --from-latest --timeout-ms 60000
        barnabas bench consume --topic load --command-property isolation.level=read_committed
        barnabas bench consume --topic load --group readers --group-protocol consumer

    Parameters
    ----------
    topic
        The topic to read.
    num_records
        Number of records. All records of the last response are counted. Default: all existing records.
    from_latest
        Only records written from now on.
    fetch_size
        Bytes per partition in a response (max.partition.fetch.bytes).
    fetch_max_bytes
        Bytes per response (fetch.max.bytes).
    fetch_max_wait_ms
        How long a broker waits for records (fetch.max.wait.ms).
    timeout_ms
        Longest wait for the next record. After it the run ends, with exit status 1 if records are missing.
    group
        Read as a member of this consumer group, which several commands may share.
    group_protocol
        The protocol of the group: classic or consumer. Default: that of the group's members; else consumer.
    """
    options = options or RecordOptions()
    check_topic(topic)
    if group_protocol is not None and group is None:
        raise UsageError("--group-protocol needs --group")
    at_least(1, num_records=1 if num_records is None else num_records, timeout_ms=timeout_ms)
    if from_latest and num_records is None:
        raise UsageError("--from-latest needs --num-records: producers may write new records forever")
    from barnabas.clients.consumer.config import CONSUMER_PROPERTIES, consumer_config, group_config
    from barnabas.clients.errors import InvalidClientConfig

    own = {
        "group.protocol": group_protocol,
        "max.partition.fetch.bytes": put(fetch_size),
        "fetch.max.bytes": put(fetch_max_bytes),
        "fetch.max.wait.ms": put(fetch_max_wait_ms),
    }
    try:
        properties = options.properties(own, CONSUMER_PROPERTIES)
        settings = consumer_config(properties, source=options.source)
        member = group_config(properties, source=options.source)
    except InvalidClientConfig as error:
        raise usage_error(error) from error

    async def work(config: ClientConfig, stop: asyncio.Event) -> Answer:
        from barnabas.cli.bench.consume import ConsumeLoad, measure_consume

        load = ConsumeLoad(topic, num_records, from_latest, timeout_ms / 1000, group, member)
        return await measure_consume(config, settings, load, stop)

    return options.measure(work, right=f"READ on Topic:{topic}", advice=READER_ADVICE)


@app.command
def end_to_end(
    *,
    topic: str,
    num_records: int = 1000,
    record_size: int = 100,
    throughput: float = -1,
    acks: Literal["all", "-1", "0", "1"] | None = None,
    warmup_records: int = 10,
    timeout_ms: int = 10_000,
    dry_run: Flag = False,
    new_topic: NewTopicOptions | None = None,
    options: RecordOptions | None = None,
) -> int:
    """Write records, read them back, and measure the latency of each.

    Each record is sent after the previous one has arrived, as in Kafka's EndToEndLatency. With --throughput, records
    are sent at that rate instead. Other clients may use the topic at the same time.

    For example:

        barnabas bench end-to-end --topic load --num-records 1000
        barnabas bench end-to-end --topic load --num-records 5000 --throughput 500 --acks 1
        barnabas bench end-to-end --topic trips --create-topic --partitions 1 --output yaml

    Parameters
    ----------
    topic
        The topic to write to and to read.
    num_records
        Number of records.
    record_size
        Size of each record's value in bytes, at least 16.
    throughput
        Records per second; -1 for one after the other.
    acks
        Which replicas must acknowledge a record: all in sync, the leader (1), none (0).
    warmup_records
        Number of records that are sent before the measurement begins. They are not counted.
    timeout_ms
        Longest wait for a record. After it the run ends, with exit status 1.
    dry_run
        Check that the topic exists, and show the load without writing.
    """
    options, new_topic = options or RecordOptions(), new_topic or NewTopicOptions()
    check_topic(topic)
    new_topic.check()
    at_least(1, num_records=num_records, timeout_ms=timeout_ms)
    at_least(0, warmup_records=warmup_records)
    at_least(16, record_size=record_size)
    check_throughput(throughput, "one after the other")
    from barnabas.clients.consumer.config import CONSUMER_PROPERTIES, consumer_config
    from barnabas.clients.errors import InvalidClientConfig
    from barnabas.clients.producer.config import PRODUCER_PROPERTIES, producer_config

    try:
        properties = options.properties({"acks": acks}, PRODUCER_PROPERTIES | CONSUMER_PROPERTIES)
        produced = producer_config({"linger.ms": "0"} | properties, source=options.source)
        consumed = consumer_config(properties, source=options.source)
    except InvalidClientConfig as error:
        raise usage_error(error) from error
    rate = None if throughput < 0 else throughput
    check_record_size(record_size, produced.max_request_size)

    async def work(config: ClientConfig, stop: asyncio.Event) -> Answer:
        from barnabas.cli.bench.end_to_end import EndToEndLoad, measure_end_to_end

        load = EndToEndLoad(topic, num_records, record_size, rate, warmup_records, timeout_ms / 1000)
        notes = await new_topic.made(config, topic, dry_run=dry_run)
        if dry_run:
            from barnabas.cli.bench.produce import produce_dry_run

            total = num_records + warmup_records
            answer = await produce_dry_run(config, topic, total, "and read back", is_new=bool(notes))
        else:
            answer = await measure_end_to_end(config, produced, consumed, load, stop)
        answer.notes = [*notes, *answer.notes]
        return answer

    return options.measure(work, right=f"READ and WRITE on Topic:{topic}")


@app.command
def admin(
    *,
    operation: list[
        Literal["create-topics", "describe-topics", "describe-configs", "alter-configs", "create-acls", "describe-acls"]
    ]
    | None = None,
    num_requests: int = 100,
    clients: int = 4,
    items_per_request: int = 1,
    prefix: str = "barnabas-bench",
    partitions: int = 1,
    replication_factor: int | None = None,
    yes: Flag = False,
    dry_run: Flag = False,
    options: BenchOptions | None = None,
) -> int:
    """Send many requests of admin tools concurrently, and measure the latency of each.

    The run creates topics and ACLs whose names begin with the prefix and an id of the run. At the end, even after
    Ctrl-C, it removes exactly these, and measures the removal too. On a cluster without an authorizer it skips ACLs.

    For example:

        barnabas bench admin --dry-run
        barnabas bench admin --yes --num-requests 500 --clients 16
        barnabas bench admin --yes --operation create-topics --items-per-request 20 --output json
        barnabas bench admin --yes --operation describe-configs --operation alter-configs --prefix load-test

    Parameters
    ----------
    operation
        The operation to measure. Default: all. May be repeated.
    num_requests
        Number of requests of each operation.
    clients
        Number of concurrent clients, each with one request at a time.
    items_per_request
        Number of topics or ACLs per request.
    prefix
        Prefix of the names of all created topics and ACLs.
    partitions
        Number of partitions of each created topic.
    replication_factor
        Replication factor of each created topic. Default: default.replication.factor of the cluster.
    yes
        Confirm the changes. Without --yes or --dry-run the command refuses to run.
    dry_run
        Show the topics and ACLs that would be created and removed, without changing anything.
    """
    options = options or BenchOptions()
    at_least(1, num_requests=num_requests, clients=clients, items_per_request=items_per_request, partitions=partitions)
    at_least(1, replication_factor=1 if replication_factor is None else replication_factor)
    check_topic(f"{prefix}-00000000-0", option="--prefix", given=prefix)
    if not yes and not dry_run:
        raise UsageError(
            "this creates topics and ACLs and removes them again: use --yes to run it, or --dry-run to list them"
        )

    async def work(config: ClientConfig, stop: asyncio.Event) -> Answer:
        from barnabas.cli.bench.admin import OPERATIONS, AdminLoad, admin_dry_run, measure_admin

        wanted = [name for name in OPERATIONS if operation is None or name in operation]
        scope = f"{prefix}-{os.urandom(4).hex()}"
        load = AdminLoad(wanted, num_requests, clients, items_per_request, scope, partitions, replication_factor)
        if not dry_run:
            return await measure_admin(config, load, stop)
        from barnabas.clients.network_client import NetworkClient

        async with NetworkClient(config) as network:
            await network.connect()
        return admin_dry_run(load)

    return options.measure(work, right="CREATE on Cluster")


@app.command
def connections(*, num_connections: int = 1000, clients: int = 4, options: BenchOptions | None = None) -> int:
    """Open connections, authenticate, close them, and measure the rate.

    A connection counts when TLS, ApiVersions and authentication are complete, as --command-config configures them.

    For example:

        barnabas bench connections
        barnabas bench connections --num-connections 200 --clients 16 --command-config alice.properties

    Parameters
    ----------
    num_connections
        Total number of connections.
    clients
        Number of connections that are opened concurrently.
    """
    at_least(1, num_connections=num_connections, clients=clients)

    async def work(config: ClientConfig, stop: asyncio.Event) -> Answer:
        from barnabas.cli.bench.connections import measure_connections

        return await measure_connections(config, num_connections, min(clients, num_connections), stop)

    return (options or BenchOptions()).measure(work)


@app.command
def api_versions(*, num_requests: int = 10_000, connections: int = 4, options: BenchOptions | None = None) -> int:
    """Measure round trips of ApiVersions, which costs a broker almost no work.

    The result shows the cost of the network, of TLS, and of a request's path through the broker.

    For example:

        barnabas bench api-versions
        barnabas bench api-versions --num-requests 50000 --connections 16 --output json

    Parameters
    ----------
    num_requests
        Total number of requests.
    connections
        Number of connections, each with one request at a time.
    """
    at_least(1, num_requests=num_requests, connections=connections)

    async def work(config: ClientConfig, stop: asyncio.Event) -> Answer:
        from barnabas.cli.bench.connections import measure_api_versions

        return await measure_api_versions(config, num_requests, min(connections, num_requests), stop)

    return (options or BenchOptions()).measure(work)
