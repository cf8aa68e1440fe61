"""Controllers under random requests, commits and changes of leadership, by seed.

At every commit the active controller, a standby that replays the log and a loader agree. Every acknowledged request is
in the log, and no request lost with a leader was acknowledged. Elections never break the rules: a leader is alive
and in the ISR, and an ISR is a subset of the replicas.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from barnabas.common.uuid import Uuid
from barnabas.controller.apis import (
    allocate_producer_ids,
    broker_heartbeat,
    broker_registration,
    create_partitions,
    create_topics,
    delete_topics,
    incremental_alter_configs,
)
from barnabas.coordinator.deferred import Deferred
from barnabas.metadata.image.metadata_image import MetadataImage
from barnabas.metadata.loader import MetadataLoader
from barnabas.metadata.snapshot import records_of
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from tests.peers.admin_requests import DELETE, SET, TOPIC, alter, create, delete, grow, named, new_topic
from tests.unit.controller.controller_harness import ControllerHarness, context

BROKERS = (1, 2, 3)
NAMES = ("a", "a.b", "a_b", "orders", "payments")
SETTINGS: dict[str, Any] = {"max_records_per_batch": 40, "default_replication_factor": 2}


class World:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.harness = ControllerHarness(**SETTINGS).activate()
        self.standby = ControllerHarness(**SETTINGS)
        self.loader = MetadataLoader()
        self.replicated = 0
        self.incarnations = dict.fromkeys(BROKERS, 1)
        self.unanswered: list[tuple[Deferred[Any], str]] = []
        self.created: set[Uuid] = set()

    def ask(self, module: Any, request: Any, version: int, what: str = "") -> None:
        harness = self.harness
        deferred = module.handle(harness.controller, context(version), request, harness.authorizer)
        self.unanswered.append((deferred, what))

    def step(self) -> None:
        actions = {
            self.create: 5,
            self.delete: 2,
            self.grow: 2,
            self.configure: 2,
            self.register: 2,
            self.heartbeat: 8,
            self.allocate: 1,
            self.pass_time: 2,
            self.harness.append: 6,
            self.commit: 6,
            self.fail_over: 1,
        }
        self.random.choices(list(actions), list(actions.values()))[0]()
        self.check()

    def create(self) -> None:
        topics = [
            new_topic(name, self.random.randint(1, 4), self.random.choice([1, 2, -1]))
            for name in self.random.sample(NAMES, self.random.randint(1, 2))
        ]
        self.ask(create_topics, create(*topics), 7, "create")

    def delete(self) -> None:
        self.ask(delete_topics, delete(named(self.random.choice(NAMES))), 6)

    def grow(self) -> None:
        self.ask(create_partitions, grow((self.random.choice(NAMES), self.random.randint(1, 8), None)), 3)

    def configure(self) -> None:
        key = self.random.choice(["min.insync.replicas", "retention.ms", "unclean.leader.election.enable"])
        value = {"min.insync.replicas": "2", "retention.ms": "5", "unclean.leader.election.enable": "true"}[key]
        change = self.random.choice([(key, SET, value), (key, DELETE, None)])
        self.ask(incremental_alter_configs, alter((TOPIC, self.random.choice(NAMES), change)), 1)

    def register(self) -> None:
        broker = self.random.choice(BROKERS)
        known = self.harness.controller.state.image.cluster.brokers.get(broker)
        self.incarnations[broker] += 1
        clean = known.epoch if known is not None and self.random.random() < 0.5 else -1
        request = self.harness.registration(
            broker,
            incarnation_id=Uuid.from_int(10_000 + 100 * broker + self.incarnations[broker]),
            previous_broker_epoch=clean,
        )
        self.ask(broker_registration, request, 4)

    def heartbeat(self) -> None:
        broker = self.random.choice(BROKERS)
        known = self.harness.controller.state.image.cluster.brokers.get(broker)
        if known is not None:
            request = BrokerHeartbeatRequest(
                broker_id=broker,
                broker_epoch=known.epoch,
                current_metadata_offset=self.harness.controller.committed_image.offset,
                want_fence=self.random.random() < 0.1,
                want_shut_down=self.random.random() < 0.1,
            )
            self.ask(broker_heartbeat, request, 2)

    def allocate(self) -> None:
        for broker in list(self.harness.controller.state.image.cluster.brokers.values())[:1]:
            request = AllocateProducerIdsRequest(broker_id=broker.id, broker_epoch=broker.epoch)
            self.ask(allocate_producer_ids, request, 0)

    def pass_time(self) -> None:
        self.harness.clock.ms += self.random.choice([100, 600, 5_000, 9_500])
        self.harness.controller.tick(self.harness.clock.ms)

    def commit(self) -> None:
        pending = len(self.harness._uncommitted)
        self.harness.commit(self.random.randint(0, pending))

    def fail_over(self) -> None:
        """Another controller takes over; appended but uncommitted records are lost, or turn out to be committed."""
        old = self.harness
        uncommitted = list(old._uncommitted)
        survives = uncommitted[: self.random.randint(0, len(uncommitted))]
        old.controller.deactivate()
        assert old.controller.state.image is old.controller.committed_image
        log = [*old.log, *survives]
        old.controller.handle_commit(survives)
        new = ControllerHarness(log=log, **SETTINGS)
        new.clock.ms = old.clock.ms
        new._uuids = old._uuids + 1_000_000
        new.epoch = old.epoch + 1
        new.activate()
        assert old.controller.committed_image.is_same_state(new.controller.committed_image)
        self.harness = new

    def check(self) -> None:
        harness = self.harness
        assert harness.faults == []
        fresh = harness.log[self.replicated :]
        self.replicated = len(harness.log)
        self.standby.controller.handle_commit(fresh)
        self.loader.handle_commit(fresh)
        image = harness.controller.committed_image
        assert self.standby.controller.committed_image == image
        assert self.loader.image == image
        self.check_answers(image)
        check_partitions(image)

    def check_answers(self, image: MetadataImage) -> None:
        for deferred, what in [pair for pair in self.unanswered if pair[0].is_complete]:
            self.unanswered.remove((deferred, what))
            if what == "create":
                self.created |= {t.topic_id for t in deferred.value.topics if t.error_code == 0}
        logged = {
            record.topic_id
            for batch in self.harness.log
            for record in batch.records
            if type(record).__name__ == "TopicRecord"
        }
        assert self.created <= logged, "acknowledged, but not in the log"


def check_partitions(image: MetadataImage) -> None:
    for topic in image.topics.by_id.values():
        for partition in topic.partitions.values():
            assert set(partition.isr) <= set(partition.replicas)
            assert not set(partition.isr) & set(partition.elr)
            if partition.leader >= 0:
                assert partition.leader in partition.isr
                assert image.cluster.is_alive(partition.leader), (topic.name, partition)


@pytest.mark.simulation
@pytest.mark.parametrize("seed", range(25))
def test_controllers_agree_in_random_histories(seed: int) -> None:
    world = World(seed)
    for _ in range(200):
        world.step()
    world.harness.settle()
    world.check()
    assert not world.unanswered, "a request waits forever"
    image = world.harness.controller.committed_image
    loader, restored = MetadataLoader(), ControllerHarness()
    loader.load_snapshot([message for message, _ in records_of(image)], image.provenance)
    restored.controller.load_snapshot(loader.image)
    assert restored.controller.committed_image == image
