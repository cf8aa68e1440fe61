"""Configs that were set on a resource: the content of ConfigRecords, without inherited values.

Values are the text that was set. Broker secrets are among them in clear, so an image is never
printed: ``repr`` shows names only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, NamedTuple

from barnabas.common.config_codes import ConfigResourceType
from barnabas.common.stepped_sort import sorted_in_pieces
from barnabas.metadata.image.record_writer import RecordWriter
from barnabas.metadata.persistent_map import PersistentMap
from barnabas.protocol.records.config_record import ConfigRecord

__all__ = ["DEFAULT_BROKER", "ConfigResource", "ConfigResourceType", "ConfigsDelta", "ConfigsImage"]

_NO_CONFIGS: Mapping[str, str] = {}


class ConfigResource(NamedTuple):
    """The broker with the empty name is the default of all brokers."""

    type: int
    name: str

    @classmethod
    def topic(cls, name: str) -> ConfigResource:
        return cls(int(ConfigResourceType.TOPIC), name)

    @classmethod
    def broker(cls, broker_id: int) -> ConfigResource:
        return cls(int(ConfigResourceType.BROKER), str(broker_id))


DEFAULT_BROKER = ConfigResource(int(ConfigResourceType.BROKER), "")


class ConfigsImage:
    __slots__ = ("by_resource",)

    EMPTY: ClassVar[ConfigsImage]

    def __init__(self, by_resource: PersistentMap[ConfigResource, Mapping[str, str]]) -> None:
        self.by_resource = by_resource

    def of(self, resource: ConfigResource) -> Mapping[str, str]:
        return self.by_resource.get(resource, _NO_CONFIGS)

    def of_topic(self, name: str) -> Mapping[str, str]:
        return self.by_resource.get(ConfigResource(2, name), _NO_CONFIGS)

    def of_broker(self, broker_id: int) -> Mapping[str, str]:
        return self.by_resource.get(ConfigResource(4, str(broker_id)), _NO_CONFIGS)

    def of_all_brokers(self) -> Mapping[str, str]:
        return self.by_resource.get(DEFAULT_BROKER, _NO_CONFIGS)

    def names(self, resource_type: int) -> Iterator[str]:
        """The resources of a type that have at least one config."""
        return (resource.name for resource in self.by_resource if resource.type == resource_type)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, ConfigsImage) and self.by_resource == other.by_resource)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ConfigsImage({ {resource: list(configs) for resource, configs in self.by_resource.items()} })"

    def write(self, writer: RecordWriter) -> None:
        for resource in sorted_in_pieces(self.by_resource):
            for name, value in sorted(self.by_resource[resource].items()):
                record = ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)
                writer.write(record, 0)


ConfigsImage.EMPTY = ConfigsImage(PersistentMap())


class ConfigsDelta:
    """``changes``: per resource the new value of each changed key, None for a removed one."""

    __slots__ = ("changes", "image")

    def __init__(self, image: ConfigsImage) -> None:
        self.image = image
        self.changes: dict[ConfigResource, dict[str, str | None]] = {}

    def replay(self, record: ConfigRecord) -> None:
        resource = ConfigResource(record.resource_type, record.resource_name)
        self.changes.setdefault(resource, {})[record.name] = record.value

    def delete_topic(self, name: str) -> None:
        resource = ConfigResource.topic(name)
        before = self.image.by_resource.get(resource)
        if before:
            self.changes[resource] = dict.fromkeys(before)
        else:
            self.changes.pop(resource, None)

    def finish_snapshot(self) -> None:
        for resource, configs in self.image.by_resource.items():
            changes = self.changes.setdefault(resource, {})
            for name in configs:
                changes.setdefault(name, None)

    def apply(self) -> ConfigsImage:
        put: dict[ConfigResource, Mapping[str, str]] = {}
        removed: list[ConfigResource] = []
        for resource, changes in self.changes.items():
            merged = {**self.image.of(resource), **changes}
            configs = {name: value for name, value in merged.items() if value is not None}
            if configs:
                put[resource] = configs
            else:
                removed.append(resource)
        return ConfigsImage(self.image.by_resource.updated(put, removed))
