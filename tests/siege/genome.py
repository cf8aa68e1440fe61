"""A hostile input as a few numbers, so that a search can change them one at a time.

``RequestGenome`` fills the declaration of a request. Its numbers set the elements in an array of each depth, the length
of strings, and the tagged fields in each structure. ``BatchGenome`` is a record batch. Both are encoded
deterministically.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from random import Random
from typing import Any

from barnabas.broker.apis import SERVED_BY_BROKER
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.compression import Compression
from barnabas.protocol.headers import RequestHeader, request_header_version
from barnabas.protocol.schema import Message, Struct
from tests.siege.frames import batch_of, record, zigzag

__all__ = ["TARGETS", "BatchGenome", "Genome", "RequestGenome", "Target", "random_genome"]

_APIS = sorted(key for key in SERVED_BY_BROKER if key is not ApiKey.PRODUCE)


@dataclass(frozen=True)
class RequestGenome:
    api_key: int
    version: int
    outer: int = 1
    inner: int = 1
    string: int = 1
    tagged: int = 0
    tag_size: int = 0

    def body(self) -> bytes:
        """Return the frame's content: header and body, at most about a megabyte."""
        key = ApiKey(self.api_key)
        module = import_module(f"barnabas.protocol.messages.{key.name.lower()}")
        message = _filled(getattr(module, f"{API_TABLE[key].name}Request"), self, 0)
        header = RequestHeader(request_api_key=key, request_api_version=self.version, correlation_id=7, client_id="s")
        encoded: bytes = header.encode(request_header_version(key, self.version)) + message.encode(self.version)
        return encoded

    def size(self) -> int:
        """The approximate size in bytes."""
        structure = self.string + self.tagged * (3 + self.tag_size) + 4
        return structure * (1 + self.outer * (1 + self.inner))

    def mutated(self, rng: Random) -> RequestGenome:
        name = rng.choice(("outer", "inner", "string", "tagged", "tag_size", "version"))
        if name == "version":
            info = API_TABLE[ApiKey(self.api_key)]
            return replace(self, version=rng.randint(info.lowest, info.highest))
        most = {"string": 30_000, "tagged": 64, "tag_size": 1000}.get(name, 200_000)
        return replace(self, **{name: _changed(getattr(self, name), rng, most)})


@dataclass(frozen=True)
class BatchGenome:
    codec: int = 0
    records: int = 1
    headers: int = 0
    header_size: int = 0
    value: int = 0
    shift: int = 0
    """Added to the offset deltas: the broker must then assign the offsets again."""

    def batch(self, now_ms: int) -> bytes:
        header = zigzag(self.header_size) + bytes(self.header_size) + zigzag(0)
        headers = zigzag(self.headers) + header * self.headers
        value = bytes(self.value)
        section = b"".join(record(headers, value, number + self.shift) for number in range(self.records))
        return batch_of(section, self.records, compression=Compression(self.codec), now_ms=now_ms)

    def size(self) -> int:
        """The approximate size in bytes before compression."""
        return self.records * (8 + self.value + self.headers * (2 + self.header_size))

    def mutated(self, rng: Random) -> BatchGenome:
        name = rng.choice(("records", "headers", "header_size", "value", "shift"))
        most = {"records": 200_000, "shift": 2}.get(name, 50_000)
        return replace(self, **{name: _changed(getattr(self, name), rng, most)})


Genome = RequestGenome | BatchGenome


Target = tuple[type[RequestGenome], int] | tuple[type[BatchGenome], int]
TARGETS: tuple[Target, ...] = (
    *((BatchGenome, codec) for codec in range(5)),
    *((RequestGenome, int(key)) for key in _APIS),
)
"""The targets of a genome: batches by their compression, requests by their API."""


def random_genome(rng: Random, target: Target | None = None) -> Genome:
    """``target`` None: any target, batches more often than a single API."""
    if target is None:
        target = rng.choice(TARGETS[:5]) if rng.random() < 0.4 else rng.choice(TARGETS[5:])
    kind, number = target
    if kind is BatchGenome:
        return BatchGenome(codec=number, records=rng.choice((1, 10, 1000)), headers=rng.choice((0, 1, 100)))
    info = API_TABLE[ApiKey(number)]
    counts = (1, 1, 10, 200)
    return RequestGenome(
        number, rng.randint(info.lowest, info.highest), outer=rng.choice(counts), inner=rng.choice(counts)
    )


def _changed(value: int, rng: Random, most: int) -> int:
    change = rng.choice((value * 4, value * 2, value + 1, value - 1, value // 2, rng.randint(0, most)))
    return min(max(change, 0), most)


def _filled(cls: type[Struct], genome: RequestGenome, depth: int) -> Any:
    made = cls()
    flexible = (issubclass(cls, Message) and cls.is_flexible(genome.version)) or depth > 0
    for field in cls.FIELDS:
        if not field.in_version(genome.version) or field.is_tagged(genome.version):
            continue
        value = _value(field, genome, depth)
        if value is not None:
            setattr(made, field.name, value)
    if genome.tagged and flexible and _is_flexible(genome):
        made.unknown_tags = [(1000 + number, bytes(genome.tag_size)) for number in range(genome.tagged)]
    return made


def _is_flexible(genome: RequestGenome) -> bool:
    return genome.version >= API_TABLE[ApiKey(genome.api_key)].request_flexible_since


def _value(field: Any, genome: RequestGenome, depth: int) -> Any:
    if field.kind == "string":
        return "x" * genome.string
    if field.kind == "struct":
        return _filled(field.type, genome, depth + 1) if field.type is not None else None
    if field.kind != "array":
        return None
    count = genome.outer if depth == 0 else genome.inner
    if field.type is not None:
        return [_filled(field.type, genome, depth + 1)] * count
    return ["x" * genome.string] * count if field.element == "string" else None
