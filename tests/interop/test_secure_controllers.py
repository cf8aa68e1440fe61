"""Brokers authenticate at our controller, by SASL or by mutual TLS, and need a right there; the client's rights are
separate.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.clients.admin import NewTopic, SyncAdminClient
from barnabas.common.acl import AclBinding
from tests.peers.certificates import Authority
from tests.peers.mixed import OurBroker, RealBroker
from tests.peers.quorums import OurController, Quorum, running_quorum, wait_until

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(120)]

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
PASSWORDS = {"controller": "controller-secret", "broker": "broker-secret", "stranger": "stranger-secret"}
USERS = " ".join(f'user_{user}="{password}"' for user, password in PASSWORDS.items())


def settings(user: str, password: str | None = None) -> dict[str, str]:
    """Return the SASL settings of a node that logs in as ``user``; a controller accepts all of ``PASSWORDS``."""
    login = f'username="{user}" password="{password or PASSWORDS[user]}"'
    return {
        "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,SASLP:SASL_PLAINTEXT",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": f"{_PLAIN} {login} {USERS};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:controller;User:broker;User:ANONYMOUS",
        "initial.broker.registration.timeout.ms": "1000",
        "broker.session.timeout.ms": "3000",
    }


@pytest.fixture(scope="module")
def quorum(kafka_peer: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    folder = tmp_path_factory.mktemp("controllers")
    with running_quorum(folder, [OurController], settings=settings("controller")) as running:
        yield running
        printed = running.controllers[0].printed()
    assert "Traceback" not in printed
    assert "-secret" not in printed


def our_broker(quorum: Quorum, folder: Path, node_id: int, **login: str) -> OurBroker:
    return OurBroker(
        folder, node_id, controllers=quorum.servers, cluster_id=quorum.cluster_id, settings=settings(**login)
    )


def test_a_real_broker_logs_in_and_forwards(quorum: Quorum, tmp_path: Path) -> None:
    broker = RealBroker(
        tmp_path, 1, controllers=quorum.servers, cluster_id=quorum.cluster_id, settings=settings("broker")
    )
    try:
        broker.start()
        with SyncAdminClient(broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("from-kafka", 1, 1)], wait=True).raise_for_errors()
        broker.stop()
    finally:
        broker.end()


def test_our_broker_logs_in_and_forwards(quorum: Quorum, tmp_path: Path) -> None:
    broker = our_broker(quorum, tmp_path, 2, user="broker")
    try:
        broker.start()
        with SyncAdminClient(broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("from-ours", assignments=[[2]])], wait=True).raise_for_errors()
            rule = AclBinding(2, "from-ours", 3, "User:alice", "*", 3, 3)
            admin.create_acls([rule], wait=True).raise_for_errors()
        broker.stop()
    finally:
        broker.kill()
    assert "-secret" not in broker.printed()


def test_a_broker_without_the_right_learns_which_one_it_lacks(quorum: Quorum, tmp_path: Path) -> None:
    broker = our_broker(quorum, tmp_path, 3, user="stranger")
    with pytest.raises(AssertionError, match="CLUSTER_ACTION on the cluster"):
        broker.start(timeout_s=20)
    assert "could not register" in broker.printed()
    wait_until(
        lambda: "Principal = User:stranger is Denied operation = CLUSTER_ACTION" in quorum.controllers[0].printed(),
        what="the line in the audit",
    )


def test_a_broker_with_a_wrong_password_reports_the_failed_login(quorum: Quorum, tmp_path: Path) -> None:
    broker = our_broker(quorum, tmp_path, 4, user="broker", password="wrong")
    with pytest.raises(AssertionError, match="refused the login"):
        broker.start(timeout_s=30)
    assert "wrong" not in broker.printed().replace("something wrong", "")


def test_a_file_without_a_login_is_refused_before_the_start(quorum: Quorum, tmp_path: Path) -> None:
    broker = our_broker(quorum, tmp_path, 5, user="broker")
    broker.change_settings({"listener.name.controller.plain.sasl.jaas.config": f"{_PLAIN};"})
    with pytest.raises((AssertionError, subprocess.CalledProcessError)):
        broker.start(timeout_s=20)


def mutual_tls(authority: Authority, folder: Path, name: str) -> dict[str, str]:
    """Return the TLS settings of a node whose certificate identifies it as server and as client."""
    folder.mkdir(parents=True, exist_ok=True)
    store = authority.issue(name).write_pem(folder / "node.pem")
    trusted = authority.write_pem(folder / "ca.pem")
    return {
        "listener.security.protocol.map": "CONTROLLER:SSL,PLAINTEXT:PLAINTEXT,SASLP:SASL_PLAINTEXT",
        "listener.name.controller.ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trusted),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:CN=controller;User:CN=broker;User:ANONYMOUS",
        "initial.broker.registration.timeout.ms": "1000",
        "broker.session.timeout.ms": "3000",
    }


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def tls_quorum(kafka_peer: Path, authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    folder = tmp_path_factory.mktemp("tls-controllers")
    tls = mutual_tls(authority, folder, "controller")
    with running_quorum(folder, [OurController], settings=tls) as running:
        yield running
        assert "Traceback" not in running.controllers[0].printed()


def test_a_broker_shows_its_certificate_and_forwards(tls_quorum: Quorum, authority: Authority, tmp_path: Path) -> None:
    tls = mutual_tls(authority, tmp_path, "broker")
    broker = OurBroker(tmp_path, 1, controllers=tls_quorum.servers, cluster_id=tls_quorum.cluster_id, settings=tls)
    try:
        broker.start()
        with SyncAdminClient(broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("over-tls", 1, 1)], wait=True).raise_for_errors()
        broker.stop()
    finally:
        broker.kill()


def test_a_certificate_of_an_untrusted_authority_is_refused(tls_quorum: Quorum, tmp_path: Path) -> None:
    tls = mutual_tls(Authority("Another CA"), tmp_path, "broker")
    broker = OurBroker(tmp_path, 2, controllers=tls_quorum.servers, cluster_id=tls_quorum.cluster_id, settings=tls)
    with pytest.raises(AssertionError, match="is not trusted"):
        broker.start(timeout_s=20)
