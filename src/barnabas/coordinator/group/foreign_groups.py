"""Groups of other types that a log brings along: consumer (KIP-848), share and streams groups.

This coordinator does not run them and does not advertise their APIs, but a directory that Kafka wrote may hold
them. Their records stay in the log. We remember which keys live, so that a group can be listed, and so that
deleting it or joining it as a classic group writes the tombstones that Kafka would write.
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.coordinator.group.group_records import ForeignGroupRecord
from barnabas.coordinator.group.group_state import GroupType

__all__ = ["ForeignGroups"]


class ForeignGroups:
    def __init__(self) -> None:
        self._keys: dict[str, dict[bytes, GroupType]] = {}

    def replay(self, record: ForeignGroupRecord) -> None:
        if record.value is not None:
            self._keys.setdefault(record.group_id, {})[record.key] = record.group_type
            return
        keys = self._keys.get(record.group_id)
        if keys is not None:
            keys.pop(record.key, None)
            if not keys:
                del self._keys[record.group_id]

    def type_of(self, group_id: str) -> GroupType | None:
        keys = self._keys.get(group_id)
        return None if keys is None else next(iter(keys.values()))

    def items(self) -> Iterator[tuple[str, GroupType]]:
        return ((group_id, next(iter(keys.values()))) for group_id, keys in self._keys.items())

    def tombstones(self, group_id: str) -> list[ForeignGroupRecord]:
        keys = self._keys.get(group_id, {})
        return [ForeignGroupRecord(group_id, group_type, key, None) for key, group_type in keys.items()]
