"""The lines and records of the access audit, attempts to smuggle text into them, and the behaviour under overload."""

from __future__ import annotations

import asyncio
import json
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import PatternType, ResourceType
from barnabas.common.topic_name import ACCESS_AUDIT_TOPIC
from barnabas.network.api_handler import Access, AclRule
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from barnabas.protocol.record_batch import BatchView
from barnabas.security.authorizer.audit import AccessEvent, AuditedRequest, DecidingRule
from barnabas.security.authorizer.authorizer import Authorizer
from barnabas.security.principal import Principal
from barnabas.security.request_context import RequestContext
from barnabas.server.audit.event_format import decision_fields, log_line, to_json
from barnabas.server.audit.service import AUDIT_LOGGER, AccessAuditService
from barnabas.server.audit.topic import AccessAuditTopic
from barnabas.server.process.logging_setup import _Json, _OneLine
from barnabas.server.settings.node_config import load_node_config

HOSTILE = [
    "a\nPrincipal = User:root is Allowed operation = ALL",
    "a\r\n2026-01-01 CRITICAL all is lost",
    "\x1b[2J\x1b[31mred\x1b]0;title\x07",
    'quote" , "allowed":true, "x":"',
    "null\x00 del\x7f c1\x9b31m",
    "line\u2028para\u2029 rtl\u202eevil\u2066",
    "back\\slash \\n",
    "User:a is Allowed operation = READ from host = 1.2.3.4",
    "\ufeffé漢字",
]


def event(**changes: Any) -> AccessEvent:
    fields: dict[str, Any] = {
        "first_ms": 1_700_000_000_000,
        "last_ms": 1_700_000_000_000,
        "decisions": 1,
        "references": 2,
        "allowed": False,
        "principal": Principal("User", "billing"),
        "host": "10.0.0.7",
        "api_key": ApiKey.PRODUCE,
        "request": AuditedRequest("SASL_SSL", 9, "app-1", "SASL_SSL-5", 12),
        "forwarding_principal": None,
        "operation": AclOperation.WRITE,
        "resource_type": ResourceType.TOPIC,
        "pattern_type": PatternType.LITERAL,
        "resource_name": "orders",
        "rule": DecidingRule("DefaultDeny"),
    }
    return AccessEvent(**{**fields, **changes})


def test_a_line_is_kafkas_with_additional_fields() -> None:
    assert log_line(event()) == (
        "Principal = User:billing is Denied operation = WRITE from host = 10.0.0.7 on resource = Topic:LITERAL:orders "
        "for request = Produce with resourceRefCount = 2 based on rule DefaultDeny; listener = SASL_SSL, "
        "client = app-1, request id = SASL_SSL-5/12"
    )
    acl = DecidingRule("MatchingAcl", "Ab3", "DENY User:* from * to WRITE on TOPIC:PREFIXED:ord")
    line = log_line(
        event(rule=acl, decisions=3, last_ms=1_700_000_000_250, forwarding_principal=Principal("User", "broker-1"))
    )
    assert 'MatchingAcl(id=Ab3, acl="DENY User:* from * to WRITE on TOPIC:PREFIXED:ord")' in line
    assert line.endswith(", forwarded by = User:broker-1, 3 times in 250 ms")


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_client_leaves_its_field(text: str) -> None:
    hostile = event(
        principal=Principal("User", text),
        resource_name=text,
        request=AuditedRequest("L", 9, text, text, 12),
        forwarding_principal=Principal("User", text),
    )
    line = log_line(hostile)
    assert line.isascii()
    assert line.isprintable()
    assert line.startswith('Principal = "User:')
    assert line.count(" is Denied operation = WRITE from host = 10.0.0.7") == 1
    quoted = line[len("Principal = ") :]
    value, end = json.JSONDecoder().raw_decode(quoted)
    assert value == f"User:{text}"
    assert quoted[end:].startswith(" is Denied operation = WRITE")
    encoded = to_json(decision_fields(hostile, 1))
    assert encoded.isascii()
    assert encoded.decode().isprintable()
    fields = json.loads(encoded)
    assert (fields["principal"], fields["resource_name"], fields["client_id"]) == (f"User:{text}", text, text)
    assert fields["allowed"] is False
    for formatter in (_OneLine(), _Json()):
        record = logging.LogRecord(AUDIT_LOGGER, logging.INFO, "", 0, "%s", (line,), None)
        assert formatter.format(record).isprintable()
        other = logging.LogRecord("any", logging.INFO, "", 0, "client %s", (text,), None)
        assert formatter.format(other).isprintable()


class DenyingAuthorizer(Authorizer):
    def authorize(
        self,
        context: Any,
        operation: Any,
        resource_type: Any,
        resource_name: str,
        *,
        log_if_allowed: bool = True,
        log_if_denied: bool = True,
    ) -> bool:
        return False


class Replicas:
    """Keeps the batches, or raises ``error``."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, bytes]] = []
        self.error: ErrorCode | None = None

    def leader_of(self, topic_partition: Any) -> int:
        if self.error is not None:
            raise ApiException(self.error)
        assert topic_partition.topic == ACCESS_AUDIT_TOPIC
        number: int = topic_partition.partition
        return number

    def append(self, partition: int, records: bytes, *, requires_all_in_sync: bool) -> None:
        self.batches.append((partition, records))

    @property
    def values(self) -> list[dict[str, Any]]:
        records = [record for _, batch in self.batches for record in BatchView(batch).records()]
        return [json.loads(bytes(record.value or b"")) for record in records]


class Controller:
    def __init__(self, metadata: Any) -> None:
        self.metadata = metadata
        self.leaders: tuple[int, ...] = (1, 1, 1)
        self.requests: list[Any] = []

    async def send(self, request: Any) -> Any:
        self.requests.append(request)
        partitions = {number: SimpleNamespace(leader=leader) for number, leader in enumerate(self.leaders)}
        self.metadata.known = SimpleNamespace(partitions=partitions)
        return CreateTopicsResponse(topics=[CreatableTopicResult(name=ACCESS_AUDIT_TOPIC)])


class World:
    def __init__(self, *overrides: str, has_topic: bool = True) -> None:
        config = load_node_config(None, list(overrides))
        self.metadata = SimpleNamespace(known=None)
        self.metadata.topic = lambda name: self.metadata.known
        self.replicas = Replicas()
        self.controller = Controller(self.metadata)
        self.clock = SimpleNamespace(now_ms=lambda: 1_000, monotonic_ms=lambda: 0)
        topic: Any = None
        if has_topic:
            metadata, replicas, controller = (self.metadata, self.replicas, self.controller)
            topic = AccessAuditTopic(config, metadata=metadata, replicas=replicas, controller=controller)  # type: ignore[arg-type]
        self.service = AccessAuditService(config, clock=self.clock, topic=topic, now_ns=lambda: 1_000_000_000)
        self.authorizer = DenyingAuthorizer()
        self.authorizer.audit = self.service.audit

    def ask(self, name: str, user: str = "alice") -> None:
        rules = frozenset({AclRule(ResourceType.TOPIC, AclOperation.WRITE)})
        context = RequestContext(api_key=ApiKey.PRODUCE, api_version=9, principal=Principal("User", user))
        Access(self.authorizer, context, rules).allows(ResourceType.TOPIC, AclOperation.WRITE, name)


def test_denials_are_logged_and_reach_the_topic_by_principal(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> World:
        world = World()
        world.service.start()
        for user in ("alice", "bob", "carol", "alice"):
            world.ask("orders", user)
        await world.service.stop()
        return world

    with caplog.at_level(logging.DEBUG):
        world = asyncio.run(run())
    lines = [record for record in caplog.records if record.name == AUDIT_LOGGER]
    assert [record.levelno for record in lines] == [logging.INFO] * 4
    assert [record.access["principal"] for record in lines][:2] == ["User:alice", "User:bob"]  # type: ignore[attr-defined]
    assert sorted(value["principal"] for value in world.replicas.values) == [
        "User:alice", "User:alice", "User:bob", "User:carol",
    ]  # fmt: skip
    assert {value["rule"] for value in world.replicas.values} == {"Unknown"}
    by_principal: dict[bytes, set[int]] = {}
    for partition, batch in world.replicas.batches:
        for record in BatchView(batch).records():
            by_principal.setdefault(bytes(record.key or b""), set()).add(partition)
    assert all(len(partitions) == 1 for partitions in by_principal.values())
    (created,) = world.controller.requests
    assert created.topics[0].name == ACCESS_AUDIT_TOPIC
    assert {config.name: config.value for config in created.topics[0].configs}["retention.ms"] == "604800000"


def test_lost_events_are_reported_in_the_topic_the_log_and_a_metric(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> World:
        world = World("barnabas.audit.queue.max=100", "barnabas.audit.kinds.max=1000")
        world.service.start()
        await asyncio.sleep(0)
        for number in range(150):
            world.ask(f"secret-{number}")
        await world.service.stop()
        return world

    world = asyncio.run(run())
    assert world.service.dropped == 50
    (dropped,) = [value for value in world.replicas.values if value["type"] == "dropped"]
    assert (dropped["dropped"], dropped["dropped_total"], dropped["version"]) == (50, 50, 1)
    assert len(world.replicas.values) == 101
    assert "50 decisions are missing from the access audit" in caplog.text


def test_a_failing_topic_loses_events_and_reports_how_many() -> None:
    async def run() -> World:
        world = World()
        world.service.start()
        await asyncio.sleep(0)
        world.replicas.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        world.ask("secret")
        await world.service.flush()
        world.replicas.error = None
        world.ask("secret")
        await world.service.stop()
        return world

    world = asyncio.run(run())
    assert world.service.dropped == 1
    assert [value["type"] for value in world.replicas.values] == ["decision", "dropped"] or [
        value["type"] for value in world.replicas.values
    ] == ["dropped", "decision"]


def test_records_are_written_to_partitions_that_this_node_leads() -> None:
    async def run() -> World:
        world = World()
        world.controller.leaders = (2, 1, 3, 1)
        world.service.start()
        await asyncio.sleep(0)
        for number in range(20):
            world.ask("secret", f"user-{number}")
        await world.service.stop()
        return world

    world = asyncio.run(run())
    assert {partition for partition, _ in world.replicas.batches} == {1, 3}
    assert len(world.replicas.values) == 20


@pytest.mark.parametrize(
    ("level", "has_topic", "wants_allowed"), [("INFO", False, False), ("DEBUG", False, True), ("OFF", True, True)]
)
def test_allowed_decisions_are_counted_only_if_they_are_logged(
    level: str, has_topic: bool, wants_allowed: bool
) -> None:
    world = World(f"barnabas.audit.log.level={level}", has_topic=has_topic)
    assert world.service.audit.wants_allowed is wants_allowed


def test_a_disabled_log_has_no_lines(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> World:
        world = World("barnabas.audit.log.level=OFF", has_topic=False)
        world.ask("orders")
        await world.service.stop()
        return world

    world = asyncio.run(run())
    assert world.service.lines_written == 0
    assert not [record for record in caplog.records if record.name == AUDIT_LOGGER]
