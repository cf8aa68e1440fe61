"""Topics and their partitions.

Besides the two ways to find a topic the image keeps, for each broker, the topics that it holds a
replica of, so that fencing one of many brokers does not visit every partition of the cluster, and the names
that would collide in metrics, where Kafka writes ``.`` as ``_``.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, ClassVar, Final

from barnabas.common.errors import InvariantViolated
from barnabas.common.stepped_sort import sorted_in_pieces
from barnabas.common.topic_name import has_collision_characters, unified_topic_name
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.metadata.image.partition_index import PartitionIndex, PartitionKey, Transition
from barnabas.metadata.image.partition_registration import PartitionRegistration
from barnabas.metadata.image.record_writer import RecordWriter
from barnabas.metadata.persistent_map import PersistentMap
from barnabas.protocol.records.clear_elr_record import ClearElrRecord
from barnabas.protocol.records.partition_change_record import PartitionChangeRecord
from barnabas.protocol.records.partition_record import PartitionRecord
from barnabas.protocol.records.remove_topic_record import RemoveTopicRecord
from barnabas.protocol.records.topic_record import TopicRecord

__all__ = ["CHANGES_A_STEP", "LocalReplicaChanges", "TopicDelta", "TopicImage", "TopicsDelta", "TopicsImage"]

CHANGES_A_STEP: Final = 500
"""Some 10 ms of building an image."""


class TopicImage:
    """One topic. ``memo`` belongs to readers: data derived from exactly this value (encoded responses)."""

    __slots__ = ("id", "memo", "name", "partitions")

    def __init__(self, name: str, topic_id: Uuid, partitions: Mapping[int, PartitionRegistration]) -> None:
        self.name = name
        self.id = topic_id
        self.partitions = partitions
        self.memo: Any = None

    def brokers(self) -> set[int]:
        return _brokers_of(self.partitions.values())

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, TopicImage)
            and (self.name, self.id, self.partitions) == (other.name, other.id, other.partitions)
        )

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"TopicImage({self.name!r}, {self.id!r}, {dict(self.partitions)!r})"


class TopicsImage:
    """``imbalanced`` has the partitions that their first replica doesn't lead, including those without a leader."""

    __slots__ = ("by_broker", "by_id", "by_name", "colliding", "imbalanced", "index")

    EMPTY: ClassVar[TopicsImage]

    def __init__(
        self,
        by_name: PersistentMap[str, TopicImage],
        by_id: PersistentMap[Uuid, TopicImage],
        by_broker: Mapping[int, PersistentMap[Uuid, None]],
        colliding: PersistentMap[str, tuple[str, ...]],
        imbalanced: PersistentMap[PartitionKey, None],
        index: PartitionIndex,
    ) -> None:
        self.by_name = by_name
        self.by_id = by_id
        self.by_broker = by_broker
        self.colliding = colliding
        self.imbalanced = imbalanced
        self.index = index

    def names_colliding_with(self, name: str) -> tuple[str, ...]:
        """Return topics with the same metric name: names that are equal, or differ only in ``.`` and ``_``."""
        return self.colliding.get(unified_topic_name(name), ()) if has_collision_characters(name) else ()

    def get(self, name: str) -> TopicImage | None:
        return self.by_name.get(name)

    def partition(self, topic_id: Uuid, partition_id: int) -> PartitionRegistration | None:
        topic = self.by_id.get(topic_id)
        return None if topic is None else topic.partitions.get(partition_id)

    def partitions_of(self, keys: Iterable[PartitionKey]) -> Iterator[tuple[TopicImage, int, PartitionRegistration]]:
        """Return those of the keys that exist in this image."""
        for topic_id, partition_id in keys:
            topic = self.by_id.get(topic_id)
            partition = None if topic is None else topic.partitions.get(partition_id)
            if topic is not None and partition is not None:
                yield topic, partition_id, partition

    def partition_count(self) -> int:
        return self.index.partition_count

    def __len__(self) -> int:
        return len(self.by_id)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, TopicsImage) and self.by_name == other.by_name)

    __hash__ = None  # type: ignore[assignment]

    def write(self, writer: RecordWriter) -> None:
        for name in sorted_in_pieces(self.by_name):
            topic = self.by_name[name]
            writer.write(TopicRecord(name=topic.name, topic_id=topic.id), 0)
            version = writer.metadata_version.partition_record_version
            for partition_id in sorted(topic.partitions):
                partition = topic.partitions[partition_id]
                writer.write(partition.to_record(topic.id, partition_id, writer.metadata_version), version)


_NO_TOPICS: PersistentMap[Uuid, None] = PersistentMap()

TopicsImage.EMPTY = TopicsImage(
    PersistentMap(), PersistentMap(), {}, PersistentMap(), PersistentMap(), PartitionIndex.EMPTY
)


class TopicDelta:
    """The changes of one topic; ``previous`` is None for a topic that did not exist.

    ``is_continued``: other changes were applied before, and then ``previous`` is set. ``is_shrinking``: the topic will
    be deleted.
    """

    __slots__ = ("changes", "id", "is_continued", "is_replaced", "is_shrinking", "name", "previous")

    def __init__(self, name: str, topic_id: Uuid, previous: TopicImage | None, is_replaced: bool) -> None:
        self.name = name
        self.id = topic_id
        self.previous = previous
        self.is_replaced = is_replaced
        self.is_continued = self.is_shrinking = False
        self.changes: dict[int, PartitionRegistration] = {}

    @property
    def is_created(self) -> bool:
        return self.previous is None

    def partition(self, partition_id: int) -> PartitionRegistration | None:
        changed = self.changes.get(partition_id)
        if changed is None and self.previous is not None and not self.is_replaced:
            return self.previous.partitions.get(partition_id)
        return changed

    @property
    def moves_replicas(self) -> bool:
        """Whether other brokers may hold the topic's partitions now, or be eligible to lead them."""
        if self.is_shrinking:  # Its brokers are those of the topic until it is deleted.
            return False
        if self.previous is None or self.is_replaced:
            return True
        before = self.previous.partitions
        for partition_id, after in self.changes.items():
            partition = before.get(partition_id)
            if partition is None or partition.replicas != after.replicas or partition.elr != after.elr:
                return True
        return False

    def moves(self) -> tuple[set[int], set[int]]:
        """Return brokers that hold the topic now, also some that held it before, and those that no longer do.

        A large topic changes piece by piece: only the pieces are read, and of the rest as much as is needed to find a
        broker again.
        """
        if self.previous is None:
            return _brokers_of(self.changes.values()), set()
        before = self.previous.partitions
        gained: set[int] = set()
        left: set[int] = set()
        for partition_id, after in self.changes.items():
            gained.update(_holders_of(after))
            if partition_id in before:
                left.update(_holders_of(before[partition_id]))
        if self.is_replaced:
            left.update(_brokers_of(before[partition_id] for partition_id in before.keys() - self.changes.keys()))
        left -= gained
        rest = iter(() if self.is_replaced else before.items())
        while left and (found := next(rest, None)) is not None:
            if found[0] not in self.changes:
                left.difference_update(_holders_of(found[1]))
        return gained, left

    def partitions(self) -> Mapping[int, PartitionRegistration]:
        if self.previous is None or self.is_replaced:
            return self.changes
        return {**self.previous.partitions, **self.changes}

    def apply(self) -> TopicImage:
        return TopicImage(self.name, self.id, self.partitions())

    def pieces(self) -> Iterator[TopicDelta]:
        """Yield deltas with up to ``CHANGES_A_STEP`` changes, which lead to the same topic one after another."""
        if len(self.changes) <= CHANGES_A_STEP:
            yield self
            return
        changes = iter(self.changes.items())
        piece = TopicDelta(self.name, self.id, self.previous, self.is_replaced)
        while some := dict(islice(changes, CHANGES_A_STEP)):
            piece.changes = some
            yield piece
            piece = TopicDelta(self.name, self.id, None, is_replaced=False)
            piece.is_continued = True


class LocalReplicaChanges:
    """The changes that a broker has to apply to its own partitions, by (topic id, partition)."""

    __slots__ = ("deletes", "directory_ids", "followers", "leaders", "topic_names")

    def __init__(self) -> None:
        self.deletes: set[tuple[Uuid, int]] = set()
        self.leaders: dict[tuple[Uuid, int], PartitionRegistration] = {}
        self.followers: dict[tuple[Uuid, int], PartitionRegistration] = {}
        self.directory_ids: dict[tuple[Uuid, int], Uuid] = {}
        self.topic_names: dict[Uuid, str] = {}

    def topic_partition(self, key: tuple[Uuid, int]) -> TopicPartition:
        return TopicPartition(self.topic_names[key[0]], key[1])

    def add_deleted(
        self, topic: TopicImage, broker_id: int, partitions: Iterable[tuple[int, PartitionRegistration]]
    ) -> None:
        """Add the changes for these partitions of a deleted topic."""
        for partition_id, partition in partitions:
            if broker_id in partition.replicas:
                self.deletes.add((topic.id, partition_id))
                self.topic_names[topic.id] = topic.name

    def add_changed(
        self, delta: TopicDelta, broker_id: int, changes: Iterable[tuple[int, PartitionRegistration]]
    ) -> None:
        """Add the changes for these partitions of a new or changed topic."""
        before = {} if delta.previous is None else delta.previous.partitions
        for partition_id, partition in changes:
            previous = before.get(partition_id)
            key = (delta.id, partition_id)
            if broker_id not in partition.replicas:
                if previous is not None and broker_id in previous.replicas:
                    self.deletes.add(key)
                    self.topic_names[delta.id] = delta.name
                continue
            if previous is not None and previous == partition:
                continue
            self.topic_names[delta.id] = delta.name
            (self.leaders if partition.leader == broker_id else self.followers)[key] = partition
            directory = partition.directory_of(broker_id)
            is_new = previous is None or broker_id not in previous.replicas
            if is_new or (previous is not None and previous.directory_of(broker_id) != directory):
                self.directory_ids[key] = directory


class TopicsDelta:
    """``removed`` are the topics that a record deleted; ``deleted`` also has those that a snapshot does not name."""

    __slots__ = ("_created_by_name", "changed", "deleted", "image", "removed")

    def __init__(self, image: TopicsImage) -> None:
        self.removed: set[Uuid] = set()
        self.image = image
        self.changed: dict[Uuid, TopicDelta] = {}
        self.deleted: dict[Uuid, TopicImage] = {}
        self._created_by_name: dict[str, Uuid] = {}

    def replay_topic(self, record: TopicRecord, *, is_snapshot: bool = False) -> None:
        previous = None if record.topic_id in self.deleted else self.image.by_id.get(record.topic_id)
        if not is_snapshot:
            if previous is not None or record.topic_id in self.changed:
                raise InvariantViolated(f"topic id {record.topic_id} is taken")
            if self.topic_id(record.name) is not None:
                raise InvariantViolated(f"topic name {record.name} is taken")
        if previous is not None and previous.name != record.name:
            previous = None
        self.changed[record.topic_id] = TopicDelta(record.name, record.topic_id, previous, is_replaced=True)
        self._created_by_name[record.name] = record.topic_id

    def replay_partition(self, record: PartitionRecord) -> None:
        self._changing(record.topic_id).changes[record.partition_id] = PartitionRegistration.from_record(record)

    def replay_partition_change(self, record: PartitionChangeRecord) -> None:
        topic = self._changing(record.topic_id)
        partition = topic.partition(record.partition_id)
        if partition is None:
            raise InvariantViolated(f"unknown partition {record.partition_id} of topic id {record.topic_id}")
        topic.changes[record.partition_id] = partition.merge(record)

    def replay_clear_elr(self, record: ClearElrRecord) -> None:
        """Clear ELR of the named topic, or of every topic if the name is empty; topics without ELR are unchanged."""
        if record.topic_name:
            topic_id = self.topic_id(record.topic_name)
            if topic_id is None:
                raise InvariantViolated(f"unknown topic {record.topic_name}")
            ids = [topic_id]
        else:
            ids = [i for i in self.image.by_id if i not in self.deleted and i not in self.changed]
            ids.extend(self.changed)
        for topic_id in ids:
            delta = self.changed.get(topic_id)
            partitions = self.image.by_id[topic_id].partitions if delta is None else delta.partitions()
            for partition_id, partition in partitions.items():
                cleared = partition.without_elr()
                if cleared is not partition:
                    self._changing(topic_id).changes[partition_id] = cleared

    def replay_remove_topic(self, record: RemoveTopicRecord) -> str:
        """Return the name; the caller removes the topic's configs under it."""
        delta = self.changed.pop(record.topic_id, None)
        image = None if record.topic_id in self.deleted else self.image.by_id.get(record.topic_id)
        name = delta.name if delta is not None else image.name if image is not None else None
        if name is None:
            raise InvariantViolated(f"unknown topic id {record.topic_id}")
        self.removed.add(record.topic_id)
        if self._created_by_name.get(name) == record.topic_id:
            del self._created_by_name[name]
        if image is not None:
            self.deleted[record.topic_id] = image
        return name

    def change_count(self) -> int:
        """Return the number of partitions that are changed, created or deleted."""
        changed = sum(len(delta.changes) for delta in self.changed.values())
        return changed + sum(len(topic.partitions) for topic in self.deleted.values())

    def topic_id(self, name: str) -> Uuid | None:
        created = self._created_by_name.get(name)
        if created is not None:
            return created
        topic = self.image.by_name.get(name)
        return None if topic is None or topic.id in self.deleted else topic.id

    def finish_snapshot(self) -> Iterator[None]:
        """Delete topics that the snapshot did not name, in steps of some topics each."""
        for number, (topic_id, topic) in enumerate(self.image.by_id.items(), start=1):
            if number % CHANGES_A_STEP == 0:
                yield
            delta = self.changed.get(topic_id)
            if delta is None or delta.previous is None:
                self.deleted[topic_id] = topic
            elif delta.changes == topic.partitions:
                del self.changed[topic_id]

    def apply_in_steps(self) -> Generator[None, None, TopicsImage]:
        """Return the same image as ``apply``; each step builds a part."""
        image = self.image
        for part in self._parts():
            part._follow(image)
            image = part.apply()
            yield
        return image

    def _follow(self, image: TopicsImage) -> None:
        """Apply to this image, which results from other parts of the same delta."""
        self.image = image
        for delta in self.changed.values():
            if delta.is_continued:
                delta.previous = image.by_id[delta.id]

    def _parts(self) -> Iterator[TopicsDelta]:
        """Yield deltas that lead to the same image one after another; deletions first, because a name may be reused."""
        part = TopicsDelta(self.image)
        weight = 0
        for deleted in self.deleted.values():
            for shrunken in _shrinking(deleted):
                smaller = TopicsDelta(self.image)
                smaller.changed[deleted.id] = shrunken
                yield smaller
            part.deleted[deleted.id] = deleted
            weight += min(len(deleted.partitions), CHANGES_A_STEP)
            if weight >= CHANGES_A_STEP:
                yield part
                part, weight = TopicsDelta(self.image), 0
        if part.deleted:
            yield part
            part, weight = TopicsDelta(self.image), 0
        for delta in self.changed.values():
            for piece in delta.pieces():
                part.changed[piece.id] = piece
                weight += len(piece.changes) + 1
                if weight >= CHANGES_A_STEP or len(piece.changes) < len(delta.changes):
                    yield part
                    part, weight = TopicsDelta(self.image), 0
        if part.changed:
            yield part

    def apply(self) -> TopicsImage:
        if not self.changed and not self.deleted:
            return self.image
        topics = [delta.apply() for delta in self.changed.values()]
        return TopicsImage(
            self.image.by_name.updated(
                {topic.name: topic for topic in topics}, [topic.name for topic in self.deleted.values()]
            ),
            self.image.by_id.updated({topic.id: topic for topic in topics}, self.deleted),
            self._index_by_broker(),
            self._index_colliding(),
            self._index_imbalanced(),
            self.image.index.after(self._transitions()),
        )

    def _transitions(self) -> Iterator[Transition]:
        """Yield each changed partition: its key, its old and its new state."""
        for topic_id in self.deleted:
            for partition_id, partition in self.image.by_id[topic_id].partitions.items():
                yield (topic_id, partition_id), partition, None
        for topic_id, delta in self.changed.items():
            before = {} if delta.previous is None else delta.previous.partitions
            for partition_id, partition in delta.changes.items():
                if before.get(partition_id) is not partition:
                    yield (topic_id, partition_id), before.get(partition_id), partition
            if delta.is_replaced:
                for partition_id in before.keys() - delta.changes.keys():
                    yield (topic_id, partition_id), before[partition_id], None

    def _index_colliding(self) -> PersistentMap[str, tuple[str, ...]]:
        groups: dict[str, list[str]] = {}
        index = self.image.colliding
        for topic in self.deleted.values():
            if has_collision_characters(topic.name):
                groups.setdefault(unified_topic_name(topic.name), list(index.get(unified_topic_name(topic.name), ())))
                groups[unified_topic_name(topic.name)].remove(topic.name)
        for delta in self.changed.values():
            if delta.is_created and has_collision_characters(delta.name):
                key = unified_topic_name(delta.name)
                groups.setdefault(key, list(index.get(key, ()))).append(delta.name)
        if not groups:
            return index
        put = {key: tuple(names) for key, names in groups.items() if names}
        return index.updated(put, [key for key, names in groups.items() if not names])

    def _index_imbalanced(self) -> PersistentMap[PartitionKey, None]:
        index = self.image.imbalanced
        added: dict[PartitionKey, None] = {}
        removed: list[PartitionKey] = []
        for key, before, after in self._transitions():
            if after is not None and after.leader != after.replicas[0]:
                if before is None or key not in index:
                    added[key] = None
            elif before is not None and key in index:
                removed.append(key)
        return index.updated(added, removed) if added or removed else index

    def _index_by_broker(self) -> Mapping[int, PersistentMap[Uuid, None]]:
        added: dict[int, dict[Uuid, None]] = {}
        removed: dict[int, list[Uuid]] = {}
        for topic in self.deleted.values():
            for broker in topic.brokers():
                removed.setdefault(broker, []).append(topic.id)
        for delta in self.changed.values():
            if not delta.moves_replicas:
                continue
            gained, left = delta.moves()
            for broker in gained:
                if delta.id not in self.image.by_broker.get(broker, _NO_TOPICS):
                    added.setdefault(broker, {})[delta.id] = None
            for broker in left:
                removed.setdefault(broker, []).append(delta.id)
        if not added and not removed:
            return self.image.by_broker
        index = dict(self.image.by_broker)
        for broker in {**added, **dict.fromkeys(removed)}:
            topics = index.get(broker, _NO_TOPICS).updated(added.get(broker, {}), removed.get(broker, ()))
            if len(topics):
                index[broker] = topics
            else:
                index.pop(broker, None)
        return index

    def local_changes(self, broker_id: int, topic_ids: Iterable[Uuid]) -> LocalReplicaChanges:
        """Return the partitions of these topics that ``broker_id`` starts, stops and changes because of this delta."""
        local = LocalReplicaChanges()
        for topic_id in topic_ids:
            if (topic := self.deleted.get(topic_id)) is not None:
                local.add_deleted(topic, broker_id, topic.partitions.items())
            if (delta := self.changed.get(topic_id)) is not None:
                local.add_changed(delta, broker_id, delta.changes.items())
        return local

    def local_changes_in_steps(self, broker_id: int) -> Generator[None, None, LocalReplicaChanges]:
        """Return the ``local_changes`` of all topics; each step reads some partitions."""
        local = LocalReplicaChanges()
        left = CHANGES_A_STEP
        for count in chain(self._adding_deleted(local, broker_id), self._adding_changed(local, broker_id)):
            left -= count
            if left <= 0:
                left = CHANGES_A_STEP
                yield
        return local

    def _adding_deleted(self, local: LocalReplicaChanges, broker_id: int) -> Iterator[int]:
        """Add some partitions at a time; yield their number."""
        for topic in self.deleted.values():
            for partitions in _pieces(topic.partitions):
                local.add_deleted(topic, broker_id, partitions)
                yield len(partitions)

    def _adding_changed(self, local: LocalReplicaChanges, broker_id: int) -> Iterator[int]:
        """As ``_adding_deleted``, for new and changed topics."""
        for delta in self.changed.values():
            for changes in _pieces(delta.changes):
                local.add_changed(delta, broker_id, changes)
                yield len(changes)

    def _changing(self, topic_id: Uuid) -> TopicDelta:
        delta = self.changed.get(topic_id)
        if delta is None:
            topic = None if topic_id in self.deleted else self.image.by_id.get(topic_id)
            if topic is None:
                raise InvariantViolated(f"unknown topic id {topic_id}")
            delta = self.changed[topic_id] = TopicDelta(topic.name, topic_id, topic, is_replaced=False)
        return delta


def _shrinking(topic: TopicImage) -> Iterator[TopicDelta]:
    """Remove the partitions of a large deleted topic first, some in each delta, until few enough are left."""
    partitions = list(topic.partitions.items())
    for start in range(CHANGES_A_STEP, len(partitions), CHANGES_A_STEP):
        delta = TopicDelta(topic.name, topic.id, None, is_replaced=True)
        delta.is_continued = delta.is_shrinking = True
        delta.changes = dict(partitions[start:])
        yield delta


def _pieces(partitions: Mapping[int, PartitionRegistration]) -> Iterator[list[tuple[int, PartitionRegistration]]]:
    rest = iter(partitions.items())
    while some := list(islice(rest, CHANGES_A_STEP)):
        yield some


def _brokers_of(partitions: Iterable[PartitionRegistration]) -> set[int]:
    return {broker for partition in partitions for broker in _holders_of(partition)}


def _holders_of(partition: PartitionRegistration) -> tuple[int, ...]:
    return partition.replicas + partition.elr
