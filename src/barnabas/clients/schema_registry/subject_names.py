"""The subject of a key or a value, by the naming strategies of Confluent's serializers."""

from __future__ import annotations

from enum import StrEnum

from barnabas.clients.schema_registry.errors import SchemaError

__all__ = ["SubjectNameStrategy"]

_PACKAGE = "io.confluent.kafka.serializers.subject."


class SubjectNameStrategy(StrEnum):
    """The values are the names of Confluent's classes, without their package."""

    TOPIC = "TopicNameStrategy"
    RECORD = "RecordNameStrategy"
    TOPIC_RECORD = "TopicRecordNameStrategy"

    @classmethod
    def of(cls, name: str) -> SubjectNameStrategy:
        """Return the strategy of a class name, with its package or without. Raise ValueError."""
        return cls(name.strip().removeprefix(_PACKAGE))

    @property
    def class_name(self) -> str:
        return _PACKAGE + self

    @property
    def uses_topic(self) -> bool:
        return self is not SubjectNameStrategy.RECORD

    def subject(self, topic: str, record_name: str | None, *, is_key: bool) -> str:
        """Return the subject. Raise SchemaError for a schema without a name, if the strategy needs one."""
        if self is SubjectNameStrategy.TOPIC:
            return f"{topic}-{'key' if is_key else 'value'}"
        if not record_name:
            side = "key" if is_key else "value"
            raise SchemaError(
                f"{self} needs the name of a record, and the {side} of topic {topic} has none",
                f"set {side}.subject.name.strategy={SubjectNameStrategy.TOPIC}, or write records with a name",
            )
        return record_name if self is SubjectNameStrategy.RECORD else f"{topic}-{record_name}"
