"""``barnabas bench produce|consume|end-to-end|admin|connections|api-versions``: measure a cluster over the wire."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal

from barnabas.cli.bench_options import RecordOptions, put
from barnabas.cli.bench_topic import NewTopicOptions, check_topic
from barnabas.cli.cluster_command import cluster_app, main_of
from barnabas.cli.cluster_options import Flag, UsageError

if TYPE_CHECKING:
    from barnabas.cli.answer import Answer
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
    if throughput == 0 or throughput < -1:
        raise UsageError(f"--throughput {throughput:g}: records a second, or -1 for as many as the cluster takes")
    if payload_file is not None and record_size is not None:
        raise UsageError("--payload-file and --record-size: the file says how large the records are; give only one")
    from barnabas.cli.bench_payloads import RandomPayloads, read_payloads
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
        raise UsageError(str(error)) from error
    payloads = (
        read_payloads(payload_file, payload_delimiter)
        if payload_file is not None
        else RandomPayloads(1000 if record_size is None else record_size)
    )

    async def work(config: ClientConfig, stop: asyncio.Event) -> Answer:
        from barnabas.cli.bench_produce import ProduceLoad, measure_produce, would_produce

        load = ProduceLoad(
            topic, num_records + warmup_records, payloads, None if throughput < 0 else throughput, warmup_records
        )
        notes = await new_topic.made(config, topic, dry_run=dry_run)
        if dry_run:
            answer = await would_produce(config, settings, load, is_new=bool(notes))
        else:
            answer = await measure_produce(config, settings, load, stop)
        answer.notes = [*notes, *answer.notes]
        return answer

    return options.measure(work, right=f"WRITE on Topic:{topic}")


def at_least(least: int, **values: int) -> None:
    """Raises UsageError for options that are smaller."""
    for name, value in values.items():
        if value < least:
            raise UsageError(f"--{name.replace('_', '-')} {value}: it must be at least {least}")
