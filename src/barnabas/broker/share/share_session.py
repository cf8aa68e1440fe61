"""Share sessions: which partitions a member of a share group fetches, so that its requests name only changes.

A session belongs to a group and a member. Epoch 0 begins it, 1, 2, ... continue it, -1 ends it. It ends with its
connection, too: the records that its member had acquired are released then. A broker keeps a limited number of them;
other members have to wait until one ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.common.errors import ApiException, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from barnabas.common.uuid import Uuid

__all__ = ["FINAL_EPOCH", "INITIAL_EPOCH", "SessionKey", "ShareSession", "ShareSessionCache", "TopicIdPartition"]

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_EPOCH_MAX = 2147483647


class TopicIdPartition(NamedTuple):
    topic_id: Uuid
    partition: int


class SessionKey(NamedTuple):
    group_id: str
    member_id: str


class ShareSession:
    __slots__ = ("connection_id", "epoch", "key", "partitions")

    def __init__(self, key: SessionKey, connection_id: str, partitions: Iterable[TopicIdPartition]) -> None:
        self.key = key
        self.connection_id = connection_id
        self.epoch = 1
        self.partitions: dict[TopicIdPartition, bool] = dict.fromkeys(partitions, False)
        """In the order in which they are fetched, and whether the next answer must contain them even without data."""

    def update(self, added: Iterable[TopicIdPartition], forgotten: Iterable[TopicIdPartition]) -> None:
        for partition in added:
            self.partitions.setdefault(partition, True)
        for partition in forgotten:
            self.partitions.pop(partition, None)

    def check_epoch(self, epoch: int) -> None:
        """Raise INVALID_SHARE_SESSION_EPOCH unless this is the next epoch of the session."""
        if epoch != self.epoch:
            raise ApiException(
                ErrorCode.INVALID_SHARE_SESSION_EPOCH,
                f"The next epoch of the share session of member {self.key.member_id} is {self.epoch}, not {epoch}",
            )

    def advance(self) -> None:
        self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1

    def must_send(self, partition: TopicIdPartition, *, has_records: bool, has_error: bool) -> bool:
        """Return whether an answer must contain the partition. Those with records are fetched last the next time."""
        is_requested = self.partitions.get(partition)
        if is_requested is None:
            return has_records or has_error  # Forgotten meanwhile.
        if has_records:
            del self.partitions[partition]
        if is_requested or has_error or has_records:
            # After an error the next answer has the partition in any case, to say that the error is over.
            self.partitions[partition] = has_error
        return is_requested or has_error or has_records


class ShareSessionCache:
    """``on_ended`` is called for each session that a lost connection ends; ``on_group_left`` when no session of a group
    is left after that."""

    def __init__(
        self, sessions_max: int, *, on_ended: Callable[[ShareSession], None], on_group_left: Callable[[str], None]
    ) -> None:
        self._sessions_max = sessions_max
        self._on_ended = on_ended
        self._on_group_left = on_group_left
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._by_connection: dict[str, dict[str, set[str]]] = {}
        """Connection -> groups that it has had sessions of -> their members that have one now."""
        self._members: dict[str, int] = {}
        """The number of sessions of each group."""
        self.evictions = 0
        """The number of sessions that ended with their connections."""

    def __len__(self) -> int:
        return len(self._sessions)

    def partition_count(self) -> int:
        """May be called on another thread."""
        return sum(len(session.partitions) for session in list(self._sessions.values()))

    def get(self, key: SessionKey) -> ShareSession:
        """Raise SHARE_SESSION_NOT_FOUND if the member has none."""
        session = self._sessions.get(key)
        if session is None:
            raise ApiException(
                ErrorCode.SHARE_SESSION_NOT_FOUND, f"Member {key.member_id} has no share session on this broker"
            )
        return session

    def begin(self, key: SessionKey, connection_id: str, partitions: Iterable[TopicIdPartition]) -> ShareSession:
        """Begin a session; it replaces an earlier one of the member. Raise SHARE_SESSION_LIMIT_REACHED."""
        self.remove(key)
        if len(self._sessions) >= self._sessions_max:
            raise ApiException(
                ErrorCode.SHARE_SESSION_LIMIT_REACHED,
                f"This broker keeps {self._sessions_max} share sessions, which is the limit",
            )
        session = self._sessions[key] = ShareSession(key, connection_id, partitions)
        self._members[key.group_id] = self._members.get(key.group_id, 0) + 1
        self._by_connection.setdefault(connection_id, {}).setdefault(key.group_id, set()).add(key.member_id)
        return session

    def knows_connection(self, connection_id: str) -> bool:
        """Return whether the connection has begun a session before."""
        return connection_id in self._by_connection

    def remove(self, key: SessionKey) -> ShareSession | None:
        session = self._sessions.pop(key, None)
        if session is not None:
            self._members[key.group_id] -= 1
            self._by_connection[session.connection_id][key.group_id].discard(key.member_id)
        return session

    def connection_closed(self, connection_id: str) -> None:
        groups = self._by_connection.get(connection_id, {})
        for group_id, members in groups.items():
            for member_id in sorted(members):
                session = self.remove(SessionKey(group_id, member_id))
                if session is not None:
                    self.evictions += 1
                    self._on_ended(session)
            if not self._members.get(group_id):
                self._members.pop(group_id, None)
                self._on_group_left(group_id)
        self._by_connection.pop(connection_id, None)

    def clear(self) -> None:
        """Forget all sessions: share groups were disabled."""
        self._sessions.clear()
        self._members.clear()
        for groups in self._by_connection.values():
            for members in groups.values():
                members.clear()
