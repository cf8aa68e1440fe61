"""How long the controller holds the event loop, for each kind of request and event, with 200,000 partitions.

A controller, the broker's image and a log in memory run in this process. Each piece that a node would do in one turn of
its loop is timed by itself: the decision, its append to the log (encoded, made into batches), the commit for broker and
controller in turns as ``CommitDelivery`` makes them, and each later turn of a long decision. Times are CPU time of the
thread, because other work may run on the machine. Python's garbage collector is off, and measured apart.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from barnabas.broker.metadata_cache import MetadataCache
from barnabas.common.acl import AclBinding
from barnabas.common.uuid import Uuid
from barnabas.controller.apis import (
    alter_partition,
    alter_partition_reassignments,
    assign_replicas_to_dirs,
    create_partitions,
    delete_topics,
    elect_leaders,
    incremental_alter_configs,
    list_partition_reassignments,
    update_features,
)
from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage, MetadataProvenance
from barnabas.metadata.loader import CommittedBatch, MetadataLoader
from barnabas.metadata.snapshot import records_of
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from barnabas.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from barnabas.protocol.records.partition_record import PartitionRecord
from barnabas.protocol.records.topic_record import TopicRecord
from barnabas.raft.batch_accumulator import BatchAccumulator
from barnabas.server import commit_delivery
from barnabas.server.metadata_listener import MetadataListener
from barnabas.server.metadata_record_serde import MetadataRecordSerde
from tests.unit.controller.controller_harness import ControllerHarness, context, directory_of, topic

__all__ = ["SHAPES", "Shape", "Turns", "measure_turns"]

SESSION_MS = 9_000
_BROKERS = (1, 2, 3, 4)
_BATCH_MAX_BYTES = 8 * 1024 * 1024


class Shape(NamedTuple):
    topics: int
    partitions: int
    replicas: int

    @property
    def name(self) -> str:
        partitions = "partition" if self.partitions == 1 else "partitions"
        replicas = "replica" if self.replicas == 1 else "replicas"
        return f"{self.topics:,} topics of {self.partitions} {partitions}, {self.replicas} {replicas}"


SHAPES = (Shape(200_000, 1, 1), Shape(2_000, 100, 3))


class Turns(NamedTuple):
    """Of one kind of event: the longest turn in ms, what it was, how many there were, and all of them in ms."""

    longest_ms: float
    piece: str
    turns: int
    total_ms: float


class _Stage(ControllerHarness):
    """A controller whose pieces of work are timed."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(broker_session_timeout_ms=SESSION_MS)
        self.shape = shape
        self.pieces: list[tuple[float, str]] = []
        self.loader = MetadataLoader()
        self.loader.install(MetadataCache())
        self.listener = MetadataListener(
            node_id=1,
            loader=self.loader,
            controller=self.controller,
            serde=MetadataRecordSerde(),
            next_offset=lambda: self.end_offset,
            kraft_version=lambda: 1,
        )

    def timed(self, piece: str, work: Callable[[], Any]) -> Any:
        began = time.thread_time()
        result = work()
        self.pieces.append(((time.thread_time() - began) * 1000, piece))
        return result

    def append(self) -> None:
        for append in self.controller.take_appends():
            batches = self.timed("append", partial(self._batches, append))
            self.controller.handle_appended([append], batches[0].base_offset)
            self._uncommitted.extend(batches)

    def _batches(self, append: Any) -> list[CommittedBatch]:
        accumulator = BatchAccumulator(
            epoch=self.epoch,
            base_offset=self.end_offset,
            serde=MetadataRecordSerde(),
            batch_max_bytes=_BATCH_MAX_BYTES,
            batch_max_records=10_000,
        )
        accumulator.append(append.records, self.clock.ms, is_atomic=append.is_atomic)
        return [
            CommittedBatch(
                base_offset=batch.base_offset,
                last_offset=batch.last_offset,
                epoch=batch.epoch,
                append_time_ms=batch.timestamp_ms,
                records=[record.message for record in batch.records or ()],
                byte_count=len(batch.data),
            )
            for batch in accumulator.drain()
        ]

    def commit(self, count: int | None = None) -> None:
        """In turns, as ``CommitDelivery`` takes them."""
        while self._uncommitted:
            turn: list[CommittedBatch] = []
            while self._uncommitted and sum(len(batch.records) for batch in turn) < commit_delivery.RECORDS_A_TURN:
                turn.append(self._uncommitted.pop(0))
            self.log[:] = turn[-1:]
            steps = self.timed("commit", partial(self.listener.handle_commit, turn))
            self._take_steps("commit", steps)

    def _take_steps(self, piece: str, steps: Iterator[None] | None) -> None:
        done = object()
        while steps is not None and self.timed(piece, partial(next, steps, done)) is not done:
            pass

    # --- the pieces of a test harness, timed

    def answer(self, deferred: Any) -> Any:
        if hasattr(deferred, "work"):
            while self.timed("search", deferred.work.advance):
                pass
            deferred = self.timed("decision", deferred.decide)
        self.settle()
        self.take_turns()
        return deferred.value

    def call(self, handle: Callable[..., Any], request: Any, api_version: int = 7) -> Any:
        return self.answer(
            self.timed("decision", lambda: handle(self.controller, context(api_version), request, self.authorizer))
        )

    def take_turns(self) -> None:
        while (due_ms := self.controller.next_tick_ms()) is not None and due_ms <= self.clock.ms:
            self.timed("tick", partial(self.controller.tick, self.clock.ms))
            self.settle()

    def measured(self, event: Callable[[], Any]) -> Turns:
        self.pieces.clear()
        event()
        longest_ms, piece = max(self.pieces, default=(0.0, "nothing"))
        return Turns(longest_ms, piece, len(self.pieces), sum(ms for ms, _ in self.pieces))

    # --- events

    def fall_silent(self, *brokers: int) -> None:
        """The sessions of these end; heartbeats of the others are not what is measured."""
        self.clock.ms += SESSION_MS - 1
        for broker_id in set(_BROKERS).difference(brokers):
            if not self.controller.state.image.cluster.brokers[broker_id].fenced:
                self.heartbeat(broker_id)
        self.clock.ms += 1
        self.pieces.clear()
        self.take_turns()


def measure_turns(shape: Shape) -> dict[str, Turns]:
    gc.collect()
    gc.disable()
    try:
        return _measured(shape)
    finally:
        gc.enable()


def _measured(shape: Shape) -> dict[str, Turns]:
    found: dict[str, Turns] = {}
    stage = _Stage(shape)
    stage.activate()
    for broker_id in _BROKERS:
        stage.start_broker(broker_id)
    image = _image_of(shape, stage.controller.committed_image)
    found["a snapshot is loaded"] = _loading(stage, image)
    stage.pieces.clear()
    stage.epoch += 1
    found["the controller becomes active"] = stage.measured(
        lambda: stage.timed("activation", partial(stage.controller.activate, stage.epoch, stage.end_offset))
    )
    stage.take_turns()
    for name, event in _events(stage):
        found[name] = stage.measured(event)
        print(f"turns: {shape.name}: {name}: {found[name]}", flush=True)
    gc.unfreeze()
    found["(all objects are looked at for garbage)"] = stage.measured(partial(stage.timed, "collection", gc.collect))
    return found


def _loading(stage: _Stage, image: MetadataImage) -> Turns:
    """As at a start: from a snapshot's records, which were decoded before."""
    records = [message for message, _ in records_of(image)]

    def load() -> None:
        stage._take_steps("load", stage.loader.load_snapshot_in_steps(records, image.provenance))
        stage.timed("load", lambda: stage.controller.load_snapshot(stage.loader.image))

    stage.controller.deactivate()
    stage.log[:] = [
        CommittedBatch(
            base_offset=image.provenance.last_contained_offset,
            last_offset=image.provenance.last_contained_offset,
            epoch=stage.epoch,
            append_time_ms=0,
            records=(),
        )
    ]
    return stage.measured(load)


def _image_of(shape: Shape, base: MetadataImage) -> MetadataImage:
    delta = MetadataDelta(base)
    number = 0
    for index in range(shape.topics):
        topic_id = _topic_id(index)
        delta.replay(TopicRecord(name=_topic_name(index), topic_id=topic_id))
        for partition_id in range(shape.partitions):
            number += 1
            replicas = [_BROKERS[(number + place) % 3] for place in range(shape.replicas)]
            delta.replay(
                PartitionRecord(
                    partition_id=partition_id,
                    topic_id=topic_id,
                    replicas=replicas,
                    isr=replicas,
                    leader=replicas[0],
                    directories=[directory_of(replica) for replica in replicas],
                    leader_epoch=0,
                    partition_epoch=0,
                )
            )
    return delta.apply(MetadataProvenance(base.offset + 1_000_000, 1))


def _topic_name(index: int) -> str:
    return f"topic-{index:06}"


def _topic_id(index: int) -> Uuid:
    return Uuid.from_int((0x1234_5678_9ABC_DEF0 << 64) | (index * 2_654_435_761 & 0xFFFF_FFFF_FFFF))


def _events(stage: _Stage) -> Iterator[tuple[str, Callable[[], Any]]]:
    shape = stage.shape
    yield "a new process of a broker registers", partial(stage.register, 1, incarnation_id=Uuid.from_int(77))
    yield "a broker is unfenced", partial(_comes_back, stage, 1)
    yield "a broker sends a heartbeat", partial(stage.heartbeat, 1)
    yield "the session of a broker ends", partial(stage.fall_silent, 1)
    yield "a broker comes back", partial(_comes_back, stage, 1)
    yield "two of three brokers lose touch", partial(stage.fall_silent, 2, 3)
    yield "the first of two comes back", partial(_comes_back, stage, 2)
    yield "the second of two comes back", partial(_comes_back, stage, 3)
    yield (
        "leaders are elected, on request, for all partitions",
        partial(stage.call, elect_leaders.handle, ElectLeadersRequest(election_type=0, topic_partitions=None), 2),
    )
    yield "a broker shuts down", partial(_shuts_down, stage, 1)
    yield "it comes back", partial(_comes_back, stage, 1)
    yield "leaderships go back to preferred replicas", partial(_rebalance, stage)
    yield "1 topic is created", partial(stage.create, topic("one", 1, 3))
    yield "200 topics are created by a request", partial(stage.create, *_topics("some", 200, 1))
    yield "4,000 topics are created by a request", partial(stage.create, *_topics("many", 4_000, 1))
    yield "a topic of 5,000 partitions is created", partial(stage.create, topic("large", 5_000, 3))
    growth = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="large", count=9_000)])
    yield "4,000 partitions are added", partial(stage.call, create_partitions.handle, growth, 3)
    yield (
        "1,000 partitions are reassigned",
        partial(stage.call, alter_partition_reassignments.handle, _reassignment(shape, 1_000), 1),
    )
    yield (
        "reassignments are listed",
        partial(stage.call, list_partition_reassignments.handle, ListPartitionReassignmentsRequest(topics=None), 0),
    )
    yield (
        "the ISR of 1,000 partitions changes",
        lambda: stage.call(alter_partition.handle, _isr_changes(stage, 1_000), 3),
    )
    yield (
        "directories of 2,250 replicas are assigned",
        lambda: stage.call(assign_replicas_to_dirs.handle, _assignments(stage, 2_250), 0),
    )
    yield "settings of 1,000 topics change", partial(stage.call, incremental_alter_configs.handle, _settings(1_000), 1)
    yield "1,000 ACLs are created", partial(_create_acls, stage, 1_000)
    yield "a feature is turned off", partial(stage.call, update_features.handle, _feature(0, 2), 1)
    yield "a feature is turned on", partial(stage.call, update_features.handle, _feature(1, 1), 1)
    yield (
        "1,000 topics are deleted by a request",
        partial(stage.call, delete_topics.handle, _deletion("many", 1_000), 6),
    )
    yield (
        "a topic of 9,000 partitions is deleted",
        partial(stage.call, delete_topics.handle, DeleteTopicsRequest(topics=[DeleteTopicState(name="large")]), 6),
    )


def _comes_back(stage: _Stage, broker_id: int) -> None:
    stage.heartbeat(broker_id)
    stage.take_turns()


def _shuts_down(stage: _Stage, broker_id: int) -> None:
    stage.heartbeat(broker_id, want_shut_down=True)
    stage.take_turns()
    for other in set(_BROKERS) - {broker_id}:
        stage.heartbeat(other)
    stage.heartbeat(broker_id, want_shut_down=True)
    stage.take_turns()


def _rebalance(stage: _Stage) -> None:
    """Followers have caught up: they join the ISR first, which is not what is measured."""
    stage.clock.ms += 1
    stage.controller.replication.periodic_elections.activate(stage.clock.ms - 300_000)
    stage.pieces.clear()
    stage.take_turns()


def _topics(prefix: str, count: int, partitions: int) -> list[Any]:
    return [topic(f"{prefix}-{number:05}", partitions, 1) for number in range(count)]


def _places(shape: Shape, count: int) -> Iterator[tuple[int, list[int]]]:
    """The topic and its partitions, until there are so many partitions."""
    index = 0
    while count > 0:
        yield index, list(range(min(count, shape.partitions)))
        count -= shape.partitions
        index += 1


def _reassignment(shape: Shape, count: int) -> Any:
    topics = [
        ReassignableTopic(
            name=_topic_name(index),
            partitions=[
                ReassignablePartition(partition_index=each, replicas=[4, *_BROKERS][: shape.replicas]) for each in ids
            ],
        )
        for index, ids in _places(shape, count)
    ]
    return AlterPartitionReassignmentsRequest(topics=topics)


def _isr_changes(stage: _Stage, count: int) -> Any:
    """Of partitions that broker 2 leads: it proposes itself alone."""
    topics, brokers = stage.controller.state.image.topics, stage.controller.state.image.cluster.brokers
    changes = []
    for place, (found, index, partition) in enumerate(topics.partitions_on(2)):
        if partition.leader == 2 and not partition.is_reassigning:
            data = AlterPartitionRequestPartitionData(
                partition_index=index,
                leader_epoch=partition.leader_epoch,
                partition_epoch=partition.partition_epoch,
                new_isr_with_epochs=[BrokerState(broker_id=2, broker_epoch=brokers[2].epoch)],
            )
            changes.append(AlterPartitionRequestTopicData(topic_id=found.id, partitions=[data]))
        if len(changes) == count or place > 100_000:
            break
    return AlterPartitionRequest(broker_id=2, broker_epoch=brokers[2].epoch, topics=changes)


def _assignments(stage: _Stage, count: int) -> Any:
    topics = stage.controller.state.image.topics
    named = []
    for found, index, _ in topics.partitions_on(3):
        partition = AssignReplicasToDirsRequestPartitionData(partition_index=index)
        named.append(AssignReplicasToDirsRequestTopicData(topic_id=found.id, partitions=[partition]))
        if len(named) == count:
            break
    directory = AssignReplicasToDirsRequestDirectoryData(id=Uuid.from_int(1), topics=named)
    broker = stage.controller.state.image.cluster.brokers[3]
    return AssignReplicasToDirsRequest(broker_id=3, broker_epoch=broker.epoch, directories=[directory])


def _settings(count: int) -> Any:
    change = AlterableConfig(name="retention.ms", config_operation=0, value="86400000")
    resources = [
        AlterConfigsResource(resource_type=2, resource_name=_topic_name(index), configs=[change])
        for index in range(count)
    ]
    return IncrementalAlterConfigsRequest(resources=resources)


def _create_acls(stage: _Stage, count: int) -> None:
    bindings = [AclBinding(2, f"acl-{number:05}", 3, "User:alice", "*", 3, 3) for number in range(count)]
    stage.answer(
        stage.timed(
            "decision",
            lambda: stage.controller.submit(lambda: stage.controller.acls.create_acls(bindings), lambda error: []),
        )
    )


def _feature(level: int, upgrade_type: int) -> Any:
    key = FeatureUpdateKey(
        feature="eligible.leader.replicas.version", max_version_level=level, upgrade_type=upgrade_type
    )
    return UpdateFeaturesRequest(feature_updates=[key])


def _deletion(prefix: str, count: int) -> Any:
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=f"{prefix}-{number:05}") for number in range(count)])
