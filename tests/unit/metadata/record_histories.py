"""Histories that a controller could have written: every record follows from those before it.

Hypothesis draws one number for each step; all choices of a step derive from its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, TypeVar

from hypothesis import strategies as st

from barnabas.common.uuid import Uuid
from barnabas.protocol.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.protocol.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from barnabas.protocol.records.clear_elr_record import ClearElrRecord
from barnabas.protocol.records.client_quota_record import ClientQuotaRecord, EntityData
from barnabas.protocol.records.config_record import ConfigRecord
from barnabas.protocol.records.delegation_token_record import DelegationTokenRecord
from barnabas.protocol.records.feature_level_record import FeatureLevelRecord
from barnabas.protocol.records.no_op_record import NoOpRecord
from barnabas.protocol.records.partition_change_record import PartitionChangeRecord
from barnabas.protocol.records.partition_record import PartitionRecord
from barnabas.protocol.records.producer_ids_record import ProducerIdsRecord
from barnabas.protocol.records.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from barnabas.protocol.records.register_controller_record import RegisterControllerRecord
from barnabas.protocol.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from barnabas.protocol.records.remove_delegation_token_record import RemoveDelegationTokenRecord
from barnabas.protocol.records.remove_topic_record import RemoveTopicRecord
from barnabas.protocol.records.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from barnabas.protocol.records.topic_record import TopicRecord
from barnabas.protocol.records.unregister_broker_record import UnregisterBrokerRecord
from barnabas.protocol.records.user_scram_credential_record import UserScramCredentialRecord

T = TypeVar("T")

BROKERS = (1, 2, 3)
NAMES = ("a", "a.b", "a_b", "orders", "x", "y", "z")


class _History:
    def __init__(self) -> None:
        self.random = Random(0)
        self.records: list[Any] = [FeatureLevelRecord(name="metadata.version", feature_level=30)]
        self.topics: dict[Uuid, str] = {}
        self.partitions: dict[Uuid, int] = {}
        self.brokers: dict[int, int] = {}
        self.acls: set[Uuid] = set()
        self.next_id = 1000

    def one_of(self, options: Sequence[T]) -> T:
        return options[self.random.randrange(len(options))]

    def some_brokers(self, at_least: int = 0) -> list[int]:
        return self.random.sample(BROKERS, self.random.randint(at_least, len(BROKERS)))

    def maybe(self, value: T) -> T | None:
        return value if self.random.random() < 0.5 else None

    def new_id(self) -> Uuid:
        self.next_id += 1
        return Uuid.from_int(self.next_id)

    def step(self, seed: int) -> None:
        self.random = Random(seed)
        steps = [
            self.create_topic,
            self.add_partition,
            self.change_partition,
            self.remove_topic,
            self.register_broker,
            self.change_broker,
            self.unregister_broker,
            self.set_config,
            self.others,
            self.acl,
        ]
        self.one_of(steps)()

    def create_topic(self) -> None:
        name = self.one_of(NAMES)
        if name not in self.topics.values():
            topic_id = self.new_id()
            self.topics[topic_id], self.partitions[topic_id] = name, 0
            self.records.append(TopicRecord(name=name, topic_id=topic_id))
            self._partition(topic_id)

    def add_partition(self) -> None:
        if self.topics:
            self._partition(self.one_of(sorted(self.topics)))

    def _partition(self, topic_id: Uuid) -> None:
        replicas = self.some_brokers(1)
        self.records.append(
            PartitionRecord(
                partition_id=self.partitions[topic_id],
                topic_id=topic_id,
                replicas=replicas,
                isr=replicas,
                leader=replicas[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=[Uuid.from_int(100 + replica) for replica in replicas],
            )
        )
        self.partitions[topic_id] += 1

    def change_partition(self) -> None:
        if not self.topics:
            return
        topic_id = self.one_of(sorted(self.topics))
        record = PartitionChangeRecord(partition_id=self.random.randrange(self.partitions[topic_id]), topic_id=topic_id)
        record.leader = self.one_of([-2, -1, 1, 2, 3])
        record.isr = self.maybe(self.some_brokers())
        record.eligible_leader_replicas = self.maybe(self.some_brokers())
        record.last_known_elr = self.maybe(self.some_brokers())
        replicas = self.maybe(self.some_brokers(1))
        if replicas is not None:
            record.replicas = replicas
            record.directories = [Uuid.from_int(100 + replica) for replica in replicas]
        self.records.append(record)

    def remove_topic(self) -> None:
        if self.topics:
            topic_id = self.one_of(sorted(self.topics))
            del self.topics[topic_id], self.partitions[topic_id]
            self.records.append(RemoveTopicRecord(topic_id=topic_id))

    def register_broker(self) -> None:
        broker = self.one_of(BROKERS)
        self.brokers[broker] = len(self.records)
        self.records.append(
            RegisterBrokerRecord(
                broker_id=broker,
                incarnation_id=self.new_id(),
                broker_epoch=self.brokers[broker],
                end_points=[BrokerEndpoint(name="PLAINTEXT", host="h", port=9092, security_protocol=0)],
                features=[BrokerFeature(name="metadata.version", min_supported_version=7, max_supported_version=30)],
                rack=self.one_of([None, "r1"]),
                log_dirs=[Uuid.from_int(100 + broker)],
            )
        )

    def change_broker(self) -> None:
        if self.brokers:
            broker = self.one_of(sorted(self.brokers))
            self.records.append(
                BrokerRegistrationChangeRecord(
                    broker_id=broker,
                    broker_epoch=self.brokers[broker],
                    fenced=self.one_of([-1, 0, 1]),
                    in_controlled_shutdown=self.one_of([0, 1]),
                    cordoned_log_dirs=self.one_of([None, []]),
                )
            )

    def unregister_broker(self) -> None:
        if self.brokers:
            broker = self.one_of(sorted(self.brokers))
            record = UnregisterBrokerRecord(broker_id=broker, broker_epoch=self.brokers.pop(broker))
            self.records.append(record)

    def set_config(self) -> None:
        name = self.one_of(sorted(self.topics.values()) or [""])
        resource_type, resource_name = (2, name) if name else (4, "")
        self.records.append(
            ConfigRecord(
                resource_type=resource_type,
                resource_name=resource_name,
                name=self.one_of(["retention.ms", "min.insync.replicas"]),
                value=self.one_of([None, "1", "2"]),
            )
        )

    def acl(self) -> None:
        if self.acls and self.maybe(self.acls):
            gone = self.one_of(sorted(self.acls))
            self.acls.remove(gone)
            self.records.append(RemoveAccessControlEntryRecord(id=gone))
        else:
            self.acls.add(acl_id := self.new_id())
            self.records.append(AccessControlEntryRecord(id=acl_id, resource_name="t", principal="User:a", host="*"))

    def others(self) -> None:
        names = sorted(self.topics.values())
        self.records.append(
            self.one_of(
                [
                    NoOpRecord(),
                    ClearElrRecord(topic_name=""),
                    *[ClearElrRecord(topic_name=name) for name in names],
                    FeatureLevelRecord(name="group.version", feature_level=1),
                    FeatureLevelRecord(name="group.version", feature_level=0),
                    ProducerIdsRecord(next_producer_id=1000 * len(self.records)),
                    RegisterControllerRecord(controller_id=1, incarnation_id=Uuid.from_int(7)),
                    DelegationTokenRecord(token_id="t1", owner="User:a", requester="User:a"),
                    RemoveDelegationTokenRecord(token_id="t1"),
                    UserScramCredentialRecord(name="alice", mechanism=1, salt=b"s", iterations=4096),
                    RemoveUserScramCredentialRecord(name="alice", mechanism=1),
                    *[
                        ClientQuotaRecord(
                            entity=[EntityData(entity_type="user", entity_name=user)],
                            key="producer_byte_rate",
                            value=1.0,
                            remove=remove,
                        )
                        for user in ("alice", None)
                        for remove in (False, True)
                    ],
                ]
            )
        )


def _history(seeds: list[int]) -> list[Any]:
    history = _History()
    for seed in seeds:
        history.step(seed)
    return history.records


def histories() -> st.SearchStrategy[list[Any]]:
    return st.lists(st.integers(0, 2**31), max_size=40).map(_history)
