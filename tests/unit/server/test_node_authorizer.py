"""A node's authorizer: loaded first, ready when the log was read, called with the principal of the node's broker."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.common.acl import AclBinding, AclOperation
from barnabas.common.resource import ResourceType
from barnabas.common.uuid import Uuid
from barnabas.metadata.image.acls import acl_record
from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage
from barnabas.metadata.loader import CommittedBatch, MetadataLoader
from barnabas.metadata.publisher import LoaderManifest
from barnabas.network.readiness_gate import ReadinessGate
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.records.no_op_record import NoOpRecord
from barnabas.protocol.records.topic_record import TopicRecord
from barnabas.security.authorizer.authorizer import Authorizer, AuthorizerNotReady
from barnabas.security.principal import ANONYMOUS, Principal
from barnabas.security.request_context import RequestContext
from barnabas.server.controller_channel.broker_principal import own_context
from barnabas.server.node_authorizer import NodeAuthorizer
from barnabas.server.settings.node_config import NodeConfig, node_config_of
from barnabas.server.settings.problem import Given
from barnabas.server.start_errors import NodeStartError

KAFKAS = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ADMIN, ALICE = Principal("User", "admin"), Principal("User", "alice")
ALICE_READS_ORDERS = AclBinding(2, "orders", 3, "User:alice", "*", 3, 3)


def config(**settings: str) -> NodeConfig:
    texts = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": "data",
        "authorizer.class.name": KAFKAS,
        **{name.replace("_", "."): text for name, text in settings.items()},
    }
    return node_config_of({name: Given(text, "a file") for name, text in texts.items()}, source="a file")


def context(principal: Principal = ALICE) -> RequestContext:
    return RequestContext(api_key=ApiKey.FETCH, api_version=13, principal=principal)


def batch(base_offset: int, *records: Any) -> CommittedBatch:
    return CommittedBatch(
        base_offset=base_offset,
        last_offset=base_offset + len(records) - 1,
        epoch=1,
        append_time_ms=0,
        records=records,
    )


def reads_orders(authorizer: Authorizer, principal: Principal = ALICE) -> bool:
    return authorizer.authorize(context(principal), AclOperation.READ, ResourceType.TOPIC, "orders")


def listener(name: str) -> Any:
    return SimpleNamespace(name=name, processor=None)


class Watcher:
    """A publisher that was installed later; it records the authorizer's decision at each publication."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self.seen: list[tuple[int, bool]] = []

    def publish(self, delta: MetadataDelta, new_image: MetadataImage, manifest: LoaderManifest) -> None:
        self.seen.append((len(new_image.topics), reads_orders(self._authorizer)))


def fed(authorization: NodeAuthorizer, batches: Sequence[CommittedBatch]) -> MetadataLoader:
    loader = MetadataLoader()
    authorization.install(loader)
    for committed in batches:
        loader.handle_commit([committed])
    return loader


def test_without_an_authorizer_every_client_is_answered_immediately() -> None:
    authorization = NodeAuthorizer(config(authorizer_class_name=""), high_watermark=lambda: None)
    assert authorization.is_absent
    assert authorization.ready.is_set()
    assert not authorization.opens_early("CONTROLLER")
    assert reads_orders(authorization.authorizer)


def test_without_an_authorizer_a_controller_has_a_gate_until_its_log_is_read() -> None:
    authorization = NodeAuthorizer(config(authorizer_class_name=""), high_watermark=lambda: 1)
    early: Any = listener("CONTROLLER")
    dispatcher: Any = object()
    authorization.guard(early, dispatcher)
    assert isinstance(early.processor, ReadinessGate)
    fed(authorization, [batch(0, NoOpRecord())])
    assert early.processor is dispatcher


def test_the_acls_are_complete_when_the_log_was_read_to_its_end_at_the_start() -> None:
    high_watermark = [4]
    authorization = NodeAuthorizer(config(super_users="User:admin"), high_watermark=lambda: high_watermark[0])
    loader = fed(authorization, [batch(0, NoOpRecord(), acl_record(Uuid.from_int(100), ALICE_READS_ORDERS))])
    high_watermark[0] = 1000  # Records written while the node starts do not move the target offset.
    assert not authorization.ready.is_set()
    assert reads_orders(authorization.authorizer, ADMIN)
    with pytest.raises(AuthorizerNotReady):
        reads_orders(authorization.authorizer)
    loader.handle_commit([batch(2, NoOpRecord())])
    assert not authorization.ready.is_set()
    loader.handle_commit([batch(3, NoOpRecord())])
    assert authorization.ready.is_set()
    assert reads_orders(authorization.authorizer)


def test_no_publisher_receives_a_topic_before_its_acls_are_in_force() -> None:
    authorization = NodeAuthorizer(config(), high_watermark=lambda: 0)
    loader = MetadataLoader()
    authorization.install(loader)
    watcher = Watcher(authorization.authorizer)
    loader.install(watcher)
    rule = acl_record(Uuid.from_int(100), ALICE_READS_ORDERS)
    loader.handle_commit([batch(0, TopicRecord(name="orders", topic_id=Uuid.from_int(200)), rule)])
    assert watcher.seen == [(1, True)]


def test_early_listeners_have_a_gate_until_the_acls_are_complete() -> None:
    authorization = NodeAuthorizer(config(), high_watermark=lambda: 1)
    early: Any = listener("CONTROLLER")
    other: Any = listener("PLAINTEXT")
    dispatcher: Any = object()
    authorization.guard(early, dispatcher)
    authorization.guard(other, dispatcher)
    assert isinstance(early.processor, ReadinessGate)
    assert other.processor is None
    assert (authorization.opens_early("CONTROLLER"), authorization.opens_early("PLAINTEXT")) == (True, False)
    fed(authorization, [batch(0, NoOpRecord())])
    assert early.processor == dispatcher
    late: Any = listener("CONTROLLER")
    authorization.guard(late, dispatcher)
    assert late.processor is None


class OfficeHours(Authorizer):
    """A user's own authorizer, as ``module:Class``."""

    def __init__(self) -> None:
        self.configs: dict[str, str] = {}
        self.is_closed = False

    def configure(self, configs: Any) -> None:
        self.configs = dict(configs)

    def authorize(self, context: Any, operation: Any, *_: Any, **__: Any) -> bool:
        return operation is not AclOperation.CLUSTER_ACTION

    def close(self) -> None:
        self.is_closed = True


def test_a_custom_authorizer_receives_the_nodes_settings_and_needs_no_acls() -> None:
    settings = config(authorizer_class_name=f"{__name__}:OfficeHours", super_users="User:a", log_retention_ms="7")
    authorization = NodeAuthorizer(settings, high_watermark=lambda: None)
    authorizer: Any = authorization.authorizer.guarded  # type: ignore[attr-defined]
    assert type(authorizer).__name__ == "OfficeHours"
    assert authorizer.configs["super.users"] == "User:a"
    assert authorizer.configs["allow.everyone.if.no.acl.found"] == "false"
    assert authorizer.configs["log.retention.ms"] == "7"
    assert authorization.ready.is_set()
    assert authorizer.acl_authorizer is None
    authorization.close()
    assert authorizer.is_closed


class Broken(OfficeHours):
    def configure(self, configs: Any) -> None:
        raise KeyError("office.hours")


def test_an_authorizer_that_refuses_its_settings_stops_the_start() -> None:
    with pytest.raises(NodeStartError, match=r"Broken can't be created from its settings: KeyError: 'office.hours'"):
        NodeAuthorizer(config(authorizer_class_name=f"{__name__}:Broken"), high_watermark=lambda: None)


class Asleep(OfficeHours):
    def is_ready_for(self, principal: Principal) -> bool:
        return False

    def authorize(self, *_: Any, **__: Any) -> bool:
        raise AuthorizerNotReady


def test_an_unready_custom_authorizer_does_not_prevent_a_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = config(authorizer_class_name=f"{__name__}:Asleep")
    authorization = NodeAuthorizer(settings, high_watermark=lambda: None)
    authorization.warn_about_own_broker(ALICE)
    assert authorization.ready.is_set()
    assert not caplog.records


@pytest.mark.parametrize(
    ("principal", "advice"),
    [(ALICE, "add User:alice to super.users"), (ANONYMOUS, "would allow every client that does not log in")],
)
def test_a_broker_authorized_only_by_its_process_causes_a_warning(
    principal: Principal, advice: str, caplog: pytest.LogCaptureFixture
) -> None:
    authorization = NodeAuthorizer(config(super_users="User:admin"), high_watermark=lambda: 1)
    fed(authorization, [batch(0, NoOpRecord())])
    authorization.warn_about_own_broker(ADMIN)
    assert not caplog.records
    authorization.warn_about_own_broker(principal)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert str(principal) in record.getMessage()
    assert advice in record.getMessage()


def test_the_own_brokers_calls_have_the_context_of_the_controller_listener() -> None:
    own = own_context(config(), ALICE, ApiKey.BROKER_HEARTBEAT, 1)
    assert (own.principal, own.client_host, own.listener_name) == (ALICE, "127.0.0.1", "CONTROLLER")
    assert (own.security_protocol, own.from_privileged_listener) == ("PLAINTEXT", True)
