"""Client quotas by entity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from barnabas.common.stepped_sort import sorted_in_pieces
from barnabas.metadata.image.record_writer import RecordWriter
from barnabas.metadata.persistent_map import PersistentMap
from barnabas.protocol.records.client_quota_record import ClientQuotaRecord, EntityData

__all__ = ["ClientQuotasDelta", "ClientQuotasImage", "QuotaEntity"]

QuotaEntity = tuple[tuple[str, str | None], ...]
"""Pairs of entity type (``user``, ``client-id``, ``ip``) and name, sorted by type; the name None is the default."""

_NO_QUOTAS: Mapping[str, float] = {}


class ClientQuotasImage:
    __slots__ = ("by_entity",)

    EMPTY: ClassVar[ClientQuotasImage]

    def __init__(self, by_entity: PersistentMap[QuotaEntity, Mapping[str, float]]) -> None:
        self.by_entity = by_entity

    def of(self, entity: QuotaEntity) -> Mapping[str, float]:
        return self.by_entity.get(entity, _NO_QUOTAS)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, ClientQuotasImage) and self.by_entity == other.by_entity)

    __hash__ = None  # type: ignore[assignment]

    def write(self, writer: RecordWriter) -> None:
        for entity in sorted_in_pieces(self.by_entity, _order):
            for key, value in sorted(self.by_entity[entity].items()):
                entities = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
                writer.write(ClientQuotaRecord(entity=entities, key=key, value=value, remove=False), 0)


ClientQuotasImage.EMPTY = ClientQuotasImage(PersistentMap())


class ClientQuotasDelta:
    """``changes``: per entity the new value of each changed quota, None for a removed one."""

    __slots__ = ("changes", "image")

    def __init__(self, image: ClientQuotasImage) -> None:
        self.image = image
        self.changes: dict[QuotaEntity, dict[str, float | None]] = {}

    def replay(self, record: ClientQuotaRecord) -> None:
        entity = tuple(sorted(((e.entity_type, e.entity_name) for e in record.entity), key=_kind))
        self.changes.setdefault(entity, {})[record.key] = None if record.remove else record.value

    def finish_snapshot(self) -> None:
        for entity, quotas in self.image.by_entity.items():
            changes = self.changes.setdefault(entity, {})
            for key in quotas:
                changes.setdefault(key, None)

    def apply(self) -> ClientQuotasImage:
        put: dict[QuotaEntity, Mapping[str, float]] = {}
        removed: list[QuotaEntity] = []
        for entity, changes in self.changes.items():
            merged = {**self.image.of(entity), **changes}
            quotas = {key: value for key, value in merged.items() if value is not None}
            if quotas:
                put[entity] = quotas
            else:
                removed.append(entity)
        return ClientQuotasImage(self.image.by_entity.updated(put, removed))


def _kind(pair: tuple[str, str | None]) -> str:
    return pair[0]


def _order(entity: QuotaEntity) -> list[tuple[str, str]]:
    return [(kind, "" if name is None else "=" + name) for kind, name in entity]
