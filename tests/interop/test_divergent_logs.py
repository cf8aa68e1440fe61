"""A leader dies with records that nobody else has, and comes back: they go, and the logs are equal again."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from barnabas.clients.admin import NewTopic, SyncAdminClient
from tests.peers.mixed import OurBroker, RealBroker
from tests.peers.quorums import OurController, running_quorum, wait_until

pytestmark = [pytest.mark.interop, pytest.mark.long]

Broker = OurBroker | RealBroker


def _produce(broker: Broker, what: str, *, acks: str) -> None:
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": acks, "message.timeout.ms": 30_000})
    for number in range(50):
        producer.produce("t", value=f"{what} {number}".encode(), on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(40) == 0
    assert errors == [None] * 50


def _log_of(broker: Broker) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(broker.folder.glob("data*/t-0/*.log")))


def _signal(broker: Broker, number: signal.Signals) -> None:
    assert broker._process is not None
    os.kill(broker._process.pid, number)


@pytest.mark.parametrize(
    ("first", "second"),
    [(OurBroker, OurBroker), (OurBroker, RealBroker), (RealBroker, OurBroker)],
    ids=["ours", "ours under Kafka's", "Kafka's under ours"],
)
def test_a_leader_that_comes_back_gives_up_what_was_not_committed(
    tmp_path: Path, first: type[Broker], second: type[Broker]
) -> None:
    with running_quorum(tmp_path, [OurController], settings={"broker.session.timeout.ms": "3000"}) as quorum:
        leader, follower = (
            kind(tmp_path / str(number), number, controllers=quorum.servers, cluster_id=quorum.cluster_id)
            for number, kind in ((1, first), (2, second))
        )
        try:
            for broker in (leader, follower):
                if isinstance(broker, RealBroker):
                    broker.format()
                broker.start()
            with SyncAdminClient(leader.bootstrap) as admin:
                admin.create_topics([NewTopic("t", assignments=[[1, 2]])]).raise_for_errors()
            _produce(leader, "common", acks="all")
            _signal(follower, signal.SIGSTOP)
            time.sleep(1)  # Its last fetch is answered after replica.fetch.wait.max.ms: with nothing.
            _produce(leader, "lost", acks="1")
            leader.kill()
            _signal(follower, signal.SIGCONT)
            _produce(follower, "new", acks="1")
            leader.start()
            wait_until(lambda: _log_of(leader) == _log_of(follower), what="equal logs", timeout_s=30)
            assert (b"lost 0" in _log_of(leader), b"new 49" in _log_of(leader)) == (False, True)
            _produce(follower, "both", acks="all")
        finally:
            leader.kill()
            follower.kill()
