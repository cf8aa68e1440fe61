"""Streams groups in a cluster of Kafka's broker and ours, while their coordinator moves between the two."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from barnabas.clients.admin import ElectionType, NewTopic, SyncAdminClient, TopicPartition
from tests.interop.streams_group_walk import WALK_SETTINGS, tell_apart, walk_with_moves
from tests.interop.streams_load import PARTITIONS, TOPICS, Load, await_everything, random_of_run
from tests.interop.walks import walk_seeds, walk_steps
from tests.peers.mixed import OurBroker, RealBroker
from tests.peers.quorums import OurController, Quorum, running_quorum, wait_until
from tests.peers.streams_application import StreamsApplication

pytestmark = [pytest.mark.interop, pytest.mark.timeout(500), pytest.mark.usefixtures("kafka_peer")]

KAFKA, OURS = 1, 2
STEPS = walk_steps(40)
SEEDS = walk_seeds(1)
STATE = (TopicPartition("__consumer_offsets", 0), TopicPartition("__transaction_state", 0))
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "1",
    "replica.lag.time.max.ms": "3000",
}
NODE_SETTINGS = {
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "500",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}
APPLICATION = {
    "group.protocol": "streams",
    "commit.interval.ms": "100",
    "num.stream.threads": "2",
    "replication.factor": "2",
}


class Both:
    """A controller of ours, a broker of Kafka's and one of ours. Both have all state of groups and transactions."""

    def __init__(self, quorum: Quorum, folder: Path, settings: dict[str, str]) -> None:
        named = {"controllers": quorum.servers, "cluster_id": quorum.cluster_id, "settings": {**SETTINGS, **settings}}
        self.kafka = RealBroker(folder / "kafka", KAFKA, own_process=True, **named)  # type: ignore[arg-type]
        self.ours = OurBroker(folder / "ours", OURS, **named)  # type: ignore[arg-type]
        self.kafka.start()
        self.ours.start()
        with SyncAdminClient(self.servers) as admin:
            new = [
                NewTopic(name, configs={"cleanup.policy": "compact"}, assignments=[[KAFKA, OURS]]) for name, _ in STATE
            ]
            admin.create_topics(new, wait=True).raise_for_errors()

    @property
    def servers(self) -> str:
        return f"{self.kafka.bootstrap_servers},{self.ours.bootstrap_servers}"

    def move(self, target: int) -> int:
        """Make a broker the coordinator of everything. Return its port."""
        replicas = [target, KAFKA + OURS - target]
        with SyncAdminClient(self.servers) as admin:
            wait_until(lambda: self._in_sync(admin), what="both replicas are in sync", timeout_s=60)
            admin.alter_partition_reassignments(dict.fromkeys(STATE, replicas), wait=True).raise_for_errors()
            admin.elect_leaders(ElectionType.PREFERRED, STATE, wait=True).raise_for_errors()
        return (self.kafka if target == KAFKA else self.ours).port

    def _in_sync(self, admin: SyncAdminClient) -> bool:
        found = admin.describe_topics([name for name, _ in STATE]).values.values()
        return all(len(partition.isr) == 2 for topic in found for partition in topic.partitions)


@contextmanager
def running_both(folder: Path, settings: dict[str, str]) -> Iterator[Both]:
    with running_quorum(folder / "controller", [OurController], settings=settings) as quorum:
        both = Both(quorum, folder, settings)
        try:
            yield both
            assert "Traceback" not in both.ours.printed()
        finally:
            both.kafka.kill()
            both.ours.kill()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_story_is_told_wherever_the_coordinator_is(seed: int, tmp_path: Path) -> None:
    stories = []
    for name, targets in (("first", [KAFKA, OURS, KAFKA, OURS]), ("second", [OURS, KAFKA, OURS, KAFKA])):
        with running_both(tmp_path / name, WALK_SETTINGS) as both:
            stories.append(walk_with_moves(both.move, targets, seed, STEPS))
    tell_apart(stories[0], stories[1], f"seed {seed}, the second began on our broker")


def test_counts_and_joins_are_exact_while_the_coordinator_moves_and_dies(tmp_path: Path) -> None:
    random = random_of_run()
    with running_both(tmp_path, NODE_SETTINGS) as both:
        placements = [[(KAFKA, OURS)[number % 2], (OURS, KAFKA)[number % 2]] for number in range(PARTITIONS)]
        with SyncAdminClient(both.servers) as admin:
            topics = [NewTopic(name, assignments=placements) for name in TOPICS]
            admin.create_topics(topics, wait=True).raise_for_errors()
        load = Load(both.servers, random)
        load.fill_table()
        application = StreamsApplication(tmp_path / "application", both.servers, APPLICATION)
        try:
            both.move(KAFKA)
            application.start(timeout_s=120)
            for target in (OURS, KAFKA, OURS):
                load.write(random.randint(20, 100))
                both.move(target)
            await_everything(both.servers, load, timeout_s=120)
            for broker in (both.ours, both.kafka):  # The coordinator each time.
                load.write(random.randint(20, 100))
                broker.kill()
                load.write(random.randint(20, 100))
                broker.start()
                both.move(KAFKA)
            await_everything(both.servers, load, timeout_s=120)
            assert not application.failures()
            assert application.stop() == 143
        finally:
            application.kill()
