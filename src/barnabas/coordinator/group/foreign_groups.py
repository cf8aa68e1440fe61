"""Groups of other types in an existing log: consumer (KIP-848), share and streams groups.

This coordinator does not run them and does not advertise their APIs, but a directory that Kafka wrote may contain
them. Their records stay in the log. The existing keys are tracked, so that a group can be listed, and so that deleting
it or joining it as a classic group writes Kafka's tombstones, in an order that Kafka can replay: assignments before
members, and the group itself, which must have neither, last.
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.coordinator.group.group_records import ForeignGroupRecord
from barnabas.coordinator.group.group_state import GroupType

__all__ = ["ForeignGroups"]


_TOMBSTONE_ORDER = {
    record_type: rank
    for of_one_type in (
        (8, 7, 6, 16, 5, 4, 3),  # consumer: current and target assignments, regular expressions, members, the group
        (14, 13, 12, 10, 15, 11),  # share
        (22, 21, 20, 23, 19, 17),  # streams
    )
    for rank, record_type in enumerate(of_one_type)
}


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
        keys = sorted(self._keys.get(group_id, {}).items(), key=_rank)
        return [ForeignGroupRecord(group_id, group_type, key, None) for key, group_type in keys]


def _rank(item: tuple[bytes, GroupType]) -> int:
    return _TOMBSTONE_ORDER[int.from_bytes(item[0][:2], "big")]
