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
    "Measure any Kafka cluster over the wire: how fast it takes and gives records, and how long it takes to answer.\n\n"
    "Ctrl-C ends a measurement and prints what was measured so far; the exit status is 130 then. "
    "MB are 1024 * 1024 bytes, as in Kafka's own tools.",
)
main = main_of(app)


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
    dry_run: Flag = False,
    new_topic: NewTopicOptions | None = None,
    options: RecordOptions | None = None,
) -> int:
    """Write records to a topic, and tell how many a second and how long until each was acknowledged.

    As kafka-producer-perf-test. A record's latency counts from when it was due, so that a cluster that stalls shows in
    all records of that time. Without --throughput that is when the producer took it into its buffer (buffer.memory).

    For example:

        barnabas bench produce --topic load --num-records 1000000 --record-size 1000
        barnabas bench produce --topic load --num-records 60000 --throughput 1000 --acks 1 --output json
        barnabas bench produce --topic load --num-records 1000 --create-topic --partitions 3
        barnabas bench produce --topic load --num-records 1000 --command-property linger.ms=0 enable.idempotence=false

    Parameters
    ----------
    topic
        The topic to write to.
    num_records
        How many records.
    record_size
        Bytes of each record's value, random letters. 1000 if there is no --payload-file.
    throughput
        Records a second; -1 for as many as the cluster takes.
    payload_file
        A file with values, one of which is drawn at random for each record.
    payload_delimiter
        What stands between the values of the file.
    warmup_records
        So many records come before what is measured, and are not counted.
    acks
        Who has to have a record before it counts: all replicas in sync, the leader (1), nobody (0).
    batch_size
        Bytes of a batch at most (batch.size).
    linger_ms
        How long a batch waits for more records (linger.ms).
    compression_type
        How batches are compressed.
    dry_run
        Look whether the topic can be written to and say what would be done, and write nothing.
    """
    options, new_topic = options or RecordOptions(), new_topic or NewTopicOptions()
    check_topic(topic)
    new_topic.check()
    at_least(1, num_records=num_records)
    at_least(0, warmup_records=warmup_records, record_size=record_size or 0)
    check_throughput(throughput, "as many as the cluster takes")
    if payload_file is not None and record_size is not None:
        raise UsageError("--payload-file and --record-size: the file says how large the records are; give only one")
    from barnabas.cli.bench.payloads import RandomPayloads, read_payloads
    from barnabas.clients.errors import InvalidClientConfig
    from barnabas.clients.producer.config import PRODUCER_PROPERTIES, producer_config

    own = {
        "acks": acks,
        "batch.size": put(batch_size),
        "linger.ms": put(linger_ms),
        "compression.type": compression_type,
    }
    try:
        settings = producer_config(options.properties(own, PRODUCER_PROPERTIES), source=options.source)
    except InvalidClientConfig as error:
        raise usage_error(error) from error
    payloads = (
        read_payloads(payload_file, payload_delimiter)
        if payload_file is not None
        else RandomPayloads(1000 if record_size is None else record_size)
    )
    check_record_size(payloads.largest, settings.max_request_size)

    async def work(config: ClientConfig, stop: asyncio.Event) -> Answer:
        from barnabas.cli.bench.produce import ProduceLoad, measure_produce, would_write

        load = ProduceLoad(
            topic, num_records + warmup_records, payloads, None if throughput < 0 else throughput, warmup_records
        )
        notes = await new_topic.made(config, topic, dry_run=dry_run)
        if dry_run:
            rate = "as fast as the cluster takes them" if load.rate is None else f"{load.rate:g} a second"
            answer = await would_write(config, topic, load.count, rate, is_new=bool(notes))
        else:
            answer = await measure_produce(config, settings, load, stop)
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
    options: RecordOptions | None = None,
) -> int:
    """Read records of a topic, all partitions from the beginning, and tell how many a second.

    As kafka-consumer-perf-test, without a group: nothing is committed, and no group is left behind. MB are keys and
    values; latencies are those of the fetch requests that brought something.

    For example:

        barnabas bench consume --topic load
        barnabas bench consume --topic load --num-records 1000000 --output json
        barnabas bench consume --topic load --num-records 5000 --from-latest --timeout-ms 60000
        barnabas bench consume --topic load --command-property isolation.level=read_committed

    Parameters
    ----------
    topic
        The topic to read.
    num_records
        How many records; the answer that brings the last one is counted in full. Without it, all that are there.
    from_latest
        Only records that come from now on.
    fetch_size
        Bytes of one partition in an answer (max.partition.fetch.bytes).
    fetch_max_bytes
        Bytes of an answer (fetch.max.bytes).
    fetch_max_wait_ms
        How long a broker waits for records (fetch.max.wait.ms).
    timeout_ms
        How long it may take until the next record comes. Then it ends, with exit status 1 if records are missing.
    """
    options = options or RecordOptions()
    check_topic(topic)
    at_least(1, num_records=1 if num_records is None else num_records, timeout_ms=timeout_ms)
    if from_latest and num_records is None:
        raise UsageError("--from-latest needs --num-records: there is no end to what may come")
    from barnabas.clients.consumer.config import CONSUMER_PROPERTIES, consumer_config
    from barnabas.clients.errors import InvalidClientConfig

    own = {
        "max.partition.fetch.bytes": put(fetch_size),
        "fetch.max.bytes": put(fetch_max_bytes),
        "fetch.max.wait.ms": put(fetch_max_wait_ms),
    }
    try:
        settings = consumer_config(options.properties(own, CONSUMER_PROPERTIES), source=options.source)
    except InvalidClientConfig as error:
        raise usage_error(error) from error

    async def work(config: ClientConfig, stop: asyncio.Event) -> Answer:
        from barnabas.cli.bench.consume import ConsumeLoad, measure_consume

        load = ConsumeLoad(topic, num_records, from_latest, timeout_ms / 1000)
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
    """Write records and read them back, and tell how long each was on its way.

    One record goes when the one before it has come, as with Kafka's EndToEndLatency; with --throughput they go at that
    rate, whether or not those before them have come. Others may use the topic meanwhile.

    For example:

        barnabas bench end-to-end --topic load --num-records 1000
        barnabas bench end-to-end --topic load --num-records 5000 --throughput 500 --acks 1
        barnabas bench end-to-end --topic trips --create-topic --partitions 1 --output yaml

    Parameters
    ----------
    topic
        The topic to write to and to read.
    num_records
        How many records.
    record_size
        Bytes of each record's value, at least 16.
    throughput
        Records a second; -1 for one after the other.
    acks
        Who has to have a record before it is acknowledged: all replicas in sync, the leader (1), nobody (0).
    warmup_records
        So many records come before, and are not counted.
    timeout_ms
        How long a record may be on its way. Then it ends, with exit status 1.
    dry_run
        Look whether the topic is there and say what would be done, and write nothing.
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
            from barnabas.cli.bench.produce import would_write

            total = num_records + warmup_records
            answer = await would_write(config, topic, total, "and read back", is_new=bool(notes))
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
    """Send the requests of an operator's tools, many at once, and tell how long each took.

    It makes topics and access rules, all with names that begin with the prefix and an id of this run, and removes
    exactly these at the end, also after Ctrl-C; that is measured as well. A cluster without an authorizer has no rules.

    For example:

        barnabas bench admin --dry-run
        barnabas bench admin --yes --num-requests 500 --clients 16
        barnabas bench admin --yes --operation create-topics --items-per-request 20 --output json
        barnabas bench admin --yes --operation describe-configs --operation alter-configs --prefix load-test

    Parameters
    ----------
    operation
        Which requests, all of them by default. May be repeated.
    num_requests
        How many requests of each.
    clients
        How many clients at once, each with one request after the other.
    items_per_request
        Topics or rules in a request.
    prefix
        What the names of all that is made begin with.
    partitions
        Of each topic that is made.
    replication_factor
        Of each topic that is made; without it, the cluster's default.replication.factor.
    yes
        Do it. Without it or --dry-run nothing is done.
    dry_run
        Say what would be made and removed, and do nothing.
    """
    options = options or BenchOptions()
    at_least(1, num_requests=num_requests, clients=clients, items_per_request=items_per_request, partitions=partitions)
    at_least(1, replication_factor=1 if replication_factor is None else replication_factor)
    check_topic(f"{prefix}-00000000-0", option="--prefix", given=prefix)
    if not yes and not dry_run:
        raise UsageError("this makes topics and rules and removes them again: give --yes, or --dry-run to see which")

    async def work(config: ClientConfig, stop: asyncio.Event) -> Answer:
        from barnabas.cli.bench.admin import OPERATIONS, AdminLoad, measure_admin, would_do

        wanted = [name for name in OPERATIONS if operation is None or name in operation]
        scope = f"{prefix}-{os.urandom(4).hex()}"
        load = AdminLoad(wanted, num_requests, clients, items_per_request, scope, partitions, replication_factor)
        if not dry_run:
            return await measure_admin(config, load, stop)
        from barnabas.clients.network_client import NetworkClient

        async with NetworkClient(config) as network:
            await network.connect()
        return would_do(load)

    return options.measure(work, right="CREATE on Cluster")


@app.command
def connections(*, num_connections: int = 1000, clients: int = 4, options: BenchOptions | None = None) -> int:
    """Open connections, log in, close them, and tell how many a second.

    A connection counts when TLS, the exchange of versions and the login are done, as --command-config asks for them.

    For example:

        barnabas bench connections
        barnabas bench connections --num-connections 200 --clients 16 --command-config alice.properties

    Parameters
    ----------
    num_connections
        How many connections in all.
    clients
        How many are being opened at once.
    """
    at_least(1, num_connections=num_connections, clients=clients)

    async def work(config: ClientConfig, stop: asyncio.Event) -> Answer:
        from barnabas.cli.bench.connections import measure_connections

        return await measure_connections(config, num_connections, min(clients, num_connections), stop)

    return (options or BenchOptions()).measure(work)


@app.command
def api_versions(*, num_requests: int = 10_000, connections: int = 4, options: BenchOptions | None = None) -> int:
    """Ask for the supported versions again and again: round trips that cost a broker next to nothing.

    What is left is the network, TLS, and the way of a request through the broker.

    For example:

        barnabas bench api-versions
        barnabas bench api-versions --num-requests 50000 --connections 16 --output json

    Parameters
    ----------
    num_requests
        How many requests in all.
    connections
        How many connections, each with one request after the other.
    """
    at_least(1, num_requests=num_requests, connections=connections)

    async def work(config: ClientConfig, stop: asyncio.Event) -> Answer:
        from barnabas.cli.bench.connections import measure_api_versions

        return await measure_api_versions(config, num_requests, min(connections, num_requests), stop)

    return (options or BenchOptions()).measure(work)
