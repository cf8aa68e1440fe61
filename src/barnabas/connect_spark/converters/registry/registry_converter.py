"""What the converters with a schema registry share: frames, requests, and what each of their errors means.

A record names its schema by a frame: a zero byte and the id of the schema (and for Protobuf the indexes of its
message). The frames of a batch are known before it is read (``Converter.frame``), so its records are read by
expressions: one for each schema, chosen by the frame.

- An unknown id, or a schema that can't be read, makes bad records of those that name it, and of no others.
- A registry that does not answer fails the batch; ``errors.retry.timeout`` and the restarts of the task repeat it.
- A refusal (401, 403) fails the task until its settings change.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from pyspark.sql import functions as F

from barnabas.clients.schema_registry.bounded_cache import BoundedCache
from barnabas.clients.schema_registry.errors import (
    RegistryRefused,
    RegistryUnreachable,
    SchemaError,
    SchemaNotFound,
)
from barnabas.clients.schema_registry.references import referenced_texts
from barnabas.clients.schema_registry.registry_client import RegisteredSchema, SchemaRegistry
from barnabas.clients.schema_registry.subject_names import SubjectNameStrategy
from barnabas.clients.schema_registry.wire_format import framed
from barnabas.connect.plugins.api import TerminalError
from barnabas.connect_spark.converters.connect_schema import ConnectSchema, DataException
from barnabas.connect_spark.converters.converter import Converter, Decoded, Encoded
from barnabas.connect_spark.converters.registry.registry_options import RegistryOptions
from barnabas.connect_spark.converters.registry.registry_reader import FRAME_LENGTH, ReaderOfBatch
from barnabas.connect_spark.converters.registry.schema_reading import SchemaReader
from barnabas.connect_spark.converters.registry.schema_writing import SchemaWriter, WriterOfBatch
from barnabas.connect_spark.converters.spark_types import spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column

    from barnabas.connect_spark.converters.record_batch import Datum

__all__ = ["RegistryConverter"]

log = logging.getLogger(__name__)

Found = TypeVar("Found")

_KEPT = 100
"""Sets of frames, and schemas with sets of topics, whose expressions are kept."""
_DENIED = (401, 403)
_UNREGISTERED = "set auto.register.schemas=true, or register it, or set use.latest.version=true"


class RegistryConverter(Converter):
    """Compared by identity: a task has its own."""

    kind: ClassVar[str]
    """The registry's name of the kind of schema: AVRO, JSON or PROTOBUF."""

    def __init__(self, options: RegistryOptions, registry: SchemaRegistry, values: Mapping[str, Any]) -> None:
        self.options = options
        self.registry = registry
        self.values = values
        self._readers: BoundedCache[tuple[bytes, ...], ReaderOfBatch] = BoundedCache(_KEPT)
        self._writers: BoundedCache[tuple[ConnectSchema, frozenset[str]], WriterOfBatch] = BoundedCache(_KEPT)

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Self:
        return cls(*RegistryOptions.of(cls.java_class, settings))

    # ---- Reading

    def frame(self, data: Column) -> Column:
        is_framed = (F.octet_length(data) >= FRAME_LENGTH) & (F.substring(data, 1, 1) == F.lit(b"\0"))
        return F.when(is_framed, F.substring(data, 1, FRAME_LENGTH))

    def reader(self, frames: Sequence[bytes]) -> Converter:
        known = self._readers.get(tuple(frames))
        if known is not None:
            return known
        readers, unreadable = self._schema_readers(frames)
        reader = ReaderOfBatch(self.java_class, readers, unreadable, self.frame)
        return reader if unreadable else self._readers.put(tuple(frames), reader)

    def stream_reader(self, topic: str) -> Converter:
        """Read with the schemas that the topic's subject has now. A record with a later one ends the query, which knows
        it after a restart."""
        subject = self._stream_subject(topic)
        try:
            versions = self._named(subject, lambda: self.registry.versions(subject))
        except SchemaError as error:
            _raise_if_fatal(error)
            raise TerminalError(_whole(error)) from None
        readers, unreadable = self._schema_readers([self._first_frame(schema.schema_id) for schema in versions])
        for problem in unreadable.values():
            raise TerminalError(problem)
        reader = ReaderOfBatch(self.java_class, readers, {}, self.frame, stops_at_unknown=subject)
        if reader.has_varieties:
            raise TerminalError(
                f"the versions of the subject {subject} have fields whose types don't fit into one column: delete "
                "those of which the topic has no records any more"
            )
        return reader

    def _stream_subject(self, topic: str) -> str:
        if self.options.strategy is not SubjectNameStrategy.TOPIC:
            side = "key" if self.options.is_key else "value"
            raise TerminalError(
                f"{self.options.strategy} names subjects by records, which are not known before the query reads them: "
                f"set {side}.subject.name.strategy={SubjectNameStrategy.TOPIC}"
            )
        return self.options.strategy.subject(topic, None, is_key=self.options.is_key)

    def _first_frame(self, schema_id: int) -> bytes:
        """Return the frame of records with a schema. Of several messages of a Protobuf file it is the first one's."""
        return framed(schema_id, b"")

    def _schema_readers(self, frames: Sequence[bytes]) -> tuple[dict[bytes, SchemaReader], dict[bytes, str]]:
        """Return a reader for each frame, or the reason why there is none."""
        readers: dict[bytes, SchemaReader] = {}
        unreadable: dict[bytes, str] = {}
        for frame in sorted(frames):
            schema_id = int.from_bytes(frame[1:FRAME_LENGTH], "big")
            try:
                made = self._schema_reader(frame, self._own(self.registry.schema(schema_id)))
                spark_type(made.schema)  # Refuses what a column can't be.
                readers[frame] = made
            except (DataException, SchemaError) as error:
                _raise_if_fatal(error)
                unreadable[frame] = f"schema {schema_id} can't be used: {_whole(error)}"
                log.warning("schema %d can't be used: %s", schema_id, _whole(error))
        return readers, unreadable

    def _own(self, schema: RegisteredSchema) -> RegisteredSchema:
        if schema.kind != self.kind:
            raise DataException(
                f"it is of the kind {schema.kind}, and {type(self).__name__} reads {self.kind}: choose the converter "
                "for its kind"
            )
        return schema

    def _references(self, schema: RegisteredSchema) -> Mapping[str, str]:
        return referenced_texts(self.registry, schema)

    @abstractmethod
    def _schema_reader(self, frame: bytes, schema: RegisteredSchema) -> SchemaReader:
        """Return the reader of records with this frame. Raise DataException or SchemaError for an unusable schema."""

    def to_connect(self, prepared: Column, variety: str | None) -> Decoded:
        raise DataException("the frames of the batch are unknown")

    # ---- Writing

    def writer(self, schema: ConnectSchema | None, topics: Callable[[], Iterable[str]]) -> Converter:
        if schema is None:
            return self
        by_topic = self.options.strategy.uses_topic
        names = frozenset(topics()) if by_topic else frozenset(("",))
        known = self._writers.get((schema, names))
        if known is not None and not self._may_change:
            return known
        writers: dict[str, SchemaWriter] = {}
        refused: dict[str, str] = {}
        for topic in sorted(names):
            try:
                writers[topic] = self._schema_writer(schema, topic)
            except (DataException, SchemaError) as error:
                _raise_if_fatal(error)
                refused[topic] = _whole(error)
        if known is not None and not refused and known.writes_like(writers):
            return known
        made = WriterOfBatch(self.java_class, writers, refused, by_topic=by_topic)
        return made if refused else self._writers.put((schema, names), made)

    @property
    def _may_change(self) -> bool:
        """Whether the schema to write with may be another one next time."""
        return self.options.uses_latest and not self.options.registers

    @abstractmethod
    def _schema_writer(self, schema: ConnectSchema, topic: str) -> SchemaWriter:
        """Return the writer of records of this schema. Raise DataException or SchemaError."""

    def _registered(self, topic: str, text: str, name: str | None) -> RegisteredSchema:
        """Return the schema to write with: the given one, or the latest of the subject. Raise SchemaError."""
        options, normalizes = self.options, self.options.normalizes
        subject = options.strategy.subject(topic, name, is_key=options.is_key)
        if options.registers:
            return self._named(subject, lambda: self.registry.register(subject, self.kind, text, normalize=normalizes))
        if options.uses_latest:
            return self._own(self._named(subject, lambda: self.registry.latest(subject)))
        return self._named(subject, lambda: self.registry.registered(subject, self.kind, text, normalize=normalizes))

    def _named(self, subject: str, request: Callable[[], Found]) -> Found:
        try:
            return request()
        except SchemaNotFound as error:
            text = f"the subject {subject} does not have the schema of the records: {error}"
            raise SchemaNotFound(text, _UNREGISTERED, status=error.status, code=error.code) from None
        except RegistryRefused as error:
            text = f"the subject {subject} does not take the schema of the records: {error}"
            raise RegistryRefused(text, error.advice, status=error.status, code=error.code) from None

    def from_connect(self, datum: Datum) -> Encoded:
        raise DataException(
            f"{type(self).__name__} writes data with a schema, and these records have none: declare it "
            "(barnabas.schema of JsonConverter), or choose another converter"
        )

    def header_from_connect(self, value: Column, schema: Column) -> Encoded:
        raise DataException(f"{type(self).__name__} is for keys and values")


def _raise_if_fatal(error: Exception) -> None:
    """Raise what is not the fault of records: a registry that does not answer, or that refuses this client."""
    if isinstance(error, RegistryUnreachable):
        raise RegistryUnreachable(error.whole) from None
    if isinstance(error, RegistryRefused) and error.status in _DENIED:
        raise TerminalError(error.whole) from None


def _whole(error: Exception) -> str:
    return error.whole if isinstance(error, SchemaError) else str(error)
