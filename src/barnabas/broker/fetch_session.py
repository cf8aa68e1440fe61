"""Fetch sessions (KIP-227): the broker stores which partitions a client fetches, so that polls name only changes.

The session watches its partitions and reads only those with changes for the client. So the cost of a poll depends on
the number of changes, not on the number of watched partitions.

A session is created by a full fetch with epoch 0, used with epochs 1, 2, ... and closed by epoch -1. The cache has a
fixed number of slots. A new session evicts one that was idle for ``eviction_ms``, or a smaller one of the same age. The
number of partitions in the sessions of all consumers is limited, too: a client that exceeds it fetches without a
session. So does a client that names many partitions that do not exist or that it may not read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas.common.errors import ErrorCode
from barnabas.common.steps import whole

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence

    from barnabas.broker.partition import PartitionWatcher
    from barnabas.broker.replication.replica_state import FollowerContact, ReplicaState
    from barnabas.common.topic_partition import TopicPartition
    from barnabas.common.uuid import Uuid
    from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, PartitionData

__all__ = ["FINAL_EPOCH", "INITIAL_EPOCH", "FetchContext", "FetchSession", "FetchSessionCache", "WantedPartition"]

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_INVALID_SESSION_ID = 0
_EPOCH_MAX = 2147483647
PARTITIONS_A_STEP = 500
"""About 1 ms."""


class Watched(Protocol):
    """The state of a partition that a consumer or a follower may see."""

    @property
    def topic_partition(self) -> TopicPartition: ...

    def add_watcher(self, watcher: PartitionWatcher) -> None: ...

    def remove_watcher(self, watcher: PartitionWatcher) -> None: ...


class PartitionKey(NamedTuple):
    """Identifies a topic by id from version 13 on, and by name before. The other field is empty."""

    topic_id: Uuid
    topic: str
    partition: int


class WantedPartition:
    """One partition that a client fetches, and the state that it received last."""

    __slots__ = (
        "_session",
        "changes",
        "current_leader_epoch",
        "fetch_offset",
        "key",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "replica",
        "sent_high_watermark",
        "sent_log_start_offset",
        "turn",
        "watched",
    )

    def __init__(self, key: PartitionKey) -> None:
        self.key = key
        self._session: FetchSession | None = None
        self.watched: Watched | None = None
        self.changes = 0
        """The number of changes of the watched partition."""
        self.replica: ReplicaState | None = None
        """For a follower: the leader's state of that follower."""
        self.turn = 0
        """The position in the session's order. Partitions that were added together share one."""
        self.fetch_offset = 0
        self.current_leader_epoch = -1
        self.last_fetched_epoch = -1
        self.log_start_offset = -1
        self.max_bytes = 0
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1

    def is_restarted_by(self, requested: FetchPartition) -> bool:
        """Return whether the request does not continue after the last answer, which the client may have discarded."""
        is_same_epoch = requested.current_leader_epoch == self.current_leader_epoch
        return requested.fetch_offset <= self.fetch_offset or not is_same_epoch

    def must_send(self, answer: PartitionData) -> bool:
        """Return whether an incremental answer must include the partition, and store the sent state."""
        send = bool(answer.records)
        if answer.high_watermark != self.sent_high_watermark:
            self.sent_high_watermark = answer.high_watermark
            send = True
        if answer.log_start_offset != self.sent_log_start_offset:
            self.sent_log_start_offset = answer.log_start_offset
            send = True
        if answer.preferred_read_replica != -1 or answer.diverging_epoch is not None:
            send = True
        if answer.error_code:
            # The next answer must report that the error has ended.
            self.sent_high_watermark = -1
            send = True
        return send

    def partition_changed(self, appended_bytes: int | None) -> None:
        session = self._session
        self.changes += 1
        if session is not None:
            session.unread[self.key] = self
            if appended_bytes is not None:
                session.notify(appended_bytes)


class FetchSession:
    __slots__ = (
        "_joins_with_others",
        "_last_turn",
        "_listeners",
        "contact",
        "counted",
        "created_ms",
        "epoch",
        "id",
        "is_committed_only",
        "is_privileged",
        "last_used_ms",
        "partitions",
        "unread",
        "uses_topic_ids",
        "watched_topics",
    )

    def __init__(self, session_id: int, *, is_privileged: bool, uses_topic_ids: bool, now_ms: int) -> None:
        self.id = session_id
        self.is_privileged = is_privileged
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.epoch = 1
        self.counted = 0
        """The number of its partitions that count towards the limit of all consumers."""
        self.contact: FollowerContact | None = None
        """The contact of the session's follower; None for a consumer."""
        self.is_committed_only: bool | None = None
        self.partitions: dict[PartitionKey, WantedPartition] = {}
        self.unread: dict[PartitionKey, WantedPartition] = {}
        """Partitions that may have changes; all others are watched."""
        self.watched_topics: dict[str, int] = {}
        """The number of watched partitions by topic."""
        self._last_turn = 0
        self._joins_with_others = True
        self._listeners: dict[Callable[[int], None], None] = {}

    def put(self, wanted: WantedPartition) -> None:
        """Add a partition, or change what the client fetches of it."""
        if wanted._session is None:
            self.partitions[wanted.key] = wanted
            self._join(wanted)
        self.unread[wanted.key] = wanted

    def begin_with(self, partitions: dict[PartitionKey, WantedPartition]) -> None:
        """Add all partitions of a new session."""
        self.partitions, self.unread = partitions, dict(partitions)
        for wanted in partitions.values():
            self._join(wanted)

    def _join(self, wanted: WantedPartition) -> None:
        if not self._joins_with_others:
            self._joins_with_others = True
            self._last_turn += 1
        wanted._session = self
        wanted.turn = self._last_turn

    def forget(self, key: PartitionKey) -> None:
        wanted = self.partitions.pop(key, None)
        self.unread.pop(key, None)
        if wanted is not None:
            self._leave(wanted)

    def _leave(self, wanted: WantedPartition) -> None:
        self._unwatch(wanted)
        wanted._session = None
        replica = wanted.replica
        if replica is not None and replica.contact is self.contact:
            replica.contact = None

    def move_to_end(self, wanted: WantedPartition) -> None:
        self._joins_with_others = False
        self._last_turn += 1
        wanted.turn = self._last_turn

    def watch(self, wanted: WantedPartition, partition: Watched | None) -> None:
        """Watch the partition. With None each request reads the partition, and it never ends a wait."""
        if wanted.watched is partition or wanted._session is not self:
            return
        self._unwatch(wanted)
        if partition is None:
            return
        wanted.watched = partition
        partition.add_watcher(wanted)
        topic = partition.topic_partition.topic
        self.watched_topics[topic] = self.watched_topics.get(topic, 0) + 1

    def _unwatch(self, wanted: WantedPartition) -> None:
        partition = wanted.watched
        if partition is None:
            return
        wanted.watched = None
        partition.remove_watcher(wanted)
        topic = partition.topic_partition.topic
        self.watched_topics[topic] -= 1
        if not self.watched_topics[topic]:
            del self.watched_topics[topic]

    def read_again(self, topics: Collection[str] | None = None) -> None:
        """Forget the known state of the partitions (of these topics): it may have changed."""
        for key, wanted in self.partitions.items():
            if topics is None or (wanted.watched is not None and wanted.watched.topic_partition.topic in topics):
                self.unread[key] = wanted

    def in_order(self) -> list[WantedPartition]:
        """Return the partitions to read. Those that were served last are at the end."""
        return sorted(self.unread.values(), key=_turn)

    def close(self) -> None:
        for wanted in self.partitions.values():
            self._leave(wanted)
        self.notify(0)

    # A waiting fetch listens to this instead of each partition.

    def add_listener(self, listener: Callable[[int], None]) -> None:
        self._listeners[listener] = None

    def remove_listener(self, listener: Callable[[int], None]) -> None:
        self._listeners.pop(listener, None)

    def notify(self, appended_bytes: int) -> None:
        for listener in tuple(self._listeners):
            listener(appended_bytes)


class FetchContext:
    """The partitions that one request fetches, and the reduction of its answer. ``wanted`` omits unchanged ones."""

    __slots__ = ("error_code", "is_incremental", "session", "wanted")

    def __init__(
        self,
        wanted: Sequence[WantedPartition],
        session: FetchSession | None = None,
        *,
        is_incremental: bool = False,
        error_code: ErrorCode = ErrorCode.NONE,
    ) -> None:
        self.wanted = wanted
        self.session = session
        self.is_incremental = is_incremental
        self.error_code = error_code

    @property
    def session_id(self) -> int:
        return _INVALID_SESSION_ID if self.session is None else self.session.id

    @property
    def is_empty(self) -> bool:
        """Whether the request fetches no partition, so that it need not wait."""
        return self.session is None and not self.wanted

    def refresh(self, allowed_in_order: Callable[[Sequence[str]], Sequence[str]], *, is_committed_only: bool) -> None:
        """Recompute ``wanted``, with the current permissions and isolation level."""
        session = self.session
        if session is None:
            return
        if session.is_committed_only is not is_committed_only:
            session.is_committed_only = is_committed_only
            session.read_again()
        topics = list(session.watched_topics)
        allowed = allowed_in_order(topics)
        if len(allowed) != len(topics):
            session.read_again(set(topics).difference(allowed))
        if self.is_incremental:
            self.wanted = session.in_order()

    def select(
        self, answers: Iterable[tuple[WantedPartition, PartitionData]]
    ) -> list[tuple[WantedPartition, PartitionData]]:
        """Return the partitions to include. Those with data move to the end, so that none starves the others."""
        if self.session is None:
            return list(answers)
        selected = []
        session = self.session
        for pair in answers:
            wanted, answer = pair
            if wanted.must_send(answer) or not self.is_incremental:
                selected.append(pair)
                if answer.records:
                    session.move_to_end(wanted)
        return selected


class FetchSessionCache:
    def __init__(
        self,
        *,
        slots: int,
        eviction_ms: int,
        new_session_id: Callable[[], int],
        consumer_partitions_max: int = 100_000,
    ) -> None:
        """``consumer_partitions_max`` limits the sessions of all consumers together; followers are not limited."""
        self._slots = slots
        self._consumer_partitions_max = consumer_partitions_max
        self._consumer_partitions = 0
        self._eviction_ms = eviction_ms
        self._new_session_id = new_session_id
        self._sessions: dict[int, FetchSession] = {}
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def partition_count(self) -> int:
        return sum(len(session.partitions) for session in self._sessions.values())

    def context(self, request: FetchRequest, version: int, now_ms: int, *, is_follower: bool) -> FetchContext:
        """Interpret a request's session id and epoch."""
        return whole(self.context_in_steps(request, version, now_ms, is_follower=is_follower))

    def context_in_steps(
        self, request: FetchRequest, version: int, now_ms: int, *, is_follower: bool
    ) -> Generator[None, None, FetchContext]:
        """Do the same as ``context``, with a step for every ``PARTITIONS_A_STEP`` partitions of the request."""
        uses_topic_ids = version >= 13
        session_id, epoch = request.session_id, request.session_epoch
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session_id != _INVALID_SESSION_ID:
                self._remove(session_id)
            partitions: dict[PartitionKey, WantedPartition] = {}
            for number, _ in enumerate(_updated(partitions, request), 1):
                if not number % PARTITIONS_A_STEP:
                    yield
            wanted = list(partitions.values())
            if epoch == FINAL_EPOCH:
                return FetchContext(wanted)
            session = self._create(partitions, is_follower=is_follower, uses_topic_ids=uses_topic_ids, now_ms=now_ms)
            return FetchContext(wanted, session)
        return (yield from self._incremental(request, uses_topic_ids, now_ms))

    def _incremental(
        self, request: FetchRequest, uses_topic_ids: bool, now_ms: int
    ) -> Generator[None, None, FetchContext]:
        session = self._sessions.get(request.session_id)
        if session is None:
            return FetchContext((), error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            return FetchContext((), error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            return FetchContext((), error_code=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        # From now on another request of this epoch is refused.
        session.epoch = 1 if session.epoch == _EPOCH_MAX else session.epoch + 1
        session.last_used_ms = now_ms
        before = len(session.partitions)
        for number, wanted in enumerate(_updated(session.partitions, request, repeats=session.is_privileged), 1):
            session.put(wanted)
            if not number % PARTITIONS_A_STEP:
                yield
                if self._sessions.get(session.id) is not session:
                    return FetchContext((), error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        for topic in request.forgotten_topics_data:
            for partition in topic.partitions:
                session.forget(PartitionKey(topic.topic_id, topic.topic, partition))
        if not session.is_privileged:
            self._count(session)
            if self._consumer_partitions > self._consumer_partitions_max and len(session.partitions) > before:
                # The client sends a full fetch next, and receives no session if the cache is still full.
                self._remove(session.id)
                return FetchContext((), error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if not session.partitions:
            self._remove(session.id)
            return FetchContext(())
        return FetchContext(session.in_order(), session, is_incremental=True)

    def _count(self, session: FetchSession) -> None:
        """Update the number of partitions that consumers have in all sessions."""
        self._consumer_partitions += len(session.partitions) - session.counted
        session.counted = len(session.partitions)

    def give_up(self, context: FetchContext) -> None:
        """End the session of a request; the answer reports that to the client."""
        if context.session is not None:
            self._remove(context.session.id)
            context.session = None

    def _create(
        self, wanted: dict[PartitionKey, WantedPartition], *, is_follower: bool, uses_topic_ids: bool, now_ms: int
    ) -> FetchSession | None:
        if not wanted or self._slots <= 0:
            return None
        if len(self._sessions) >= self._slots and not self._evict_for(len(wanted), is_follower, now_ms):
            return None
        if not is_follower:
            if not self._has_room_for(len(wanted), now_ms):
                return None
        session_id = self._new_session_id()
        while session_id in self._sessions or session_id == _INVALID_SESSION_ID:
            session_id = self._new_session_id()
        session = FetchSession(session_id, is_privileged=is_follower, uses_topic_ids=uses_topic_ids, now_ms=now_ms)
        session.begin_with(wanted)
        if not is_follower:
            self._count(session)
        self._sessions[session_id] = session
        return session

    def _has_room_for(self, size: int, now_ms: int) -> bool:
        """Return whether a consumer's session may watch ``size`` partitions. Evict stale sessions if needed."""
        most = self._consumer_partitions_max
        if size > most:
            return False
        if self._consumer_partitions + size > most:
            stale = [
                session
                for session in self._sessions.values()
                if not session.is_privileged and now_ms - session.last_used_ms > self._eviction_ms
            ]
            for session in stale:
                self._evict(session)
        return self._consumer_partitions + size <= most

    def _evict_for(self, size: int, is_privileged: bool, now_ms: int) -> bool:
        """Free a slot: evict a stale session first, then a less valuable one that is old enough."""
        oldest = min(self._sessions.values(), key=lambda session: session.last_used_ms)
        if now_ms - oldest.last_used_ms > self._eviction_ms:
            return self._evict(oldest)
        candidates = [s for s in self._sessions.values() if now_ms - s.created_ms > self._eviction_ms]
        if not candidates:
            return False
        least = min(candidates, key=lambda session: (session.is_privileged, len(session.partitions)))
        if (least.is_privileged, len(least.partitions)) < (is_privileged, size):
            return self._evict(least)
        return False

    def _evict(self, session: FetchSession) -> bool:
        self._remove(session.id)
        self.evictions += 1
        return True

    def _remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._consumer_partitions -= session.counted
            session.close()


def _turn(wanted: WantedPartition) -> int:
    return wanted.turn


def _updated(
    partitions: dict[PartitionKey, WantedPartition], request: FetchRequest, *, repeats: bool = False
) -> Iterator[WantedPartition]:
    """Apply a request's partitions one after the other.

    ``repeats``: a client that restarts a partition receives its state again. Kafka's leaders do not repeat it, so that
    a follower keeps an old high watermark until the next one arrives.
    """
    max_bytes = 0
    for topic in request.topics:
        for requested in topic.partitions:
            key = PartitionKey(topic.topic_id, topic.topic, requested.partition)
            wanted = partitions.get(key)
            if wanted is None:
                wanted = partitions[key] = WantedPartition(key)
            elif repeats and wanted.is_restarted_by(requested):
                wanted.sent_high_watermark = wanted.sent_log_start_offset = -1
            wanted.fetch_offset = requested.fetch_offset
            wanted.current_leader_epoch = requested.current_leader_epoch
            wanted.last_fetched_epoch = requested.last_fetched_epoch
            wanted.log_start_offset = requested.log_start_offset
            if requested.partition_max_bytes != max_bytes:
                max_bytes = requested.partition_max_bytes
            wanted.max_bytes = max_bytes  # Equal numbers of many partitions share one object.
            yield wanted
