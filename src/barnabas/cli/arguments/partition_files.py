"""Read the JSON files of Kafka's tools that list partitions for moves, deletion of records and leader elections.

``-`` is the standard input. The functions raise UsageError for an invalid file, with the file and the entry, before the
command contacts the cluster. They ignore unknown keys, as Kafka's tools do, because our plans have more keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeGuard

from barnabas.cli.arguments.cluster_options import UsageError
from barnabas.cli.arguments.standard_input import read_file
from barnabas.common.topic_name import topic_name_problem
from barnabas.common.topic_partition import TopicPartition

__all__ = [
    "ANY",
    "RequestedReplicas",
    "moves_document",
    "read_moves",
    "read_offsets",
    "read_partitions",
    "read_text",
    "read_topics",
]

ANY = "any"
"""The broker chooses the directory of the replica."""

_NUMBER_MAX = 2**31 - 1
_OFFSET_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class RequestedReplicas:
    """The requested replicas of a partition, the preferred leader first, and the directory on each broker."""

    replicas: tuple[int, ...]
    log_dirs: tuple[str, ...] = ()

    def directories(self) -> Iterator[tuple[int, str]]:
        """Yield the brokers with a given directory, and the directories."""
        return ((broker, path) for broker, path in zip(self.replicas, self.log_dirs, strict=False) if path != ANY)


def read_text(path: str, option: str) -> str:
    try:
        return read_file(path)
    except OSError as error:
        raise UsageError(f"{option}: can't read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{option}: {path} is not UTF-8: {error.reason} at byte {error.start}") from error


def read_moves(path: str, option: str) -> dict[TopicPartition, RequestedReplicas]:
    """Read ``{"version": 1, "partitions": [{"topic": .., "partition": .., "replicas": [..], "log_dirs": [..]}]}``."""
    found: dict[TopicPartition, RequestedReplicas] = {}
    for where, partition, entry in _partitions(path, option):
        if partition in found:
            raise UsageError(f"{where}: {partition} is listed twice")
        replicas = entry.get("replicas")
        if not isinstance(replicas, list) or not replicas or not all(_is_number(replica) for replica in replicas):
            raise UsageError(
                f'{where}: "replicas" must be a list of broker ids, for example [1, 2], not {_shown(replicas)}'
            )
        if len(set(replicas)) < len(replicas):
            raise UsageError(f"{where}: {partition}: {replicas} lists a broker twice")
        found[partition] = RequestedReplicas(tuple(replicas), _log_dirs(entry.get("log_dirs"), len(replicas), where))
    return found


def read_topics(path: str, option: str) -> list[str]:
    """Read ``{"version": 1, "topics": [{"topic": ..}]}``."""
    topics: dict[str, None] = {}
    for where, entry in _entries(path, option, "topics", '{"topic": "orders"}'):
        name = _topic(entry, where)
        if name in topics:
            raise UsageError(f"{where}: {name} is listed twice")
        topics[name] = None
    return list(topics)


def read_offsets(path: str, option: str) -> dict[TopicPartition, int]:
    """Read ``{"version": 1, "partitions": [{"topic": .., "partition": .., "offset": ..}]}``."""
    found: dict[TopicPartition, int] = {}
    for where, partition, entry in _partitions(path, option):
        if partition in found:
            raise UsageError(f"{where}: {partition} is listed twice")
        offset = entry.get("offset")
        if not _is_number(offset, -1, _OFFSET_MAX):
            raise UsageError(
                f'{where}: "offset" must be a number of at least 0, or -1 for all records, not {_shown(offset)}'
            )
        found[partition] = offset
    return found


def read_partitions(path: str, option: str) -> list[TopicPartition]:
    """Read ``{"partitions": [{"topic": .., "partition": ..}]}``."""
    found: dict[TopicPartition, None] = {}
    for where, partition, _ in _partitions(path, option):
        if partition in found:
            raise UsageError(f"{where}: {partition} is listed twice")
        found[partition] = None
    return list(found)


def moves_document(replicas: dict[TopicPartition, tuple[int, ...]]) -> dict[str, object]:
    """Return a document that ``read_moves`` and Kafka's tool can read."""
    return {
        "version": 1,
        "partitions": [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "replicas": list(brokers),
                "log_dirs": [ANY] * len(brokers),
            }
            for partition, brokers in sorted(replicas.items())
        ],
    }


def _partitions(path: str, option: str) -> Iterator[tuple[str, TopicPartition, dict[str, object]]]:
    for where, entry in _entries(path, option, "partitions", '{"topic": "orders", "partition": 0, ...}'):
        number = entry.get("partition")
        if not _is_number(number):
            raise UsageError(f'{where}: "partition" must be a number of at least 0, not {_shown(number)}')
        yield where, TopicPartition(_topic(entry, where), number), entry


def _entries(path: str, option: str, key: str, example: str) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the entries, with their positions for messages."""
    root = _document(path, option)
    if not isinstance(root, dict) or not isinstance(root.get(key), list):
        raise UsageError(f'{option}: {path}: the file must have the form {{"version": 1, "{key}": [{example}]}}')
    version = root.get("version", 1)
    if version != 1 or isinstance(version, bool):
        raise UsageError(f'{option}: {path}: "version" is {_shown(version)}; only 1 is supported')
    if not root[key]:
        raise UsageError(f'{option}: {path}: "{key}" is empty')
    for index, entry in enumerate(root[key]):
        where = f"{option}: {path}: {key}[{index}]"
        if not isinstance(entry, dict):
            raise UsageError(f"{where}: an entry must have the form {example}, not {_shown(entry)}")
        yield where, entry


def _document(path: str, option: str) -> object:
    text = read_text(path, option)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"{option}: {path}, line {error.lineno}: invalid JSON: {error.msg}") from error
    except RecursionError as error:
        raise UsageError(f"{option}: {path}: the JSON is nested too deeply") from error
    except ValueError as error:  # A number with thousands of digits.
        raise UsageError(f"{option}: {path}: {error}") from error


def _topic(entry: dict[str, object], where: str) -> str:
    name = entry.get("topic")
    if not isinstance(name, str):
        raise UsageError(f'{where}: "topic" must be the name of a topic, not {_shown(name)}')
    problem = topic_name_problem(name)
    if problem is not None:
        raise UsageError(f"{where}: {name}: {problem}")
    return name


def _log_dirs(value: object, count: int, where: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(path, str) for path in value):
        raise UsageError(f'{where}: "log_dirs" must be a list of paths or "{ANY}", not {_shown(value)}')
    if len(value) != count:
        raise UsageError(f'{where}: "log_dirs" has {len(value)} entries for {count} replicas')
    relative = next((path for path in value if path != ANY and not path.startswith("/")), None)
    if relative is not None:
        raise UsageError(f'{where}: "log_dirs": a path must be absolute or "{ANY}", not {_shown(relative)}')
    return tuple(value)


def _is_number(value: object, low: int = 0, high: int = _NUMBER_MAX) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _shown(value: object) -> str:
    text = "missing" if value is None else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
