"""Leaderships of our brokers, with a controller of ours or Kafka's: a broker that leaves is not missed, and leads again
when it returns. The controller's decisions are compared in ``tests/unit/controller/test_recorded_leadership.py``; here
brokers act on them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from barnabas.clients.admin import AlterConfigOp, ConfigResource, ConfigResourceType, NewTopic, SyncAdminClient
from tests.peers.mixed import OurBroker
from tests.peers.quorums import ControllerNode, OurController, Quorum, RealController, running_quorum, wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

SOON = {
    "broker.session.timeout.ms": "3000",
    "leader.imbalance.check.interval.seconds": "1",
    "unclean.leader.election.interval.ms": "1000",
}
BROKERS = {"broker.heartbeat.interval.ms": "500", "replica.lag.time.max.ms": "2000"}
LEFT_BY_ITSELF_S = 2.5


class Cluster:
    def __init__(self, quorum: Quorum, folder: Path) -> None:
        self.brokers = {
            node_id: OurBroker(
                folder / str(node_id),
                node_id,
                controllers=quorum.servers,
                cluster_id=quorum.cluster_id,
                settings=BROKERS,
            )
            for node_id in (1, 2, 3)
        }

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    def leaders(self, admin: SyncAdminClient, topic: str) -> list[int | None]:
        return [partition.leader for partition in admin.describe_topics([topic])[topic].partitions]

    def in_sync(self, admin: SyncAdminClient, topic: str) -> list[int]:
        return [len(partition.isr) for partition in admin.describe_topics([topic])[topic].partitions]


@pytest.fixture(scope="module", params=[OurController, RealController], ids=["ours", "kafka"])
def cluster(
    request: pytest.FixtureRequest, kafka_peer: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    kind: type[ControllerNode] = request.param
    with running_quorum(tmp_path_factory.mktemp("controllers"), [kind], settings=SOON) as quorum:
        running = Cluster(quorum, tmp_path_factory.mktemp("brokers"))
        try:
            for broker in running.brokers.values():
                broker.start()
            yield running
        finally:
            for broker in running.brokers.values():
                broker.kill()


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[SyncAdminClient]:
    with SyncAdminClient(cluster.bootstrap_servers) as client:
        yield client


class Load:
    """A producer that continues until it is stopped; ``lost`` are the errors that it received."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.lost: list[str] = []
        self.longest_s = 0.0
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True})
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        assert self._producer.flush(20) == 0

    def _run(self) -> None:
        while not self._ended.wait(0.005):
            began = time.monotonic()

            def on_delivery_report(error: object, _: object, began: float = began) -> None:
                self.longest_s = max(self.longest_s, time.monotonic() - began)
                if error is not None:
                    self.lost.append(str(error))

            self._producer.produce(self._topic, b"x", on_delivery=on_delivery_report)
            self._producer.poll(0)


@pytest.mark.long
def test_an_orderly_stop_does_not_interrupt_clients_and_leadership_returns(
    cluster: Cluster, admin: SyncAdminClient
) -> None:
    admin.create_topics(
        [NewTopic("rolled", assignments=[[1, 2, 3], [2, 3, 1], [3, 1, 2]])], wait=True
    ).raise_for_errors()
    with Load(cluster.bootstrap_servers, "rolled") as load:
        for node_id, broker in cluster.brokers.items():
            began = time.monotonic()
            broker.stop()
            assert time.monotonic() - began < LEFT_BY_ITSELF_S
            assert node_id not in cluster.leaders(admin, "rolled"), (
                "other brokers have its leaderships before it leaves"
            )
            broker.start()
            wait_until(lambda: cluster.in_sync(admin, "rolled") == [3, 3, 3], what="its return into the ISR")
        wait_until(lambda: cluster.leaders(admin, "rolled") == [1, 2, 3], what="the preferred leaders")
    assert load.lost == []
    assert load.longest_s < LEFT_BY_ITSELF_S


@pytest.mark.long
def test_an_out_of_sync_replica_leads_once_unclean_election_is_enabled(
    cluster: Cluster, admin: SyncAdminClient
) -> None:
    admin.create_topics([NewTopic("unclean", assignments=[[1, 2]])], wait=True).raise_for_errors()
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    producer.produce("unclean", b"both have it", partition=0)
    assert producer.flush(20) == 0
    cluster.brokers[2].stop()
    wait_until(lambda: cluster.in_sync(admin, "unclean") == [1], what="the shrunk ISR")
    producer.produce("unclean", b"only one has it", partition=0)
    assert producer.flush(20) == 0
    cluster.brokers[1].kill()
    try:
        wait_until(lambda: cluster.leaders(admin, "unclean") == [None], what="a partition without a leader")
        cluster.brokers[2].start()
        time.sleep(1.5)
        assert cluster.leaders(admin, "unclean") == [None], "it would lose a record"
        topic = ConfigResource(ConfigResourceType.TOPIC, "unclean")
        admin.incremental_alter_configs({topic: [AlterConfigOp.set("unclean.leader.election.enable", "true")]})
        wait_until(lambda: cluster.leaders(admin, "unclean") == [2], what="the unclean election")
    finally:
        cluster.brokers[1].start()
    wait_until(lambda: cluster.in_sync(admin, "unclean") == [2], what="the return of the broker with more records")
    producer.produce("unclean", b"both have this", partition=0)
    assert producer.flush(20) == 0
