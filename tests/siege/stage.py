"""The node under siege, ours or a real Kafka: all kinds of listeners, an authorizer, users with few rights.

``alice`` is the well-behaved client. ``mallory`` may write to one topic, read it, and use one group. ``bob`` may log
in and has no right at all. ``ANONYMOUS`` is any client of a listener without SASL, and has no right either: brokers and
controllers log in.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from barnabas.common.acl import AclOperation, AclPermissionType
from barnabas.common.resource import PatternType, ResourceType
from barnabas.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from tests.interop.raw_client import RawClient
from tests.peers.barnabas_worker import BarnabasWorker
from tests.peers.connect_worker import ConnectWorker, worker_settings
from tests.peers.node_process import NodeProcess
from tests.peers.secure import SecureNode, running_secure_barnabas, running_secure_kafka

__all__ = [
    "ADMIN",
    "ALICE",
    "BOB",
    "CONTROLLER",
    "GROUP",
    "MALLORY",
    "OWN_TOPIC",
    "REST",
    "TOPIC",
    "WORKER_GROUP",
    "Scene",
    "logged_in",
    "running_stage",
    "running_worker",
]

CONTROLLER = "CONTROLLER"
REST = "REST"
"""The REST API of a Connect worker, which is started for the entries that need it."""
WORKER_GROUP = "siege-connect"
ALICE, BOB, MALLORY, ADMIN = "alice", "bob", "mallory", "admin"
TOPIC, OWN_TOPIC, GROUP = "orders", "mallorys", "mallorys-group"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_USERS = (ADMIN, ALICE, BOB, MALLORY)


class Scene(NamedTuple):
    """The facts that an attacker needs about a running stage: ports by listener, ids of topics."""

    ports: dict[str, int]
    topic_id: bytes
    own_topic_id: bytes


def password(user: str) -> str:
    return f"{user}-secret"


def logged_in(port: int, user: str) -> RawClient:
    client = RawClient(port, client_id="siege", timeout_s=60)
    client.log_in(user, password(user))
    return client


@contextmanager
def running_stage(folder: Path, kind: str) -> Iterator[tuple[SecureNode, Scene]]:
    start = running_secure_barnabas if kind == "ours" else running_secure_kafka
    with start(folder, settings=_settings(kind)) as node:
        ports = {**node.ports, CONTROLLER: node.process.controller_port}
        with_rights = _prepare(ports["SASL_PLAINTEXT"])
        yield node, Scene(ports, *with_rights)
        if kind == "kafka":
            node.process.kill()  # It may still process the attack, and nothing is measured any longer.


@contextmanager
def running_worker(folder: Path, kind: str, scene: Scene) -> Iterator[NodeProcess]:
    """A Connect worker, ours or Kafka's, beside a running node of the same kind."""
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{_PLAIN} required username="{ADMIN}" password="{password(ADMIN)}";',
    }
    settings = {**worker_settings(f"127.0.0.1:{scene.ports['SASL_PLAINTEXT']}", WORKER_GROUP), **login}
    worker = BarnabasWorker(folder, settings) if kind == "ours" else ConnectWorker(folder, settings)
    worker.start(timeout_s=180)
    try:
        yield worker
    finally:
        worker.stop()


def _settings(kind: str) -> dict[str, str]:
    users = " ".join(f'user_{user}="{password(user)}"' for user in _USERS)
    jaas = f'{_PLAIN} required username="{ADMIN}" password="{password(ADMIN)}" {users};'
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{ADMIN}",
        "listener.security.protocol.map": ",".join(
            ("CONTROLLER:SASL_PLAINTEXT", *(f"{p}:{p}" for p in ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL")))
        ),
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "delegation.token.secret.key": "the key of all tokens",
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "4",
        **{
            f"listener.name.{listener}.plain.sasl.jaas.config": jaas
            for listener in ("controller", "sasl_plaintext", "sasl_ssl")
        },
        **{
            f"listener.name.controller.{mechanism}.sasl.jaas.config": f"{_SCRAM} required;"
            for mechanism in ("scram-sha-256", "scram-sha-512")
        },
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    }
    if kind == "ours":
        settings["barnabas.metrics.listener"] = ""
    return settings


def _prepare(port: int) -> tuple[bytes, bytes]:
    admin = logged_in(port, ADMIN)
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in (TOPIC, OWN_TOPIC)]
    answer = admin.call(CreateTopicsRequest(topics=topics, timeout_ms=20_000))
    assert not any(topic.error_code for topic in answer.topics), answer
    rules = [
        *(
            _allowed(ALICE, ResourceType.TOPIC, TOPIC, operation)
            for operation in (AclOperation.READ, AclOperation.WRITE)
        ),
        *(
            _allowed(MALLORY, ResourceType.TOPIC, OWN_TOPIC, operation)
            for operation in (AclOperation.READ, AclOperation.WRITE)
        ),
        _allowed(MALLORY, ResourceType.GROUP, GROUP, AclOperation.READ),
    ]
    created = admin.call(CreateAclsRequest(creations=rules))
    assert not any(result.error_code for result in created.results), created
    names = [MetadataRequestTopic(name=name) for name in (TOPIC, OWN_TOPIC)]
    found = {topic.name: topic.topic_id for topic in admin.call(MetadataRequest(topics=names), 12).topics}
    admin.close()
    _wait_for_rights(port)
    return bytes(found[TOPIC]), bytes(found[OWN_TOPIC])


def _wait_for_rights(port: int) -> None:
    """Kafka's broker applies ACLs some time after the controller has answered."""
    alice, deadline = logged_in(port, ALICE), time.monotonic() + 20
    while True:
        batch = build_batch([Record(0, int(time.time() * 1000), None, b"first", ())])
        data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=batch)])
        answer = alice.call(ProduceRequest(acks=1, timeout_ms=5000, topic_data=[data]), 12)
        if not answer.responses[0].partition_responses[0].error_code:
            break
        assert time.monotonic() < deadline, answer
        time.sleep(0.1)
    alice.close()


def _allowed(user: str, kind: ResourceType, name: str, operation: AclOperation) -> AclCreation:
    return AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=PatternType.LITERAL,
        principal=f"User:{user}",
        host="*",
        operation=operation,
        permission_type=AclPermissionType.ALLOW,
    )
