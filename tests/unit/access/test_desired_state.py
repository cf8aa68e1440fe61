"""The file of desired state: its contents, and the reports of mistakes in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.access.cluster_state import BROKER, GROUP, ConfigTarget, Credential
from barnabas.access.desired_state import DesiredState, InvalidFile, read_desired_state
from barnabas.access.desired_state_notation import Secret
from barnabas.access.desired_state_schema import json_schema
from barnabas.access.document_tree import ListNode, MapNode, Node, ScalarNode
from barnabas.cli.desired_state.yaml_file import UnreadableFile, load_desired_state, parse_document
from barnabas.common.acl import AclBinding, AclOperation, AclPermissionType
from barnabas.common.resource import PatternType, ResourceType
from barnabas.common.scram_mechanism import ScramMechanism

SCHEMA = Path(__file__).parents[3] / "docs/reference/desired-state.schema.json"

EVERYTHING = """
version: 1
scope:
  topics: [orders, "payments-*"]
  configs: [broker-defaults, "broker:1", "group:*"]
  acls:
    - resource: Topic:payments-*
    - resource: Topic:orders
    - {resource: "Topic:*", principal: User:auditor}
    - resource: Cluster
    - {resource: "Group:*"}
  users: [app, "svc-*"]
  quotas: [{user: "*"}, {user: "*", client-id: null}, {ip: 10.0.0.9}]
topics:
  orders: {partitions: 12, replication-factor: 3, configs: {retention.ms: 86400000, cleanup.policy: [compact, delete]}}
  payments-eu:
configs:
  broker-defaults: {log.retention.ms: 1000}
  broker:1: {background.threads: 12}
  group:app: {consumer.session.timeout.ms: 50000}
acls:
  - principal: User:app
    operations: [Read, describe-configs]
    resources: [Topic:orders, "Topic:payments-*"]
  - principal: [User:auditor]
    permission: deny
    host: [10.0.0.1, "*"]
    operations: All
    resources: "Topic:*"
  - {principal: "User:*", operations: ALTER_CONFIGS, resources: Cluster}
  - principal: User:app
    operations: Read
    resources: {type: group, name: "odd*", pattern: literal}
users:
  app:
    SCRAM-SHA-256: {iterations: 8192, password: "${env:APP_PASSWORD}"}
    SCRAM-SHA-512: {password: {clear: not-so-secret}}
quotas:
  - {entity: {user: app}, limits: {producer_byte_rate: 1048576, request_percentage: 12.5}}
  - {entity: {user: app, client-id: null}, limits: {consumer_byte_rate: 1}}
  - {entity: {ip: 10.0.0.9}, limits: {connection_creation_rate: 5}}
"""


def read(text: str) -> DesiredState:
    return read_desired_state(parse_document(text, "state.yaml"))


def mistakes(text: str) -> list[str]:
    with pytest.raises(InvalidFile) as raised:
        read(text)
    return str(raised.value).splitlines()


def test_every_section_of_the_file_is_read() -> None:
    desired = read(EVERYTHING)
    state = desired.state
    assert not desired.warnings
    assert state.topics["orders"] == (12, 3, {"retention.ms": "86400000", "cleanup.policy": "compact,delete"})
    assert state.topics["payments-eu"] == (None, None, {})
    assert state.configs[ConfigTarget(BROKER, "")] == {"log.retention.ms": "1000"}
    assert state.configs[ConfigTarget(GROUP, "app")] == {"consumer.session.timeout.ms": "50000"}
    topic, allow, deny = int(ResourceType.TOPIC), int(AclPermissionType.ALLOW), int(AclPermissionType.DENY)
    literal, prefixed = int(PatternType.LITERAL), int(PatternType.PREFIXED)
    read_, every = int(AclOperation.READ), int(AclOperation.ALL)
    assert AclBinding(topic, "payments-", prefixed, "User:app", "*", read_, allow) in state.acls
    assert AclBinding(topic, "*", literal, "User:auditor", "10.0.0.1", every, deny) in state.acls
    group = int(ResourceType.GROUP)
    assert AclBinding(group, "odd*", literal, "User:app", "*", read_, allow) in state.acls
    assert len(state.acls) == 8
    assert state.users == {
        Credential("app", ScramMechanism.SCRAM_SHA_256): 8192,
        Credential("app", ScramMechanism.SCRAM_SHA_512): None,
    }
    assert desired.passwords[Credential("app", ScramMechanism.SCRAM_SHA_256)] == Secret("env", "APP_PASSWORD")
    assert state.quotas[("user", "app"),] == {"producer_byte_rate": 1048576, "request_percentage": 12.5}
    assert (("client-id", None), ("user", "app")) in state.quotas


def test_a_password_is_never_shown() -> None:
    assert "not-so-secret" not in repr(read(EVERYTHING))
    (line,) = mistakes("version: 1\nscope: {users: [a]}\nusers: {a: {SCRAM-SHA-256: {password: hunter2}}}")
    assert "hunter2" not in line
    assert "${env:NAME}" in line


def test_all_mistakes_are_reported_together_with_their_lines() -> None:
    found = mistakes(
        """version: 2
scope:
  topics: [orders]
  acls: [{}]
topics:
  orders: {partitions: many, config: {}}
  payments: {partitions: 0}
  orders: {}
  "bad name": {}
acls:
  - {principal: alice, operations: [Raed], resources: [Topik:orders]}
  - {principal: User:alice, resources: [Topic:orders]}
quotas:
  - {entity: {ip: 1.2.3.4, user: x}, limits: {producer_byte_rat: 1}}
"""
    )
    text = "\n".join(found)
    assert [int(line.split(":")[0].removeprefix("line ")) for line in found] == sorted(
        int(line.split(":")[0].removeprefix("line ")) for line in found
    )
    for part in (
        "line 1: version: '2'",
        "line 4: scope.acls[0]: has neither resource nor principal",
        "line 6: topics.orders.partitions: 'many': a number of partitions is a whole number, from 1",
        "line 6: topics.orders: a topic has no 'config' (did you mean 'configs'?); valid are partitions",
        "line 7: topics.payments.partitions: '0'",
        "line 8: topics: 'orders' is listed twice; the first time in line 6",
        "line 9: topics: Topic name is invalid",
        "line 11: acls[0].principal: 'alice' is not a principal; write Type:name",
        "line 11: acls[0].operations[0]: 'Raed' is not an operation (did you mean Read?)",
        "line 11: acls[0].resources[0]: 'Topik:orders': 'Topik' is not a resource type (did you mean Topic?)",
        "line 12: acls[1]: an entry of acls lacks 'operations'",
        "line 14: quotas[0].limits: 'producer_byte_rat' is not a limit",
    ):
        assert part in text, f"{part}\n\n{text}"


def test_an_item_outside_the_scope_is_a_mistake() -> None:
    found = mistakes(
        """version: 1
scope:
  topics: ["pay*"]
  acls: [{resource: Topic:pay}]
topics: {orders: {}}
configs: {broker:1: {a.b: 1}}
acls:
  - {principal: User:a, operations: Read, resources: [Topic:pay, "Topic:pay*"]}
users: {eve: {SCRAM-SHA-256: }}
quotas: [{entity: {user: eve}, limits: {consumer_byte_rate: 1}}]
"""
    )
    assert [line.split(": ")[1] for line in found] == ["topics.orders", "configs.broker:1", "acls[0]", "users.eve",
                                                       "quotas[0]"]  # fmt: skip
    assert "names that begin with 'pay' is outside" in found[2]


def test_values_of_settings_are_checked() -> None:
    found = mistakes(
        "version: 1\nscope: {topics: [a], configs: ['group:*']}\n"
        "topics: {a: {configs: {retention.ms: soon, cleanup.policy: shred, flush.ms: }}}\n"
        "configs: {'group:g': {consumer.session.timeout.ms: x}}"
    )
    assert len(found) == 4
    assert "omit the key to use the default" in "".join(found)


def test_a_probably_unintended_value_is_a_warning() -> None:
    desired = read(
        "version: 1\nscope: {topics: [a], acls: [{principal: 'User:*'}]}\n"
        "topics: {a: {configs: {retention.msx: 1}}}\n"
        "acls: [{principal: User:a, host: ['::1', example], operations: IdempotentWrite, resources: Topic:a}]"
    )
    text = "\n".join(map(str, desired.warnings))
    assert "did you mean retention.ms?" in text
    assert "'::1' matches no client: nodes compare addresses in the form 0:0:0:0:0:0:0:1" in text
    assert "'example' matches no client" in text
    assert "IdempotentWrite does not apply to Topic; valid are All, Read" in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "is empty"),
        ("a: [", "line [12]: invalid YAML"),
        ("{a: b}: c", "a key must be a plain string"),
        ("&a [*a]", "nested too deeply"),
        ("[" * 5000, "YAML"),
    ],
)
def test_invalid_yaml_is_reported(text: str, expected: str) -> None:
    with pytest.raises(UnreadableFile, match=expected):
        parse_document(text, "state.yaml")


def test_a_yaml_alias_bomb_is_refused() -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(UnreadableFile, match="too large"):
        parse_document("\n".join(levels), "state.yaml")


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match="can't read"):
        load_desired_state(str(tmp_path / "nothing.yaml"))


@pytest.mark.parametrize(
    "text", ["[]", "x", "version: 1", "scope: {}", "scope: 3\nversion: 1", "version: 1\nscope: []"]
)
def test_a_document_of_another_form_is_a_mistake(text: str) -> None:
    assert mistakes(text)


def test_the_published_schema_is_that_of_the_code() -> None:
    assert json.loads(SCHEMA.read_text()) == json_schema(), "run: python -m tests.docs.reference"


WORDS = [
    "version",
    "scope",
    "topics",
    "acls",
    "configs",
    "users",
    "quotas",
    "principal",
    "resource",
    "resources",
    "operations",
    "host",
    "permission",
    "entity",
    "limits",
    "user",
    "ip",
    "partitions",
    "replication-factor",
    "password",
    "clear",
    "iterations",
    "SCRAM-SHA-256",
    "SCRAM-SHA-512",
    "broker-defaults",
    "broker:1",
    "group:*",
    "a",
    "a*",
    "*",
    "User:a",
    "User:*",
    "Topic:a",
    "Topic:*",
    "Cluster",
    "Read",
    "All",
    "deny",
    "1",
    "-1",
    "4096",
    "1e999",
    "nan",
    "",
    "producer_byte_rate",
    "type",
    "name",
    "pattern",
    "prefixed",
    "topic",
    "${env:X}",
]
texts = st.sampled_from(WORDS) | st.text(max_size=5)
scalars = st.builds(ScalarNode, st.just(1), texts, st.booleans())
trees = st.recursive(
    scalars,
    lambda children: (
        st.builds(ListNode, st.just(1), st.lists(children, max_size=4).map(tuple))
        | st.builds(
            MapNode,
            st.just(1),
            st.lists(st.tuples(st.builds(ScalarNode, st.just(1), texts), children), max_size=6).map(tuple),
        )
    ),
    max_leaves=40,
)


@settings(max_examples=500, deadline=None)
@given(trees, st.sampled_from(["scope", "topics", "configs", "acls", "users", "quotas"]))
def test_any_text_is_either_read_or_reported_as_a_mistake(tree: Node, section: str) -> None:
    whole = MapNode(1, ((ScalarNode(1, "version"), ScalarNode(1, "1")), (ScalarNode(1, section), tree)))
    for node in (tree, whole):
        try:
            read_desired_state(node)
        except InvalidFile as error:
            assert error.problems
