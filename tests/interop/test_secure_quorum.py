"""A quorum and a broker of it over SASL_SSL, with certificates on both sides and an authorizer; Kafka's too."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from barnabas.clients.admin import AdminError, NewTopic, RaftVoterEndpoint, SyncAdminClient
from barnabas.common.uuid import Uuid
from tests.peers import require_peer
from tests.peers.certificates import Authority
from tests.peers.node_process import free_ports
from tests.peers.quorums import OurBroker, OurController, RealController, barnabas, running_quorum

pytestmark = pytest.mark.interop

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def secure_settings(folder: Path) -> dict[str, str]:
    authority = Authority()
    trust, key = authority.write_pem(folder / "ca.pem"), authority.issue("node").write_pem(folder / "node.pem")
    return {
        "listener.security.protocol.map": "CONTROLLER:SASL_SSL,PLAINTEXT:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": (
            f'{PLAIN} required username="node" password="node-secret" user_node="node-secret" user_eve="eve-secret";'
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(key),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trust),
        "listener.name.controller.ssl.client.auth": "required",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:node;User:ANONYMOUS",
    }


def client_file(folder: Path, settings: Mapping[str, str], user: str) -> Path:
    path = folder / f"{user}.properties"
    stores = {name: value for name, value in settings.items() if name.startswith("ssl.")}
    login = f'{PLAIN} required username="{user}" password="{user}-secret";'
    properties = {
        **stores, "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": login,
        "default.api.timeout.ms": "5000",
    }  # fmt: skip
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return path


def test_controllers_and_brokers_prove_who_they_are(tmp_path: Path) -> None:
    require_peer()
    settings = secure_settings(tmp_path)
    with running_quorum(tmp_path, (OurController, OurController, RealController), settings=settings) as quorum:
        broker = OurBroker(tmp_path / "broker", quorum, settings=settings)
        broker.start()
        try:
            with SyncAdminClient(broker.bootstrap_servers) as admin:
                admin.create_topics([NewTopic("secret", partitions=1, replication_factor=1)]).raise_for_errors()
            for controller in quorum.controllers:
                shell = ["shell", "--bootstrap-controller", controller.address, "--command-config"]
                trusted = barnabas(*shell, str(client_file(tmp_path, settings, "node")), "ls", "/image/topics/byName")
                assert trusted.split() == ["secret"]
                with pytest.raises(AssertionError, match="CLUSTER_ACTION"):
                    barnabas(*shell, str(client_file(tmp_path, settings, "eve")), "ls")
            assert broker.stop() == 0
        finally:
            broker.kill()


def test_a_controller_that_cannot_log_in_at_others_refuses_them_and_continues(tmp_path: Path) -> None:
    """A single controller needs no login of its own, and starts without one."""
    port = free_ports(1)[0]
    settings = {
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{port}",
        "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": f'{PLAIN} required user_admin="admin-secret";',
    }
    controller = OurController(tmp_path, 1, port, settings)
    controller.format("Q2yFjqwTT_q6sGU7cLtQlA", "--standalone")
    controller.start()
    login = {
        "bootstrap.controllers": controller.address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN} required username="admin" password="admin-secret";',
    }
    try:
        with SyncAdminClient(properties=login) as admin:
            endpoint = RaftVoterEndpoint("CONTROLLER", "127.0.0.1", 1)
            with pytest.raises(AdminError, match="can't be reached at its endpoint"):
                admin.add_raft_voter(2, Uuid.from_int(1234), [endpoint], timeout_s=2)
            assert [voter.replica_id for voter in admin.describe_quorum().voters] == [1]
        assert "PlainLoginModule needs username and password" in controller.printed()
        assert controller.stop() == 0
    finally:
        controller.kill()
