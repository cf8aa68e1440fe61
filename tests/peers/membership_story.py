"""Requests of brokers to a controller, good and bad, from joining to leaving: each answer determines the next step.

The controller is a freshly formatted combined node of Kafka's or ours with id 1. Brokers 5 and 6 exist only here.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple, TypeAlias

from barnabas.common.uuid import Uuid
from barnabas.metadata.features import SUPPORTED_FEATURES
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from barnabas.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from barnabas.protocol.messages.controller_registration import ControllerRegistrationRequest
from barnabas.protocol.messages.controller_registration import Feature as ControllerFeature
from barnabas.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest

__all__ = ["Step", "Story", "membership_story"]

FAR = 2**40
FEATURES = [
    Feature(name=name, min_supported_version=levels.min, max_supported_version=levels.max)
    for name, levels in SUPPORTED_FEATURES.items()
]


class Step(NamedTuple):
    name: str
    request: Any
    version: int


Story: TypeAlias = Generator[Step, Any, None]


def directory(broker_id: int, number: int = 0) -> Uuid:
    return Uuid.from_int(0xABC000 + broker_id * 16 + number)


def registration(cluster_id: str, broker_id: int, **changes: Any) -> BrokerRegistrationRequest:
    fields: dict[str, Any] = {
        "broker_id": broker_id,
        "cluster_id": cluster_id,
        "incarnation_id": Uuid.from_int(0xDEF000 + broker_id),
        "listeners": [Listener(name="PLAINTEXT", host="localhost", port=9990 + broker_id)],
        "features": FEATURES,
        "log_dirs": [directory(broker_id)],
    }
    return BrokerRegistrationRequest(**{**fields, **changes})


def membership_story(cluster_id: str) -> Story:
    epochs = yield from _join(cluster_id)
    yield from _stay(epochs)
    topic_id = yield from _lead(epochs)
    yield from _keep_in_directories(epochs, topic_id)
    yield from _register_controllers()
    yield from _leave(epochs)


def _join(cluster_id: str) -> Generator[Step, Any, dict[int, int]]:
    def refused(name: str, **changes: Any) -> Step:
        return Step(f"registration, {name}", registration(changes.pop("cluster_id", cluster_id), 5, **changes), 4)

    yield refused("another cluster", cluster_id="another")
    yield refused(
        "no metadata.version", features=[feature for feature in FEATURES if feature.name != "metadata.version"]
    )
    yield refused(
        "metadata.version only", features=[feature for feature in FEATURES if feature.name == "metadata.version"]
    )
    low = Feature(name="metadata.version", min_supported_version=7, max_supported_version=8)
    yield refused("an old metadata.version", features=[low, *(e for e in FEATURES if e.name != "metadata.version")])
    unknown = Feature(name="nobody.knows", min_supported_version=0, max_supported_version=3)
    yield refused("no directory", log_dirs=[])
    yield refused("a reserved directory", log_dirs=[Uuid.from_int(1)])
    yield refused("a directory twice", log_dirs=[directory(5), directory(5)])
    yield refused("from ZooKeeper", is_migrating_zk_broker=True)
    first = yield Step("registration", registration(cluster_id, 5, features=[*FEATURES, unknown]), 4)
    yield Step("registration again", registration(cluster_id, 5), 4)
    yield Step("registration, with another's directory", registration(cluster_id, 6, log_dirs=[directory(5)]), 4)
    second = yield Step("registration of another", registration(cluster_id, 6, rack="r", log_dirs=[directory(6)]), 4)
    return {5: first.broker_epoch, 6: second.broker_epoch}


def heartbeat(epochs: dict[int, int], broker_id: int, **changes: Any) -> BrokerHeartbeatRequest:
    fields: dict[str, Any] = {
        "broker_id": broker_id,
        "broker_epoch": epochs.get(broker_id, 7),
        "current_metadata_offset": FAR,
    }
    return BrokerHeartbeatRequest(**{**fields, **changes})


def _stay(epochs: dict[int, int]) -> Story:
    yield Step("heartbeat of an unknown broker", heartbeat(epochs, 77), 1)
    yield Step("heartbeat in another epoch", heartbeat(epochs, 5, broker_epoch=epochs[5] + 1), 1)
    yield Step("heartbeat, behind", heartbeat(epochs, 5, current_metadata_offset=0), 1)
    yield Step("heartbeat, caught up and wants to be fenced", heartbeat(epochs, 5, want_fence=True), 1)
    yield Step("heartbeat, caught up", heartbeat(epochs, 5), 1)
    yield Step("heartbeat, wants to be fenced", heartbeat(epochs, 5, want_fence=True), 1)
    yield Step("heartbeat, caught up again", heartbeat(epochs, 5), 1)
    yield Step("heartbeat of the other", heartbeat(epochs, 6), 1)
    yield Step("producer ids for an unknown broker", AllocateProducerIdsRequest(broker_id=77, broker_epoch=1), 0)
    yield Step("producer ids in another epoch", AllocateProducerIdsRequest(broker_id=5, broker_epoch=1), 0)
    for name in ("producer ids", "producer ids again"):
        yield Step(name, AllocateProducerIdsRequest(broker_id=5, broker_epoch=epochs[5]), 0)


def _lead(epochs: dict[int, int]) -> Generator[Step, Any, Uuid]:
    assignments = [CreatableReplicaAssignment(partition_index=index, broker_ids=[5, 6]) for index in range(2)]
    topic = CreatableTopic(name="led", num_partitions=-1, replication_factor=-1, assignments=assignments)
    made = yield Step("a topic of both", CreateTopicsRequest(topics=[topic], timeout_ms=9000), 7)
    topic_id: Uuid = made.topics[0].topic_id

    def isr(
        name: str, *members: int, broker: int = 5, epoch: int | None = None, topic: Uuid = topic_id,
        partition: int = 0, leader_epoch: int = 0, partition_epoch: int = 0, recovery: int = 0,
        member_epoch: int | None = None,
    ) -> Step:  # fmt: skip
        states = [
            BrokerState(broker_id=member, broker_epoch=epochs.get(member, 7) if member_epoch is None else member_epoch)
            for member in members
        ]
        data = AlterPartitionRequestPartitionData(
            partition_index=partition,
            leader_epoch=leader_epoch,
            new_isr_with_epochs=states,
            leader_recovery_state=recovery,
            partition_epoch=partition_epoch,
        )
        request = AlterPartitionRequest(
            broker_id=broker,
            broker_epoch=epochs.get(broker, 7) if epoch is None else epoch,
            topics=[AlterPartitionRequestTopicData(topic_id=topic, partitions=[data])],
        )
        return Step(f"isr, {name}", request, 3)

    yield isr("in another epoch of the broker", 5, epoch=1)
    yield isr("of an unknown broker", 5, broker=77)
    yield isr("of an unknown topic", 5, topic=Uuid.from_int(99))
    yield isr("of an unknown partition", 5, partition=9)
    yield isr("from a later leader epoch", 5, leader_epoch=3)
    yield isr("from a later partition epoch", 5, partition_epoch=3)
    yield isr("by a follower", 6, broker=6)
    yield isr("without the leader", 6)
    yield isr("empty")
    yield isr("with an unregistered broker", 5, 1)
    yield isr("with one twice", 5, 5)
    yield isr("with an old incarnation", 5, 6, member_epoch=1)
    yield isr("unchecked epochs", 5, 6, member_epoch=-1)
    yield isr("recovering with another", 5, 6, recovery=1)
    yield isr("recovering again", 5, recovery=1)
    yield isr("shrinks", 5)
    yield isr("from an earlier partition epoch", 5, 6)
    yield isr("grows", 5, 6, partition_epoch=1, leader_epoch=0)
    return topic_id


def _keep_in_directories(epochs: dict[int, int], topic_id: Uuid) -> Story:
    def assign(name: str, where: Uuid, topic: Uuid, partition: int, broker: int = 5, epoch: int | None = None) -> Step:
        partitions = [AssignReplicasToDirsRequestPartitionData(partition_index=partition)]
        topics = [AssignReplicasToDirsRequestTopicData(topic_id=topic, partitions=partitions)]
        request = AssignReplicasToDirsRequest(
            broker_id=broker,
            broker_epoch=epochs.get(broker, 7) if epoch is None else epoch,
            directories=[AssignReplicasToDirsRequestDirectoryData(id=where, topics=topics)],
        )
        return Step(f"directory, {name}", request, 0)

    yield assign("in another epoch", directory(5), topic_id, 0, epoch=1)
    yield assign("of an unknown broker", directory(5), topic_id, 0, broker=77)
    yield assign("of an unknown topic", directory(5), Uuid.from_int(99), 0)
    yield assign("of an unknown partition", directory(5), topic_id, 9)
    yield assign("of a broker without replicas", Uuid.from_int(0x5555), topic_id, 0, broker=1, epoch=-7)
    yield assign("as it is", directory(5), topic_id, 0)
    yield assign("unregistered", directory(5, 3), topic_id, 1)


def _register_controllers() -> Story:
    features = [
        ControllerFeature(name=feature.name, min_supported_version=feature.min_supported_version,
                          max_supported_version=feature.max_supported_version)
        for feature in FEATURES
    ]  # fmt: skip
    request = ControllerRegistrationRequest(controller_id=9, incarnation_id=Uuid.from_int(0x999), features=features)
    yield Step("controller", request, 0)
    none = ControllerRegistrationRequest(controller_id=9, incarnation_id=Uuid.from_int(0x999))
    yield Step("controller without features", none, 0)


def _leave(epochs: dict[int, int]) -> Story:
    yield Step("leaving, in another epoch", heartbeat(epochs, 5, want_shut_down=True, broker_epoch=1), 1)
    yield Step("leaving, while the other stays behind", heartbeat(epochs, 5, want_shut_down=True), 1)
    yield Step("the other has followed", heartbeat(epochs, 6), 1)
    yield Step("fenced and leaving", heartbeat(epochs, 6, want_fence=True, want_shut_down=True), 1)
    yield Step("fenced and leaving again", heartbeat(epochs, 6, want_shut_down=True), 1)
