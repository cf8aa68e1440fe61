"""Generate the values of the records of a load."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol

from barnabas.cli.arguments.cluster_options import UsageError

__all__ = ["FilePayloads", "Payloads", "RandomPayloads", "read_payloads"]

_LETTERS = bytes(ord("A") + byte % 26 for byte in range(256))
_POOL = 4 * 1024 * 1024


class Payloads(Protocol):
    @property
    def next_size(self) -> int:
        """The size of the next value."""
        ...

    @property
    def largest(self) -> int:
        """The size of the largest value."""
        ...

    def take(self, count: int) -> Sequence[bytes]:
        """Return the next values: at least one and at most ``count``, all of the same size."""
        ...


class RandomPayloads:
    """Random letters A to Z, as in kafka-producer-perf-test. No value repeats within four megabytes."""

    def __init__(self, size: int, seed: int = 0) -> None:
        self.next_size = self.largest = size
        self._random = random.Random(seed)
        self._letters = self._random.randbytes(max(_POOL, size)).translate(_LETTERS)
        self._position = 0

    def take(self, count: int) -> Sequence[bytes]:
        size = self.next_size
        if not size:
            return [b""] * count
        letters, start = self._letters, self._position
        count = min(count, (len(letters) - start) // size)
        end = start + count * size
        self._position = end if end + size <= len(letters) else self._random.randrange(len(letters) % size + 1)
        return [letters[at : at + size] for at in range(start, end, size)]


class FilePayloads:
    """Randomly chosen values of a file."""

    def __init__(self, values: Sequence[bytes], seed: int = 0) -> None:
        self._values = values
        self._random = random.Random(seed)
        self._next = self._random.choice(values)
        self.largest = max(map(len, values))

    @property
    def next_size(self) -> int:
        return len(self._next)

    def take(self, count: int) -> Sequence[bytes]:
        size = len(self._next)
        taken: list[bytes] = []
        while len(taken) < count and len(self._next) == size:
            taken.append(self._next)
            self._next = self._random.choice(self._values)
        return taken


def read_payloads(path: str, delimiter: str) -> FilePayloads:
    """Read the values of a file. ``delimiter`` may contain the escapes \\n and \\t. Raise UsageError."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise UsageError(f"--payload-file: can't read {path}: {error.strerror}") from error
    separator = delimiter.replace("\\n", "\n").replace("\\t", "\t").replace("\\0", "\0").encode()
    if not separator:
        raise UsageError("--payload-delimiter must not be empty; \\n means one value per line")
    values = [part for part in data.split(separator) if part]
    if not values:
        raise UsageError(f"--payload-file: {path} contains no values")
    return FilePayloads(values)
