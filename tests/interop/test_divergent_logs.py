"""Replicas return with records that their leader lacks, or with none that it still has: the logs become equal again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as WatchedPartition

from barnabas.clients.admin import NewTopic, SyncAdminClient
from barnabas.common.topic_partition import TopicPartition
from tests.peers.mixed import OurBroker, RealBroker
from tests.peers.quorums import OurController, running_quorum, wait_until

pytestmark = [pytest.mark.interop, pytest.mark.long]

Broker = OurBroker | RealBroker


def _produce(broker: Broker, what: str, *, acks: str) -> None:
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "acks": acks, "message.timeout.ms": 30_000})
    for number in range(50):
        producer.produce("t", value=f"{what} {number}".encode(), on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(40) == 0
    assert errors == [None] * 50


def _log_of(broker: Broker) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(broker.folder.glob("data*/t-0/*.log")))


_PAIRS = pytest.mark.parametrize(
    ("first", "second"),
    [(OurBroker, OurBroker), (OurBroker, RealBroker), (RealBroker, OurBroker)],
    ids=["ours", "ours first", "Kafka's first"],
)


@contextmanager
def _two_replicas(folder: Path, first: type[Broker], second: type[Broker]) -> Iterator[tuple[Broker, Broker]]:
    """The leader and the follower of the topic's only partition."""
    with running_quorum(folder, [OurController], settings={"broker.session.timeout.ms": "3000"}) as quorum:
        leader, follower = (
            kind(folder / str(number), number, controllers=quorum.servers, cluster_id=quorum.cluster_id)
            for number, kind in ((1, first), (2, second))
        )
        try:
            for broker in (leader, follower):
                if isinstance(broker, RealBroker):
                    broker.format()
                broker.start()
            with SyncAdminClient(leader.bootstrap_servers) as admin:
                admin.create_topics([NewTopic("t", assignments=[[1, 2]])]).raise_for_errors()
            yield leader, follower
        finally:
            leader.kill()
            follower.kill()


@_PAIRS
def test_a_returning_leader_truncates_uncommitted_records(
    tmp_path: Path, first: type[Broker], second: type[Broker]
) -> None:
    with _two_replicas(tmp_path, first, second) as (leader, follower):
        _produce(leader, "common", acks="all")
        follower.freeze()
        time.sleep(1)  # Its last fetch is answered after replica.fetch.wait.max.ms, without records.
        _produce(leader, "lost", acks="1")
        leader.kill()
        follower.thaw()
        _produce(follower, "new", acks="1")
        leader.start()
        wait_until(lambda: _log_of(leader) == _log_of(follower), what="equal logs", timeout_s=30)
        assert (b"lost 0" in _log_of(leader), b"new 49" in _log_of(leader)) == (False, True)
        _produce(follower, "both", acks="all")


@_PAIRS
def test_a_follower_whose_records_were_all_deleted_restarts_inside_a_batch(
    tmp_path: Path, first: type[Broker], second: type[Broker]
) -> None:
    with _two_replicas(tmp_path, first, second) as (leader, follower):
        _produce(leader, "deleted", acks="all")
        follower.stop()
        _produce(leader, "kept", acks="1")  # Records 50 to 99, in one batch or in few.
        with SyncAdminClient(leader.bootstrap_servers) as admin:
            admin.delete_records({TopicPartition("t", 0): 77}).raise_for_errors()
        follower.start()
        _produce(leader, "new", acks="all")
        kept = _log_of(follower)
        assert (b"deleted 49" in kept, b"kept 49" in kept) == (False, True)
        assert kept == _log_of(leader)[-len(kept) :]
        leader.stop()
        wait_until(lambda: _offsets(follower) == (77, 150), what="the follower leads with the leader's offsets")


def _offsets(broker: Broker) -> tuple[int, int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "unused"})
    try:
        low, high = consumer.get_watermark_offsets(WatchedPartition("t", 0), timeout=5)
    except KafkaException:  # The broker does not lead yet.
        return -1, -1
    finally:
        consumer.close()
    return low, high
