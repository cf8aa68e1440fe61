"""Where reading begins and ends: offsets, times, the last records, the end of a partition."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.cli.arguments.cluster_options import UsageError
from barnabas.cli.records.times import parse_point
from barnabas.clients.consumer.listed_offsets import EARLIEST, LATEST, list_offsets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from barnabas.clients.network_client import NetworkClient
    from barnabas.clients.topic_metadata import TopicMetadataSource

__all__ = ["Start", "chosen_start", "end_positions", "start_positions"]

_NUMBER = re.compile(r"-?\d{1,18}")
_WORDS = {"beginning": EARLIEST, "earliest": EARLIEST, "end": LATEST, "latest": LATEST}


@dataclass(frozen=True, slots=True)
class Start:
    """One of: a timestamp (also EARLIEST, LATEST), an offset, how many before the end, or one for each partition."""

    timestamp: int = LATEST
    offset: int | None = None
    last: int | None = None
    positions: Mapping[int, int] | None = None


def chosen_start(
    *, from_beginning: bool, from_: str | None, offset: str | None, partitions: Iterable[int] | None, now_ms: int
) -> Start:
    """Return the start that the options choose; without any, the end. Raise UsageError."""
    chosen = [
        name
        for name, is_given in (
            ("--from-beginning", from_beginning),
            ("--from", from_ is not None),
            ("--offset", offset is not None),
        )
        if is_given
    ]
    if len(chosen) > 1:
        raise UsageError(f"{' and '.join(chosen)} can't be used together")
    if from_beginning:
        return Start(EARLIEST)
    if from_ is not None:
        return Start(_WORDS[from_]) if from_ in _WORDS else Start(parse_point(from_, "--from", now_ms))
    if offset is None:
        return Start()
    if offset in _WORDS:
        return Start(_WORDS[offset])
    if not _NUMBER.fullmatch(offset):
        raise UsageError(f"--offset {offset}: write a number, -N for the last N offsets, earliest or latest")
    if offset.startswith("-"):
        return Start(last=-int(offset))
    if partitions is None:
        raise UsageError(f"--offset {offset} needs --partition: each partition has its own offsets")
    return Start(offset=int(offset))


async def start_positions(
    network: NetworkClient,
    source: TopicMetadataSource,
    partitions: Iterable[int],
    start: Start,
    *,
    read_committed: bool = False,
) -> dict[int, int]:
    """Return the offset at which to begin each partition. Raise AdminError, ClientError."""
    numbers = list(partitions)
    if start.positions is not None:
        return {partition: start.positions[partition] for partition in numbers}
    if start.offset is not None:
        return dict.fromkeys(numbers, start.offset)
    if start.last is not None:
        ends = await end_positions(network, source, numbers, read_committed=read_committed)
        beginnings = await list_offsets(network, source, dict.fromkeys(numbers, EARLIEST))
        return {partition: max(beginnings[partition], ends[partition] - start.last) for partition in numbers}
    return await _at(network, source, numbers, start.timestamp, read_committed=read_committed)


async def end_positions(
    network: NetworkClient,
    source: TopicMetadataSource,
    partitions: Iterable[int],
    timestamp: int = LATEST,
    *,
    read_committed: bool = False,
) -> dict[int, int]:
    """Return the offset before which to end each partition: of its end, or of the first record from a time on."""
    return await _at(network, source, list(partitions), timestamp, read_committed=read_committed)


async def _at(
    network: NetworkClient, source: TopicMetadataSource, numbers: list[int], timestamp: int, *, read_committed: bool
) -> dict[int, int]:
    found = await list_offsets(network, source, dict.fromkeys(numbers, timestamp), read_committed=read_committed)
    later = [partition for partition, offset in found.items() if offset < 0]
    if later:  # No record is that young: the next one will be.
        wanted = dict.fromkeys(later, LATEST)
        found |= await list_offsets(network, source, wanted, read_committed=read_committed)
    return found
