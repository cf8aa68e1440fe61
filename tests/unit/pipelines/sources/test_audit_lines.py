"""Lines of every audit become one schema, and a line that could mean two things becomes none."""

from __future__ import annotations

import json
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.acl import AclOperation
from barnabas.common.resource import PatternType, ResourceType
from barnabas.pipelines.sources.audit_lines import Unreadable, parse_line
from barnabas.protocol.api_keys import ApiKey
from barnabas.security.authorizer.audit import AccessEvent, AuditedRequest, DecidingRule
from barnabas.security.principal import Principal
from barnabas.server.audit.event_format import decision_fields, log_line, to_json

KAFKA_4 = (
    "[2026-01-31 12:30:00,123] DEBUG Principal = User:alice is Allowed operation = READ from host = 10.0.0.7 "
    "on resource = Topic:LITERAL:orders for request = Fetch with resourceRefCount = 3 based on rule "
    "MatchingAcl(acl=StandardAcl(resourceType=TOPIC, resourceName=ord, patternType=PREFIXED, principal=User:*, host=*, "
    "operation=READ, permissionType=ALLOW)) (kafka.authorizer.logger)"
)
KAFKA_3 = (
    "[2023-01-31 12:30:00,123] INFO Principal = User:CN=bob,O=Example Ltd is Denied Operation = DescribeConfigs "
    "from host = 10.0.0.8 on resource = Topic:LITERAL:orders for request = DescribeConfigs with resourceRefCount = 1 "
    "(kafka.authorizer.logger)"
)


def test_a_line_of_kafka_4_names_the_rule() -> None:
    row = parse_line(KAFKA_4)
    assert (row.kind, row.format, row.first_ms, row.last_ms) == ("decision", "kafka-4", 1769862600123, 1769862600123)
    assert (row.allowed, row.principal, row.host, row.operation) == (True, "User:alice", "10.0.0.7", "READ")
    assert (row.resource_type, row.pattern_type, row.resource_name) == ("TOPIC", "LITERAL", "orders")
    assert (row.api, row.references, row.decisions) == ("Fetch", 3, 1)
    assert (row.rule, row.rule_text) == ("MatchingAcl", "ALLOW User:* from * to READ on TOPIC:PREFIXED:ord")


def test_a_line_of_kafka_3_has_no_rule_and_other_words() -> None:
    row = parse_line(KAFKA_3)
    assert (row.format, row.allowed, row.principal) == ("kafka-3", False, "User:CN=bob,O=Example Ltd")
    assert (row.operation, row.api, row.rule, row.rule_text) == ("DESCRIBE_CONFIGS", "DescribeConfigs", None, None)


def test_a_decision_of_kafka_about_any_resource_has_the_form_of_ours() -> None:
    """``Authorizer.authorizeByResourceType`` decides about a made-up name, without a reference to it."""
    line = KAFKA_4.replace("LITERAL:orders", "LITERAL:hardcode")
    assert (parse_line(line).pattern_type, parse_line(line).resource_name) == ("LITERAL", "hardcode")
    row = parse_line(line.replace("resourceRefCount = 3", "resourceRefCount = 0"))
    assert (row.pattern_type, row.resource_name, row.references) == ("ANY", "*", 0)


@pytest.mark.parametrize("rule", ["DefaultDeny", "DefaultAllow", "SuperUser"])
def test_rules_without_an_acl_are_kept_by_name(rule: str) -> None:
    head = KAFKA_4.partition(" based on")[0]
    assert parse_line(f"{head} based on rule {rule}").rule == rule


def test_times_have_the_zone_of_the_option_unless_they_name_one() -> None:
    row = parse_line(KAFKA_4, ZoneInfo("Europe/Berlin"))
    assert row.last_ms == 1769862600123 - 3_600_000
    named = KAFKA_4.replace("12:30:00,123]", "12:30:00.123+02:00]")
    assert parse_line(named).last_ms == 1769862600123 - 7_200_000
    assert parse_line(KAFKA_4.partition("] ")[2]).last_ms is None


@pytest.mark.parametrize(
    "name",
    [
        "x for request = Fetch with resourceRefCount = 1",
        "x from host = 1.2.3.4",
        "x based on rule DefaultDeny",
        "x is Denied y",
    ],
)
def test_a_name_with_the_words_between_fields_is_not_guessed(name: str) -> None:
    with pytest.raises(Unreadable, match="ambiguous"):
        parse_line(KAFKA_4.replace("LITERAL:orders", f"LITERAL:{name}"))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("java.lang.IllegalStateException: no", "no principal"),
        ('{"version":1,"type":"decision"', "invalid JSON"),
        ('{"version":1,"type":"decision","last_ms":"x"}', "last_ms is 'x'"),
        ('{"version":1,"type":"decision","last_ms":1}', "has no decisions"),
        ('{"version":2,"type":"decision"}', "version 2"),
        ('{"type":"decision"}', "no version"),
        ('{"a":1}', "without the fields"),
        ("[" * 100_000, "no principal"),
        ('{"a":' * 100_000, "invalid JSON"),
        (KAFKA_4[:120], "not a whole decision"),
    ],
)  # fmt: skip
def test_other_lines_are_refused_with_the_reason(line: str, reason: str) -> None:
    with pytest.raises(Unreadable, match=reason):
        parse_line(line)


OUR_LINE = (
    'Principal = User:eve is Denied operation = READ from host = 10.0.0.8 on resource = Topic:LITERAL:"{name}" '
    "for request = Fetch with resourceRefCount = {references} based on rule DefaultDeny; listener = L, client = c, "
    "request id = L-5/1, 2 times in {duration} ms"
)
"""A client can write all of it into Kafka's log: the name of a group may have line breaks."""


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"name": r"\q"}, "escape"),
        ({"name": "\1"}, "control character"),
        ({"name": r"\ud800"}, "not valid Unicode"),
        ({"references": "9" * 30}, "does not fit 64 bits"),
        ({"references": "9" * 5000}, "does not fit 64 bits"),
        ({"duration": "9" * 5000}, "does not fit 64 bits"),
    ],
)
def test_a_forged_line_is_refused_and_does_not_end_the_read(changes: dict[str, str], reason: str) -> None:
    fields = {"name": "orders", "references": "1", "duration": "7"}
    assert parse_line(OUR_LINE.format(**fields)).resource_name == "orders"
    with pytest.raises(Unreadable, match=reason):
        parse_line(OUR_LINE.format(**{**fields, **changes}))


@pytest.mark.parametrize("references", ["9" * 30, "9" * 5000])
def test_a_number_of_kafkas_line_must_fit_its_column(references: str) -> None:
    with pytest.raises(Unreadable, match="does not fit 64 bits"):
        parse_line(KAFKA_4.replace("resourceRefCount = 3", f"resourceRefCount = {references}"))


def test_a_name_in_json_must_be_valid_unicode() -> None:
    fields = {
        "version": 1, "type": "decision", "last_ms": 1, "decisions": 1, "allowed": True, "principal": "User:a",
        "operation": "READ", "resource_type": "TOPIC", "resource_name": "\ud800",
    }  # fmt: skip
    with pytest.raises(Unreadable, match="not valid Unicode"):
        parse_line(json.dumps(fields))


def test_a_gap_in_the_audit_is_a_row_of_its_own() -> None:
    row = parse_line('{"version":1,"type":"dropped","node_id":2,"time_ms":9,"dropped":7,"dropped_total":70}')
    assert (row.kind, row.last_ms, row.node_id, row.dropped, row.decisions) == ("dropped", 9, 2, 7, 0)


def event(**changes: Any) -> AccessEvent:
    fields: dict[str, Any] = {
        "first_ms": 1_700_000_000_000, "last_ms": 1_700_000_000_250, "decisions": 3, "references": 4, "allowed": True,
        "principal": Principal("User", "alice"), "host": "10.0.0.7", "api_key": ApiKey.FETCH,
        "operation": AclOperation.READ, "resource_type": ResourceType.TOPIC, "pattern_type": PatternType.LITERAL,
        "resource_name": "orders", "forwarding_principal": None,
        "request": AuditedRequest("SASL_SSL", 12, "app", "SASL_SSL-5", 12),
        "rule": DecidingRule("MatchingAcl", "Ab3", "ALLOW User:* from * to READ on TOPIC:PREFIXED:ord"),
    }  # fmt: skip
    return AccessEvent(**{**fields, **changes})


@given(name=st.text(max_size=40), client=st.text(max_size=20), user=st.text(min_size=1, max_size=20))
def test_what_a_node_writes_is_read_back_whatever_clients_call_themselves(name: str, client: str, user: str) -> None:
    written = event(
        resource_name=name,
        principal=Principal("User", user),
        request=AuditedRequest("L", 12, client or None, "L-5", 12),
        forwarding_principal=Principal("User", user),
    )
    from_json = parse_line(to_json(decision_fields(written, 7)).decode())
    from_log = parse_line(f"2026-01-31 12:30:00,250 DEBUG {log_line(written)} (kafka.authorizer.logger)")
    nested = parse_line(json.dumps({"time": "x", "access": decision_fields(written, 7)}))
    for row in (from_json, from_log, nested):
        assert (row.principal, row.resource_name, row.client_id or "") == (f"User:{user}", name, client)
        assert (row.decisions, row.references, row.rule, row.rule_id) == (3, 4, "MatchingAcl", "Ab3")
        assert row.forwarded_by == f"User:{user}"
        assert (row.last_ms or 0) - (row.first_ms or 0) == 250
    assert (from_json.format, from_log.format) == ("barnabas-json", "barnabas-log")
