"""Our node reports to the Java admin client the same authorized operations as a real Kafka (KIP-430)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers import KafkaNode
from tests.peers.acl_matrix import PASSWORD, parse_rights
from tests.peers.acl_stage import Stage, secure_settings
from tests.peers.command_node import CommandNode
from tests.peers.java import run_source

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

TOPICS = "orders,orders-eu,other,missing"
GROUPS = "g1,g2,nobody"
USERS = {
    "plain": "",
    "describer": "DESCRIBE CLUSTER kafka-cluster; DESCRIBE TOPIC *; DESCRIBE GROUP *",
    "everything": "ALL CLUSTER kafka-cluster; ALL TOPIC *; ALL GROUP *",
    "some": "ALTER CLUSTER kafka-cluster; READ TOPIC ord...; ALL TOPIC other; READ GROUP g...; DELETE GROUP g2",
    "denied": (
        "ALL CLUSTER kafka-cluster; deny ALTER CLUSTER kafka-cluster; ALL TOPIC *; deny DESCRIBE TOPIC orders; "
        "deny WRITE TOPIC orders-...; ALL GROUP *; deny READ GROUP g1; deny DESCRIBE_CONFIGS GROUP *"
    ),
    "elsewhere": "ALL TOPIC * @127.0.0.2; DESCRIBE TOPIC *; ALL GROUP * @127.0.0.1; deny DELETE GROUP * @127.0.0.2",
    "admin": "",
}
"""Rights by user; admin is the super user."""


def operations_reported_by(node: KafkaNode | CommandNode) -> list[str]:
    node.change_settings(secure_settings(node, USERS))
    node.start()
    try:
        stage = Stage(node, [])
        stage.grant(binding for user, rights in USERS.items() for binding in parse_rights(rights, user, None))
        stage.close()
        return run_source("AuthorizedOperations", TOPICS, GROUPS, *client_files(node)).splitlines()
    finally:
        node.stop()


def client_files(node: KafkaNode | CommandNode) -> list[str]:
    files: list[Path] = []
    for user in USERS:
        files.append(node.folder / f"{user}.properties")
        files[-1].write_text(
            f"bootstrap.servers={node.bootstrap_servers}\nclient.id={user}\nsecurity.protocol=SASL_PLAINTEXT\n"
            "sasl.mechanism=PLAIN\nsasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule "
            f'required username="{user}" password="{PASSWORD}";\n'
        )
    return [str(file) for file in files]


def test_the_java_admin_client_receives_the_same_operations(kafka_peer: Path, tmp_path: Path) -> None:
    theirs = operations_reported_by(KafkaNode(tmp_path / "kafka"))
    assert len(theirs) == len(USERS) * (1 + 2 * (1 + len(TOPICS.split(",")) + len(GROUPS.split(","))))
    assert operations_reported_by(CommandNode(tmp_path / "ours")) == theirs
