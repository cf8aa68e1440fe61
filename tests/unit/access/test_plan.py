"""A plan lists exactly the differences inside the scope, in a safe order; after its last step none remains."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.access.cluster_state import BROKER, ClusterState, ConfigTarget, Credential, TopicState
from barnabas.access.desired_state import DesiredState, read_desired_state
from barnabas.access.document_tree import ListNode, MapNode, Node, ScalarNode
from barnabas.access.export import export_cluster
from barnabas.access.plan import Deletion, Plan, StepKind, make_plan
from barnabas.cli.desired_state.yaml_file import parse_document
from barnabas.common.acl import AclBinding, AclOperation, AclPermissionType
from barnabas.common.resource import PatternType, ResourceType
from barnabas.common.scram_mechanism import ScramMechanism
from tests.unit.access.apply_change import apply_change

HEAD = """version: 1
scope:
  topics: ["app-*"]
  configs: [broker-defaults]
  acls: [{resource: "Topic:app-*"}, {resource: "Group:app-*"}]
  users: ["app-*"]
  quotas: [{user: "app-*"}]
"""
SCRAM = ScramMechanism.SCRAM_SHA_256


def desired(text: str) -> DesiredState:
    return read_desired_state(parse_document(HEAD + text, "state.yaml"))


def binding(principal: str, name: str, operation: int = AclOperation.READ, **more: Any) -> AclBinding:
    return AclBinding(
        int(more.get("type", ResourceType.TOPIC)), name, int(more.get("pattern", PatternType.LITERAL)),
        f"User:{principal}", "*", int(operation), int(more.get("permission", AclPermissionType.ALLOW)),
    )  # fmt: skip


def run(current: ClusterState, plan: Plan) -> ClusterState:
    for step in plan.steps:
        for change in step.changes:
            current = apply_change(current, step.kind, change)
    return current


CURRENT = ClusterState(
    topics={
        "app-old": TopicState(1, 1, {}),
        "app-a": TopicState(3, 1, {"retention.ms": "1000", "flush.ms": "5"}),
        "other": TopicState(1, 1, {"retention.ms": "7"}),
    },
    configs={
        ConfigTarget(BROKER, ""): {"log.retention.ms": "5", "log.flush.interval.ms": "9"},
        ConfigTarget(BROKER, "1"): {"background.threads": "3"},
    },
    acls=frozenset(
        [binding("old", "app-a"), binding("any", "other"), binding("x", "app", pattern=PatternType.PREFIXED)]
    ),
    users={Credential("app-gone", SCRAM): 4096, Credential("admin", SCRAM): 4096},
    quotas={(("user", "app-gone"),): {"consumer_byte_rate": 1.0}, (("user", "x"),): {"consumer_byte_rate": 1.0}},
)
WANTED = """
topics:
  app-a: {partitions: 6, configs: {retention.ms: 2000}}
  app-new: {partitions: 2}
configs:
  broker-defaults: {log.retention.ms: "6"}
acls:
  - {principal: User:new, operations: Read, resources: ["Topic:app-a", "Topic:app-new"]}
users:
  app-new: {SCRAM-SHA-256: {password: "${env:X}"}}
quotas:
  - {entity: {user: app-new}, limits: {consumer_byte_rate: 5}}
"""


def test_without_allow_delete_nothing_is_deleted() -> None:
    plan = make_plan(CURRENT, desired(WANTED))
    assert [step.kind for step in plan.steps] == [
        StepKind.CREATE_ACLS,
        StepKind.ALTER_CONFIGS,
        StepKind.ALTER_QUOTAS,
        StepKind.CREATE_PARTITIONS,
        StepKind.CREATE_TOPICS,
        StepKind.ALTER_USERS,
    ]
    after = run(CURRENT, plan)
    assert after.acls > CURRENT.acls
    assert set(after.topics) == {"app-old", "app-a", "app-new", "other"}
    assert after.topics["app-a"] == (6, 1, {"retention.ms": "2000", "flush.ms": "5"})
    assert {step.kind for step in plan.withheld} == {
        StepKind.DELETE_USERS, StepKind.DELETE_TOPICS, StepKind.DELETE_ACLS, StepKind.ALTER_CONFIGS,
        StepKind.ALTER_QUOTAS,
    }  # fmt: skip
    assert make_plan(after, desired(WANTED)).is_empty


def test_with_allow_delete_the_scope_matches_the_file() -> None:
    plan = make_plan(CURRENT, desired(WANTED), allow_delete=True)
    kinds = [step.kind for step in plan.steps]
    assert kinds[:4] == [StepKind.DELETE_USERS, StepKind.DELETE_TOPICS, StepKind.CREATE_ACLS, StepKind.DELETE_ACLS]
    after = run(CURRENT, plan)
    assert not plan.withheld
    assert set(after.topics) == {"app-a", "app-new", "other"}
    assert after.topics["app-a"] == (6, 1, {"retention.ms": "2000"})
    assert after.configs[ConfigTarget(BROKER, "")] == {"log.retention.ms": "6"}
    again = make_plan(after, desired(WANTED), allow_delete=True)
    assert again.is_empty
    assert not again.proof.changes


def test_items_outside_the_scope_are_unchanged() -> None:
    after = run(CURRENT, make_plan(CURRENT, desired(""), allow_delete=True))
    assert set(after.topics) == {"other"}
    # A rule on a prefix shorter than that of the scope also covers other names.
    assert after.acls == {binding("any", "other"), binding("x", "app", pattern=PatternType.PREFIXED)}
    assert after.configs[ConfigTarget(BROKER, "1")] == {"background.threads": "3"}
    assert set(after.users) == {Credential("admin", SCRAM)}
    assert set(after.quotas) == {(("user", "x"),)}


def test_a_plan_interrupted_at_any_change_is_completed_by_the_next_plan() -> None:
    complete = run(CURRENT, make_plan(CURRENT, desired(WANTED), allow_delete=True))
    steps = make_plan(CURRENT, desired(WANTED), allow_delete=True).steps
    changes = [(step.kind, change) for step in steps for change in step.changes]
    current = CURRENT
    for kind, change in changes:
        current = apply_change(current, kind, change)
        rest = make_plan(current, desired(WANTED), allow_delete=True)
        assert run(current, rest) == complete
        assert apply_change(current, kind, change) == current
    assert current == complete


def test_an_asterisk_does_not_match_kafkas_internal_topics() -> None:
    everything = read_desired_state(parse_document('version: 1\nscope: {topics: ["*"]}', ""))
    current = ClusterState(topics={"__consumer_offsets": TopicState(50, 1, {}), "a": TopicState(1, 1, {})})
    (step,) = make_plan(current, everything, allow_delete=True).steps
    assert [change.name for change in step.changes if isinstance(change, Deletion)] == ["a"]


def test_changes_that_are_impossible_are_reported() -> None:
    text = "topics: {app-a: {partitions: 1, replication-factor: 3}}\nusers: {app-x: {SCRAM-SHA-256: }}"
    found = make_plan(CURRENT, desired(text)).impossible
    assert [change.what for change in found] == [
        "topic app-a: partitions: 1",
        "topic app-a: replication-factor: 3",
        "user app-x (SCRAM-SHA-256): a new credential",
    ]


def test_an_existing_secret_is_not_compared() -> None:
    current = ClusterState(configs={ConfigTarget(BROKER, ""): {"ssl.key.password": None}})
    plan = make_plan(current, desired("configs: {broker-defaults: {ssl.key.password: x}}"))
    assert plan.is_empty
    assert "ssl.key.password is secret" in plan.notes[0]


def test_equal_values_in_another_notation_are_not_a_difference() -> None:
    current = ClusterState(
        topics={"app-a": TopicState(1, 1, {"retention.ms": "100", "cleanup.policy": "compact,delete"})}
    )
    text = 'topics: {app-a: {configs: {retention.ms: 0100, cleanup.policy: "compact, delete"}}}'
    assert make_plan(current, desired(text)).is_empty


@pytest.mark.parametrize(
    ("reported", "given"),
    [("9223372036854775807", "9223372036854775806"), ("Rule", "rule"), ("true", "1"), ("a,b", "b,a"), ("", "0")],
)
def test_values_that_only_look_equal_are_a_difference(reported: str, given: str) -> None:
    current = ClusterState(configs={ConfigTarget(BROKER, ""): {"some.setting": reported}})
    plan = make_plan(current, desired(f"configs: {{broker-defaults: {{some.setting: '{given}'}}}}"))
    assert plan.change_count == 1


def test_large_steps_are_split_into_batches() -> None:
    names = ", ".join(f'"Topic:app-{number}"' for number in range(4500))
    plan = make_plan(ClusterState(), desired(f"acls: [{{principal: User:a, operations: Read, resources: [{names}]}}]"))
    assert [len(step.changes) for step in plan.steps] == [2000, 2000, 500]
    assert len(plan.proof.changes) == 1


def test_the_proof_covers_the_planned_steps_and_not_the_withheld_ones() -> None:
    plan = make_plan(CURRENT, desired(WANTED))
    assert plan.proof.opens
    assert not plan.proof.closes
    assert make_plan(CURRENT, desired(WANTED), allow_delete=True).proof.closes


def tree(value: Any) -> Node:
    """Return the document in the form in which a person would write it."""
    if isinstance(value, dict):
        return MapNode(1, tuple((ScalarNode(1, str(key)), tree(item)) for key, item in value.items()))
    if isinstance(value, list):
        return ListNode(1, tuple(map(tree, value)))
    return ScalarNode(1, "" if value is None else str(value), value is None)


bindings = st.builds(
    AclBinding,
    st.sampled_from([2, 3, 5, 7]),
    st.sampled_from(["a", "a*", "*", "b:c", "**"]),
    st.sampled_from([3, 4]),
    st.sampled_from(["User:alice", "User:*", "Group:*", "User:CN=a,O=b:c"]),
    st.sampled_from(["*", "10.0.0.1", "::1", "odd host"]),
    st.sampled_from([2, 3, 4, 8, 12]),
    st.sampled_from([2, 3]),
)


@settings(max_examples=200, deadline=None)
@given(
    st.frozensets(bindings, max_size=12),
    st.dictionaries(
        st.sampled_from(["a", "b.c", "d-1", "1"]),
        st.builds(TopicState, st.integers(1, 9), st.integers(1, 3), st.just({"retention.ms": "5"})),
    ),
)
def test_planning_an_export_finds_no_changes(acls: frozenset[AclBinding], topics: dict[str, TopicState]) -> None:
    current = ClusterState(
        topics, {ConfigTarget(BROKER, "2"): {"background.threads": "3"}}, acls, CURRENT.users, CURRENT.quotas
    )
    document, notes = export_cluster(current)
    again = read_desired_state(tree(document))
    plan = make_plan(current, again, allow_delete=True)
    assert plan.is_empty, (plan.steps, document)
    assert not plan.impossible
    assert not notes


def test_an_export_reports_what_it_omits() -> None:
    odd = AclBinding(99, "x", 3, "User:a", "*", 3, 3)
    document, notes = export_cluster(ClusterState(acls=frozenset([odd])))
    assert "acls" not in document
    assert len(notes) == 1
