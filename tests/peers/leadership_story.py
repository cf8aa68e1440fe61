"""Random events for partitions and their brokers in a cluster, by seed: each answer determines the next step.

Brokers 1 to 6 exist only here: 1 to 3 have one log directory, 4 to 6 have two. They join, lead, fall behind, die,
return and leave; topics are created with explicit replicas, so that the controller draws nothing; an operator
continuously reassigns, elects and changes settings. The decisions of a controller are read from its log, in ``replay``.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from random import Random
from typing import Any, NamedTuple

from barnabas.common.uuid import Uuid
from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage, MetadataProvenance
from barnabas.metadata.image.partition_registration import PartitionRegistration
from barnabas.metadata.image.topics import TopicImage
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
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from barnabas.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest
from barnabas.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.peers.membership_story import FAR, Step, directory, registration

__all__ = ["BROKERS", "LeadershipStory", "Pause", "StepResult"]

BROKERS = (1, 2, 3, 4, 5, 6)
TWO_DIRECTORIES = (4, 5, 6)
NAMES = ("a", "b", "c", "d")
TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1
PREFERRED, UNCLEAN = 0, 1
UPGRADE, SAFE_DOWNGRADE = 1, 2
SETTINGS = {"min.insync.replicas": ("1", "2", "3"), "unclean.leader.election.enable": ("true", "false")}


class Pause(NamedTuple):
    """Long enough that the sessions of silent brokers expire, while the others' continue."""

    name: str


class StepResult(NamedTuple):
    """The answer to a step (None to a pause), and the records that the controller wrote for it."""

    answer: Any
    records: Sequence[Any]


Story = Generator[Step | Pause, StepResult, None]


class LeadershipStory:
    """``sessions`` are the brokers that send heartbeats, and whether they want to be fenced."""

    def __init__(self, cluster_id: str, seed: int, steps: int, *, changes_features: bool = False) -> None:
        self._cluster_id = cluster_id
        self._random = Random(seed)
        self._steps = steps
        self._changes_features = changes_features
        self._lives = dict.fromkeys(BROKERS, 0)
        self._lost: dict[int, set[Uuid]] = {broker: set() for broker in BROKERS}
        self.sessions: dict[int, bool] = {}
        self.image = MetadataImage.EMPTY

    def replay(self, records: Iterable[Any]) -> None:
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        self.image = delta.apply(MetadataProvenance(self.image.provenance.last_contained_offset + 1, 1))

    def _has_elr(self, topic: TopicImage | None) -> bool:
        topics = self.image.topics.by_id.values() if topic is None else [topic]
        return any(partition.elr for image in topics for partition in image.partitions.values())

    def heartbeat(self, broker: int, **changes: Any) -> BrokerHeartbeatRequest:
        known = self.image.cluster.brokers.get(broker)
        fields: dict[str, Any] = {
            "broker_id": broker,
            "broker_epoch": -1 if known is None else known.epoch,
            "current_metadata_offset": FAR,
            "want_fence": self.sessions.get(broker, False),
            "offline_log_dirs": sorted(self._lost[broker]),
        }
        return BrokerHeartbeatRequest(**{**fields, **changes})

    def steps(self) -> Story:
        for broker in BROKERS[:4]:
            yield from self._join(broker)
        yield from self._create()
        actions = {
            self._join_one: 8,
            self._leave_one: 3,
            self._die: 3,
            self._fence: 4,
            self._unfence: 8,
            self._unregister: 1,
            self._lose_directory: 1,
            self._create: 5,
            self._delete: 1,
            self._grow: 1,
            self._shrink_isr: 10,
            self._change_isr: 22,
            self._reassign: 12,
            self._cancel: 3,
            self._elect: 6,
            self._configure: 7,
            self._assign_directory: 3,
        }
        if self._changes_features:
            actions[self._change_elr] = 4
        for _ in range(self._steps):
            yield from self._random.choices(list(actions), list(actions.values()))[0]()

    # Brokers

    def _directories(self, broker: int) -> list[Uuid]:
        return [directory(broker, number) for number in range(2 if broker in TWO_DIRECTORIES else 1)]

    def _join(self, broker: int, *, is_clean: bool = True) -> Story:
        known = self.image.cluster.brokers.get(broker)
        self._lives[broker] += 1
        self._lost[broker] = set()
        request = registration(
            self._cluster_id,
            broker,
            incarnation_id=Uuid.from_int(0xDEF000 + 100 * broker + self._lives[broker]),
            log_dirs=self._directories(broker),
            rack=f"r{broker % 3}",
            previous_broker_epoch=known.epoch if known is not None and is_clean else -1,
        )
        yield Step(f"broker {broker} registers, {'clean' if is_clean else 'unclean'}", request, 4)
        self.sessions[broker] = True
        if self._random.random() < 0.8:
            yield from self._unfenced(broker)

    def _unfenced(self, broker: int) -> Story:
        self.sessions[broker] = False
        yield Step(f"broker {broker} is unfenced", self.heartbeat(broker), 1)

    def _join_one(self) -> Story:
        absent = [broker for broker in BROKERS if broker not in self.sessions]
        if absent:
            yield from self._join(self._random.choice(absent), is_clean=self._random.random() < 0.5)

    def _leave_one(self) -> Story:
        broker = self._in_touch(fewest=2)
        if broker is None:
            return
        for attempt in range(3):
            reply = yield Step(f"broker {broker} leaves, {attempt}", self.heartbeat(broker, want_shut_down=True), 1)
            if reply.answer.should_shut_down:
                break
        del self.sessions[broker]
        yield Pause(f"broker {broker} has left")

    def _die(self) -> Story:
        broker = self._in_touch(fewest=2)
        if broker is not None:
            del self.sessions[broker]
            yield Pause(f"broker {broker} dies")

    def _fence(self) -> Story:
        broker = self._in_touch(fewest=2)
        if broker is not None:
            self.sessions[broker] = True
            yield Step(f"broker {broker} wants to be fenced", self.heartbeat(broker), 1)

    def _unfence(self) -> Story:
        fenced = [broker for broker, is_fenced in sorted(self.sessions.items()) if is_fenced]
        if fenced:
            yield from self._unfenced(self._random.choice(fenced))

    def _unregister(self) -> Story:
        absent = [broker for broker in sorted(self.image.cluster.brokers) if broker not in self.sessions]
        if absent:
            broker = self._random.choice(absent)
            yield Step(f"broker {broker} is unregistered", UnregisterBrokerRequest(broker_id=broker), 0)

    def _lose_directory(self) -> Story:
        broker = self._in_touch(fewest=1)
        if broker in TWO_DIRECTORIES and not self._lost[broker]:
            self._lost[broker] = {directory(broker, self._random.randrange(2))}
            yield Step(f"broker {broker} loses a directory", self.heartbeat(broker), 1)

    def _in_touch(self, *, fewest: int) -> int | None:
        brokers = sorted(self.sessions)
        return self._random.choice(brokers) if len(brokers) >= fewest else None

    # Topics

    def _create(self) -> Story:
        free = [name for name in NAMES if self.image.topics.get(name) is None]
        if not free or len(self.image.cluster.brokers) < 3:
            return
        name = free[0]
        configs = [
            CreatableTopicConfig(name=key, value=self._random.choice(values))
            for key, values in SETTINGS.items()
            if self._random.random() < 0.5
        ]
        assignments = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
            for index, replicas in enumerate(self._replicas() for _ in range(self._random.randint(1, 3)))
        ]
        size = len(assignments[0].broker_ids)
        assignments = [assignment for assignment in assignments if len(assignment.broker_ids) == size]
        for index, assignment in enumerate(assignments):
            assignment.partition_index = index
        topic = CreatableTopic(
            name=name, num_partitions=-1, replication_factor=-1, assignments=assignments, configs=configs
        )
        yield Step(f"topic {name} is created", CreateTopicsRequest(topics=[topic], timeout_ms=9000), 7)

    def _replicas(self, among: Sequence[int] | None = None) -> list[int]:
        brokers = sorted(self.image.cluster.brokers) if among is None else among
        return self._random.sample(brokers, min(len(brokers), self._random.choice([1, 2, 3, 3, 3, 4])))

    def _delete(self) -> Story:
        topic = self._topic()
        if topic is not None:
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic.name)], timeout_ms=9000)
            yield Step(f"topic {topic.name} is deleted", request, 6)

    def _grow(self) -> Story:
        topic = self._topic()
        if topic is None or len(topic.partitions) > 3:
            return
        if len({len(partition.replicas) for partition in topic.partitions.values()}) > 1:
            return  # Kafka uses the factor of the partition that is first in a hash table.
        wanted = CreatePartitionsTopic(
            name=topic.name,
            count=len(topic.partitions) + 1,
            assignments=[CreatePartitionsAssignment(broker_ids=self._replicas())],
        )
        yield Step(f"topic {topic.name} grows", CreatePartitionsRequest(topics=[wanted], timeout_ms=9000), 3)

    def _topic(self) -> TopicImage | None:
        names = sorted(self.image.topics.by_name)
        return self.image.topics.by_name[self._random.choice(names)] if names else None

    def _partition(self, *, needs_leader: bool = False) -> tuple[TopicImage, int, PartitionRegistration] | None:
        found = [
            (self.image.topics.by_name[name], index, partition)
            for name in sorted(self.image.topics.by_name)
            for index, partition in sorted(self.image.topics.by_name[name].partitions.items())
            if not needs_leader or partition.leader >= 0
        ]
        return self._random.choice(found) if found else None

    # In sync or not

    def _shrink_isr(self) -> Story:
        found = self._partition(needs_leader=True)
        if found is None or len(found[2].isr) < 2:
            return
        leader = found[2].leader
        others = [replica for replica in found[2].isr if replica != leader]
        yield self._isr("shrinks", found, [leader, *self._random.sample(others, self._random.randrange(len(others)))])

    def _change_isr(self) -> Story:
        found = self._partition(needs_leader=True)
        if found is None:
            return
        topic, index, partition = found
        if self._random.random() < 0.08:
            yield self._wrong_isr(found)
            return
        others = [
            replica
            for replica in partition.replicas
            if replica != partition.leader and not self._lies_in_lost(partition, replica)
        ]
        live = [replica for replica in others if self._is_live(replica)] if self._random.random() < 0.9 else others
        if self._random.random() < 0.3:
            live = self._random.sample(live, len(live) // 2)
        members = [partition.leader, *live]
        recovery = partition.leader_recovery_state if self._random.random() < 0.3 and len(members) == 1 else 0
        yield self._isr("becomes", (topic, index, partition), members, recovery=recovery)

    def _lies_in_lost(self, partition: PartitionRegistration, broker: int) -> bool:
        """Kafka accepts a replica into the ISR whose disk has failed; ours does not."""
        known, where = self.image.cluster.brokers.get(broker), partition.directory_of(broker)
        return known is not None and not where.is_reserved and where not in known.directories

    def _is_live(self, broker: int) -> bool:
        known = self.image.cluster.brokers.get(broker)
        return known is not None and known.is_active

    def _wrong_isr(self, found: tuple[TopicImage, int, PartitionRegistration]) -> Step:
        partition = found[2]
        leader = partition.leader
        wrong: list[dict[str, Any]] = [
            {"leader_epoch": partition.leader_epoch + self._random.choice([-1, 1])},
            {"partition_epoch": partition.partition_epoch + self._random.choice([-1, 1])},
            {"members": [broker for broker in BROKERS if broker != leader][:2]},
            {"members": [leader, 77]},
            {"members": [leader, leader]},
            {"members": []},
            {"recovery": 1, "members": list(partition.replicas)},
            {"sender": next(broker for broker in BROKERS if broker != leader)},
            {"shift": 1},
        ]
        return self._isr("would be", found, **{"members": list(partition.isr), **self._random.choice(wrong)})

    def _isr(
        self,
        how: str,
        found: tuple[TopicImage, int, PartitionRegistration],
        members: Sequence[int],
        *,
        recovery: int = 0,
        leader_epoch: int | None = None,
        partition_epoch: int | None = None,
        sender: int | None = None,
        shift: int = 0,
    ) -> Step:
        topic, index, partition = found
        leader = partition.leader if sender is None else sender
        data = AlterPartitionRequestPartitionData(
            partition_index=index,
            leader_epoch=partition.leader_epoch if leader_epoch is None else leader_epoch,
            partition_epoch=partition.partition_epoch if partition_epoch is None else partition_epoch,
            leader_recovery_state=recovery,
            new_isr_with_epochs=[
                BrokerState(broker_id=member, broker_epoch=self._epoch(member) + shift) for member in members
            ],
        )
        request = AlterPartitionRequest(
            broker_id=leader,
            broker_epoch=self._epoch(leader),
            topics=[AlterPartitionRequestTopicData(topic_id=topic.id, partitions=[data])],
        )
        return Step(f"isr of {topic.name}-{index} {how} {members} for {leader}", request, 3)

    def _epoch(self, broker: int) -> int:
        known = self.image.cluster.brokers.get(broker)
        return 7 if known is None else known.epoch

    # Requests of operators

    def _reassign(self) -> Story:
        found = self._partition()
        if found is None:
            return
        topic, index, partition = found
        kind = self._random.random()
        if kind < 0.2:
            replicas = self._random.sample(partition.replicas, len(partition.replicas))
        elif kind < 0.3:
            replicas = [replica for replica in partition.replicas if replica not in partition.adding_replicas]
        else:
            replicas = self._replicas(BROKERS if self._random.random() < 0.1 else None)
        adding, removing = set(replicas) - set(partition.replicas), set(partition.replicas) - set(replicas)
        if (not adding and removing & set(partition.adding_replicas)) or (not removing and partition.removing_replicas):
            return  # Kafka would wait for a replica that is to be removed, or remove one that is to stay.
        yield self._reassignment(topic, index, replicas, may_change_factor=self._random.random() < 0.8)

    def _cancel(self) -> Story:
        found = self._partition()
        if found is None or {found[2].leader, *found[2].last_known_elr} & set(found[2].adding_replicas):
            return  # Kafka would keep naming a last leader without a replica, and fail some time later.
        yield self._reassignment(found[0], found[1], None)

    def _reassignment(
        self, topic: TopicImage, index: int, replicas: list[int] | None, *, may_change_factor: bool = True
    ) -> Step:
        wanted = ReassignableTopic(
            name=topic.name, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)]
        )
        request = AlterPartitionReassignmentsRequest(
            topics=[wanted], allow_replication_factor_change=may_change_factor, timeout_ms=9000
        )
        return Step(f"{topic.name}-{index} shall have {replicas}, {may_change_factor}", request, 1)

    def _elect(self) -> Story:
        kind = self._random.choice([PREFERRED, PREFERRED, UNCLEAN])
        found = self._partition()
        wanted = None
        if found is not None and self._random.random() < 0.6:
            wanted = [TopicPartitions(topic=found[0].name, partitions=[found[1]])]
        which = "all" if wanted is None else f"{wanted[0].topic}-{wanted[0].partitions[0]}"
        request = ElectLeadersRequest(election_type=kind, topic_partitions=wanted, timeout_ms=9000)
        yield Step(f"election of kind {kind} for {which}", request, 2)

    def _configure(self) -> Story:
        key = self._random.choice(list(SETTINGS))
        topic = self._topic() if self._random.random() < 0.75 else None
        if key == "min.insync.replicas" and self._has_elr(topic):
            return  # Kafka clears the ELR and not its index of it: from then on it writes records twice, or fails.
        operation = self._random.choice([SET, SET, DELETE])
        value = self._random.choice(SETTINGS[key]) if operation == SET else None
        resource = AlterConfigsResource(
            resource_type=BROKER if topic is None else TOPIC,
            resource_name="" if topic is None else topic.name,
            configs=[AlterableConfig(name=key, config_operation=operation, value=value)],
        )
        where = "the cluster" if topic is None else topic.name
        yield Step(f"{key} of {where} becomes {value}", IncrementalAlterConfigsRequest(resources=[resource]), 1)

    def _change_elr(self) -> Story:
        level = self._random.randrange(2)
        update = FeatureUpdateKey(
            feature="eligible.leader.replicas.version",
            max_version_level=level,
            upgrade_type=UPGRADE if level else SAFE_DOWNGRADE,
        )
        yield Step(f"ELR becomes {level}", UpdateFeaturesRequest(feature_updates=[update], timeout_ms=9000), 2)

    def _assign_directory(self) -> Story:
        found = self._partition()
        if found is None:
            return
        topic, index, partition = found
        known = self.image.cluster.brokers
        several = [replica for replica in partition.replicas if replica in TWO_DIRECTORIES and replica in known]
        if not several:
            return
        broker = self._random.choice(several)
        partitions = [AssignReplicasToDirsRequestPartitionData(partition_index=index)]
        topics = [AssignReplicasToDirsRequestTopicData(topic_id=topic.id, partitions=partitions)]
        where = directory(broker, self._random.choice([0, 0, 1, 1, 7]))
        request = AssignReplicasToDirsRequest(
            broker_id=broker,
            broker_epoch=self._epoch(broker),
            directories=[AssignReplicasToDirsRequestDirectoryData(id=where, topics=topics)],
        )
        yield Step(f"broker {broker} keeps {topic.name}-{index} in {where}", request, 0)
