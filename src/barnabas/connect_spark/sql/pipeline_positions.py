"""A pipeline's positions among Connect's: the next offset of each partition of its inputs, its state, and its batch.

- ``{"input": "orders", "topic": "shop-orders", "partition": 0}`` -> ``{"offset": 42}``
- ``{"pipeline": "state"}`` -> ``{"run": id, "batch": n}``: of a query with state, the folder of the state and the last
  batch whose rows were delivered, -1 before the first one.
- ``{"pipeline": "batch"}`` -> ``{"id": n, "starts": JSON, "ends": JSON}``: of a query without state whose rows go to a
  table, the batch that was begun. The table knows whether it has this batch.

Users may alter the offsets of inputs, and delete any position.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.plugins.api import TerminalError

__all__ = [
    "BATCH",
    "STATE",
    "InputOffsets",
    "Pair",
    "PlannedBatch",
    "RunPosition",
    "changed",
    "check_altered",
    "input_pairs",
    "offsets_text",
    "parse_offsets",
    "read_batch",
    "read_inputs",
    "read_run",
]

STATE = {"pipeline": "state"}
BATCH = {"pipeline": "batch"}

InputOffsets = Mapping[str, Mapping[TopicPartition, int]]
"""The next offsets to read, by input."""

Pair = tuple[Mapping[str, Any], Mapping[str, Any] | None]
Reader = Callable[[Mapping[str, Any]], "Mapping[str, Any] | None"]


@dataclass(frozen=True, slots=True)
class RunPosition:
    run: int
    batch: int

    @property
    def pair(self) -> Pair:
        return STATE, {"run": self.run, "batch": self.batch}


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    id: int
    starts: InputOffsets
    ends: InputOffsets

    @property
    def pair(self) -> Pair:
        return BATCH, {"id": self.id, "starts": offsets_text(self.starts), "ends": offsets_text(self.ends)}

    def is_unwritten(self, known: InputOffsets) -> bool:
        """Return whether positions after the batch are missing among ``known`` because a crash came before them.

        They are records of several partitions, so a crash may leave some of them: each is then where the batch began,
        or where it ended. Positions that were never written are those of the first batch. Others were set by a user.
        """
        is_complete = True
        for name, ends in self.ends.items():
            for partition, end in ends.items():
                found = known.get(name, {}).get(partition)
                if found not in (None, end, self.starts.get(name, {}).get(partition)):
                    return False
                is_complete = is_complete and found == end
        return not is_complete


def read_inputs(
    read: Reader, partitions: Mapping[str, Iterable[TopicPartition]]
) -> dict[str, dict[TopicPartition, int]]:
    """Return the offsets that are stored. Raise TerminalError for one that can't be used."""
    found: dict[str, dict[TopicPartition, int]] = {}
    for name, of_input in partitions.items():
        found[name] = {}
        for partition in of_input:
            key = _key(name, partition)
            position = read(key)
            if position is not None:
                found[name][partition] = _whole(position, "offset", key)
    return found


def read_run(read: Reader) -> RunPosition | None:
    """Return the run whose state the pipeline has. Raise TerminalError."""
    position = read(STATE)
    if position is None:
        return None
    return RunPosition(_whole(position, "run", STATE), _whole(position, "batch", STATE, least=-1))


def read_batch(read: Reader) -> PlannedBatch | None:
    """Return the batch that was begun last. Raise TerminalError."""
    position = read(BATCH)
    if position is None:
        return None
    try:
        return PlannedBatch(
            _whole(position, "id", BATCH), parse_offsets(str(position["starts"])), parse_offsets(str(position["ends"]))
        )
    except (KeyError, ValueError, TypeError, AttributeError):
        raise TerminalError(f"the position {_shown(BATCH)} is damaged: delete it, or reset the offsets.") from None


def input_pairs(offsets: InputOffsets) -> list[Pair]:
    """Return the positions to write."""
    return [
        (_key(name, partition), {"offset": offset})
        for name, of_input in offsets.items()
        for partition, offset in sorted(of_input.items())
    ]


def changed(before: InputOffsets, after: InputOffsets) -> dict[str, dict[TopicPartition, int]]:
    """Return the offsets of ``after`` that differ."""
    return {
        name: {partition: end for partition, end in ends.items() if before.get(name, {}).get(partition) != end}
        for name, ends in after.items()
    }


def check_altered(offsets: Sequence[Pair], inputs: Mapping[str, str]) -> None:
    """Check positions that a user sets. ``inputs`` are the topics by input. Raise ValueError."""
    for partition, offset in offsets:
        if offset is None:
            continue
        if partition in (STATE, BATCH):
            raise ValueError(f"{_shown(partition)} can only be deleted, with the offset null: the pipeline writes it.")
        name, topic, number = (partition.get(part) for part in ("input", "topic", "partition"))
        if set(partition) != {"input", "topic", "partition"} or inputs.get(str(name)) != topic or not _is_whole(number):
            like = " or ".join(
                _shown({"input": known, "topic": of_input, "partition": 0}) for known, of_input in inputs.items()
            )
            raise ValueError(f"the partition of this pipeline must be like {like}, not {_shown(partition)}")
        if set(offset) != {"offset"} or not _is_whole(offset["offset"]):
            raise ValueError(f'the offset of this pipeline must be like {{"offset": 0}}, not {_shown(offset)}')


def _key(name: str, partition: TopicPartition) -> dict[str, Any]:
    return {"input": name, "topic": partition.topic, "partition": partition.partition}


def offsets_text(offsets: InputOffsets) -> str:
    """Return the offsets as ``parse_offsets`` reads them."""
    return json.dumps(
        {
            name: [[*partition, offset] for partition, offset in sorted(of_input.items())]
            for name, of_input in offsets.items()
        }
    )


def parse_offsets(text: str) -> dict[str, dict[TopicPartition, int]]:
    return {
        name: {TopicPartition(str(topic), int(partition)): int(offset) for topic, partition, offset in of_input}
        for name, of_input in json.loads(text).items()
    }


def _whole(position: Mapping[str, Any], name: str, key: Mapping[str, Any], *, least: int = 0) -> int:
    value = position.get(name)
    if not _is_whole(value, least=least):
        raise TerminalError(
            f"the offset of {_shown(key)} must have {name!r}, a whole number from {least}, not {_shown(position)}. "
            "Reset or alter it."
        )
    return int(str(value))


def _is_whole(value: object, *, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _shown(value: Mapping[str, Any]) -> str:
    return json.dumps(dict(value))
