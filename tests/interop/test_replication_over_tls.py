"""Followers log in at their leaders over SASL_SSL, on the inter-broker listener."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from barnabas.clients.admin import NewTopic, SyncAdminClient
from tests.peers.certificates import Authority
from tests.peers.mixed import OurBroker, RealBroker
from tests.peers.node_process import free_ports
from tests.peers.quorums import OurController, running_quorum, wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.peers.node_process import NodeProcess

pytestmark = pytest.mark.interop

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:node;User:ANONYMOUS",
}


def _settings(folder: Path, port: int, *, user: str = "node") -> dict[str, str]:
    """PLAINTEXT for clients, SASL_SSL with certificates on both sides for brokers."""
    authority = Authority()
    if not (folder / "ca.pem").exists():
        authority.write_pem(folder / "ca.pem")
        authority.issue("node").write_pem(folder / "node.pem")
    (internal,) = free_ports(1)
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},INTERNAL://127.0.0.1:{internal}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,INTERNAL:SASL_SSL",
        "inter.broker.listener.name": "INTERNAL",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.internal.plain.sasl.jaas.config": (
            f'{_PLAIN} required username="{user}" password="{user}-secret" '
            'user_node="node-secret" user_eve="eve-secret";'
        ),
        "listener.name.internal.ssl.keystore.type": "PEM",
        "listener.name.internal.ssl.keystore.location": str(folder / "node.pem"),
        "listener.name.internal.ssl.truststore.type": "PEM",
        "listener.name.internal.ssl.truststore.location": str(folder / "ca.pem"),
        "listener.name.internal.ssl.client.auth": "required",
        **_AUTHORIZER,
    }


def _produce(servers: str, *, acks: str = "all", timeout_s: float = 20) -> list[object]:
    """Produce a hundred records. Return the errors, if any."""
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": servers, "acks": acks, "message.timeout.ms": int(timeout_s * 1000)})
    for number in range(100):
        producer.produce("t", value=b"record %d" % number, on_delivery=lambda error, _: errors.append(error))
    producer.flush(timeout_s + 5)
    return [error for error in errors if error is not None]


def _log_of(broker: NodeProcess) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(broker.folder.glob("data*/t-0/*.log")))


def _run(folder: Path, kinds: Mapping[int, type[OurBroker] | type[RealBroker]]) -> None:
    with running_quorum(folder, [OurController], settings=_AUTHORIZER) as quorum:
        brokers: list[OurBroker | RealBroker] = []
        for number, kind in kinds.items():
            broker = kind(folder / str(number), number, controllers=quorum.servers, cluster_id=quorum.cluster_id)
            _change(broker, _settings(folder, broker.port))
            if isinstance(broker, RealBroker):
                broker.format()
            brokers.append(broker)
        try:
            for broker in brokers:
                broker.start()
            servers = ",".join(broker.bootstrap_servers for broker in brokers)
            with SyncAdminClient(servers) as admin:
                config = {"min.insync.replicas": str(len(kinds))}
                topic = NewTopic("t", assignments=[list(kinds)], configs=config)
                admin.create_topics([topic]).raise_for_errors()
            assert _produce(servers) == []
            wait_until(lambda: _log_of(brokers[0]) == _log_of(brokers[1]) != b"", what="equal logs")
        finally:
            for broker in brokers:
                broker.kill()


def _change(broker: OurBroker | RealBroker, settings: Mapping[str, str]) -> None:
    broker._settings.pop("listener.name.saslp.scram-sha-256.sasl.jaas.config")
    broker._settings.update(settings)


def test_our_followers_log_in_at_our_leaders(tmp_path: Path) -> None:
    _run(tmp_path, {1: OurBroker, 2: OurBroker})


@pytest.mark.long
@pytest.mark.parametrize("leader_is_ours", [True, False])
def test_our_followers_log_in_at_kafkas_leaders_and_the_reverse(tmp_path: Path, leader_is_ours: bool) -> None:
    first, second = (OurBroker, RealBroker) if leader_is_ours else (RealBroker, OurBroker)
    _run(tmp_path, {1: first, 2: second})


@pytest.mark.long
def test_a_follower_that_may_not_copy_says_why_and_no_record_counts_as_replicated(tmp_path: Path) -> None:
    with running_quorum(tmp_path, [OurController], settings=_AUTHORIZER) as quorum:
        brokers = [
            OurBroker(tmp_path / str(number), number, controllers=quorum.servers, cluster_id=quorum.cluster_id)
            for number in (1, 2)
        ]
        for broker, user in zip(brokers, ("node", "eve"), strict=True):
            _change(broker, _settings(tmp_path, broker.port, user=user))
        try:
            for broker in brokers:
                broker.start()
            with SyncAdminClient(brokers[0].bootstrap_servers) as admin:
                topic = NewTopic("t", assignments=[[1, 2]], configs={"min.insync.replicas": "2"})
                admin.create_topics([topic]).raise_for_errors()
            assert _produce(brokers[0].bootstrap_servers, timeout_s=2)
            assert _log_of(brokers[1]) == b""
            assert "TOPIC_AUTHORIZATION_FAILED" in brokers[1].printed()
        finally:
            for broker in brokers:
                broker.kill()
