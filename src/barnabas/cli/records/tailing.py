"""The last records of a topic, in the order of their times, and then those that follow."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from barnabas.cli.records.consuming import Consumed, ConsumeJob, consume_records
from barnabas.cli.records.limits import within_api_timeout
from barnabas.cli.records.positions import Start, end_positions, start_positions
from barnabas.cli.records.printers import UnreadableRecord
from barnabas.cli.records.rates import Volume
from barnabas.clients.consumer.fetcher import Fetcher, of_topic
from barnabas.clients.consumer.listed_offsets import EARLIEST
from barnabas.clients.network_client import NetworkClient
from barnabas.clients.topic_metadata import TopicMetadataSource
from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.errors import DecodeError

if TYPE_CHECKING:
    from barnabas.cli.records.printers import Printer
    from barnabas.cli.records.sink import Output
    from barnabas.clients.client_config import ClientConfig
    from barnabas.clients.consumer.completed_fetch import Fetched
    from barnabas.clients.consumer.config import ConsumerConfig
    from barnabas.protocol.record_batch import Record

__all__ = ["tail_records"]

_WIDER = 8
"""Compaction and markers of transactions leave gaps: the offsets looked at are this many times more each time."""


async def tail_records(
    config: ClientConfig,
    settings: ConsumerConfig,
    topic: str,
    job: ConsumeJob,
    count: int,
    printer: Printer,
    output: Output,
    stop: asyncio.Event,
) -> Consumed:
    """Print the last ``count`` records of all partitions of the topic together, and follow it if the job does.

    Raise AdminError or ClientError if it can't begin.
    """
    volume = Volume(asyncio.get_running_loop().time())
    async with NetworkClient(config) as network:
        source = TopicMetadataSource(network, topic)
        beginnings: dict[int, int] = {}
        ends: dict[int, int] = {}

        async def look_up() -> None:
            partitions = (await source.load()).partitions
            ends.update(await end_positions(network, source, partitions, read_committed=settings.read_committed))
            beginnings.update(await start_positions(network, source, partitions, Start(EARLIEST)))

        await within_api_timeout(config, look_up())
        try:
            last = await _last(network, source, settings, count, beginnings, ends)
            for partition, record in last:
                output.write(printer.lines(TopicPartition(topic, partition), [record]))
                volume.add(1, len(record.key or b"") + len(record.value or b""), asyncio.get_running_loop().time())
        except (DecodeError, OSError, UnreadableRecord) as error:
            return Consumed(volume, failure=error)
    if not job.follows or stop.is_set():
        return Consumed(volume)
    consumed = await consume_records(config, settings, replace(job, start=Start(positions=ends)), printer, output, stop)
    consumed.volume.add(volume.records, volume.payload_bytes, consumed.volume.ended_at or volume.ended_at)
    return consumed


async def _last(
    network: NetworkClient,
    source: TopicMetadataSource,
    settings: ConsumerConfig,
    count: int,
    beginnings: Mapping[int, int],
    ends: Mapping[int, int],
) -> list[tuple[int, Record]]:
    """Return the last records of all partitions, in the order of their times."""
    found: dict[int, deque[Record]] = {}
    span = count
    while True:
        wanted = {
            partition: max(beginnings[partition], end - span)
            for partition, end in ends.items()
            if len(found.get(partition, ())) < count
        }
        found |= await _between(network, source, settings, count, wanted, ends)
        if all(len(found[partition]) >= count or start <= beginnings[partition] for partition, start in wanted.items()):
            break
        span *= _WIDER
    together = [(partition, record) for partition, records in found.items() for record in records]
    together.sort(key=lambda found_record: (found_record[1].timestamp, found_record[0], found_record[1].offset))
    return together[-count:]


async def _between(
    network: NetworkClient,
    source: TopicMetadataSource,
    settings: ConsumerConfig,
    count: int,
    starts: Mapping[int, int],
    ends: Mapping[int, int],
) -> dict[int, deque[Record]]:
    found: dict[int, deque[Record]] = {partition: deque(maxlen=count) for partition in starts}

    def take(fetched: Fetched) -> None:
        end = ends[fetched.partition]
        found[fetched.partition].extend(record for record in fetched.records() if record.offset < end)

    topic = source.topic
    fetcher = Fetcher(network, source, settings, of_topic(topic, starts), take, until=of_topic(topic, ends))
    try:
        fetcher.start(await source.load())
        await fetcher.finished.wait()
    finally:
        await fetcher.close()
    if fetcher.failure is not None:
        raise fetcher.failure
    return found
