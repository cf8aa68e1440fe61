"""The groups of one partition of ``__consumer_offsets``, of all kinds: a group id belongs to one kind at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import Any, TypeVar

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.coordinator.group.group import Group
from barnabas.coordinator.group.group_state import GroupType
from barnabas.coordinator.group.modern_group import ModernGroup

__all__ = ["Groups"]

G = TypeVar("G", bound=ModernGroup[Any, Any])

_NONE: frozenset[str] = frozenset()


class Groups:
    def __init__(self) -> None:
        self._by_id: dict[str, Group] = {}
        self._by_topic: dict[str, set[str]] = {}
        """The ids of groups whose assignment depends on a topic."""
        self.is_loading = True

    def __iter__(self) -> Iterator[Group]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def find(self, group_id: str) -> Group | None:
        return self._by_id.get(group_id)

    def require(self, group_id: str) -> Group:
        """Return the group; raises GROUP_ID_NOT_FOUND."""
        group = self._by_id.get(group_id)
        if group is None:
            raise ApiException(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    def type_of(self, group_id: str) -> GroupType | None:
        group = self._by_id.get(group_id)
        return None if group is None else group.group_type

    def of_kind(self, kind: type[G]) -> Iterator[G]:
        return (group for group in self if isinstance(group, kind))

    def find_of_kind(self, group_id: str, kind: type[G]) -> G | None:
        group = self._by_id.get(group_id)
        return group if isinstance(group, kind) else None

    def require_of_kind(self, group_id: str, kind: type[G], *, name: str = "Group") -> G:
        """Return the group; raises GROUP_ID_NOT_FOUND. ``name`` begins the message if no group has this id."""
        group = self._by_id.get(group_id)
        if isinstance(group, kind):
            return group
        is_other = f"Group {group_id} is not a {kind.group_type.value} group."
        raise ApiException(ErrorCode.GROUP_ID_NOT_FOUND, f"{name} {group_id} not found." if group is None else is_other)

    def of_record(self, group_id: str, kind: type[G]) -> G:
        """Return the group of a record; the first record of a group creates it.

        Raise UNKNOWN_SERVER_ERROR if the log has records of another kind for this id.
        """
        group = self._by_id.get(group_id)
        if isinstance(group, kind):
            return group
        if group is not None and not group.is_simple:
            raise ApiException(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"the log has records of the {kind.group_type.value} group {group_id}, which is a "
                f"{group.group_type.value} group",
            )
        created = kind(group_id)
        self.put(created)
        return created

    def put(self, group: Group) -> None:
        self._by_id[group.group_id] = group

    def remove(self, group_id: str) -> None:
        self._by_id.pop(group_id, None)

    def clear(self) -> None:
        self._by_id.clear()
        self._by_topic.clear()

    # -- topics

    def subscribed_to(self, topic: str) -> Set[str]:
        """Return the ids of groups whose assignment depends on this topic."""
        return self._by_topic.get(topic, _NONE)

    def move_subscription(self, group_id: str, before: Iterable[str], after: Set[str]) -> None:
        """Record that the topics of a group have changed."""
        by_topic = self._by_topic
        before = set(before)
        for topic in before - after:
            subscribed = by_topic.get(topic)
            if subscribed is not None:
                subscribed.discard(group_id)
                if not subscribed:
                    del by_topic[topic]
        for topic in after - before:
            by_topic.setdefault(topic, set()).add(group_id)

    def request_metadata_refresh(self, topics: Iterable[str]) -> None:
        """Let the groups of changed topics compute their assignments again."""
        for topic in topics:
            for group_id in self._by_topic.get(topic, _NONE):
                group = self._by_id.get(group_id)
                if group is not None:
                    group.request_metadata_refresh()
