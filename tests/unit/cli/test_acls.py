"""``barnabas acls``: the rules and filters that the options of Kafka's tool produce."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from barnabas.cli.acls.command import main
from barnabas.clients.admin import AclBinding, AclBindingFilter, Results
from barnabas.clients.admin.errors import admin_error
from barnabas.common.error_code import ErrorCode
from tests.unit.cli.conftest import FakeAdmin

READ = AclBinding(2, "orders", 3, "User:alice", "*", 3, 3)
DENIED = AclBinding(2, "*", 3, "User:bob", "10.0.0.13", 2, 2)


def holds(admin: FakeAdmin, *rules: AclBinding) -> list[AclBindingFilter]:
    """Answer with the bindings, and return the list of requested filters."""
    filters: list[AclBindingFilter] = []

    async def describe_acls(acl_filter: AclBindingFilter) -> AsyncIterator[AclBinding]:
        filters.append(acl_filter)
        for rule in rules:
            if acl_filter.matches(rule):
                yield rule

    admin.mock.describe_acls = describe_acls
    return filters


def added(admin: FakeAdmin, *arguments: str) -> list[str]:
    admin.create_acls.return_value = Results({}, {})
    assert main(["add", *arguments]) == 0
    return [str(rule) for rule in admin.create_acls.call_args.args[0]]


def removed(admin: FakeAdmin, *arguments: str) -> list[AclBindingFilter]:
    admin.delete_acls.return_value = Results({}, {})
    assert main(["remove", *arguments]) == 0
    return list(admin.delete_acls.call_args.args[0])


def test_rules_are_listed(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    filters = holds(admin, READ, DENIED)
    assert main(["list"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "Topic:* (all)  User:bob    DENY        All        10.0.0.13",
        "Topic:orders   User:alice  ALLOW       Read       *",
    ]
    assert filters == [AclBindingFilter()]
    assert main(["list", "--topic", "orders", "--principal", "User:alice", "--output", "json"]) == 0
    (rule,) = json.loads(capsys.readouterr().out)["acls"]
    assert rule == {
        "permission": "ALLOW", "principal": "User:alice", "host": "*", "operation": "READ",
        "resource_type": "TOPIC", "name": "orders", "pattern_type": "LITERAL",
    }  # fmt: skip


def test_every_combination_of_options_is_a_rule(admin: FakeAdmin) -> None:
    arguments = ["--allow-principal", "User:a", "--allow-principal", "User:b", "--operation", "describe-configs"]
    assert added(admin, *arguments, "--topic", "t", "--cluster", "--allow-host", "10.0.0.1") == [
        "ALLOW User:a from 10.0.0.1 to DESCRIBE_CONFIGS on TOPIC:LITERAL:t",
        "ALLOW User:b from 10.0.0.1 to DESCRIBE_CONFIGS on TOPIC:LITERAL:t",
        "ALLOW User:a from 10.0.0.1 to DESCRIBE_CONFIGS on CLUSTER:LITERAL:kafka-cluster",
        "ALLOW User:b from 10.0.0.1 to DESCRIBE_CONFIGS on CLUSTER:LITERAL:kafka-cluster",
    ]
    assert added(admin, "--deny-principal", "User:*", "--group", "g", "--resource-pattern-type", "prefixed") == [
        "DENY User:* from * to ALL on GROUP:PREFIXED:g"
    ]


def test_the_producer_and_consumer_options_grant_the_operations_they_need(admin: FakeAdmin) -> None:
    principal = ["--allow-principal", "User:a"]
    assert added(admin, *principal, "--producer", "--idempotent", "--topic", "t", "--transactional-id", "x") == [
        "ALLOW User:a from * to WRITE on TOPIC:LITERAL:t",
        "ALLOW User:a from * to DESCRIBE on TOPIC:LITERAL:t",
        "ALLOW User:a from * to CREATE on TOPIC:LITERAL:t",
        "ALLOW User:a from * to WRITE on TRANSACTIONAL_ID:LITERAL:x",
        "ALLOW User:a from * to DESCRIBE on TRANSACTIONAL_ID:LITERAL:x",
        "ALLOW User:a from * to IDEMPOTENT_WRITE on CLUSTER:LITERAL:kafka-cluster",
    ]
    assert added(admin, *principal, "--consumer", "--topic", "t", "--group", "g") == [
        "ALLOW User:a from * to READ on TOPIC:LITERAL:t",
        "ALLOW User:a from * to DESCRIBE on TOPIC:LITERAL:t",
        "ALLOW User:a from * to READ on GROUP:LITERAL:g",
    ]


def test_a_dry_run_of_add_reports_rules_that_exist(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    holds(admin, READ)
    arguments = ["--allow-principal", "User:alice", "--topic", "orders", "--operation", "Read", "--operation", "Write"]
    assert main(["add", *arguments, "--dry-run"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "rule ALLOW User:alice Write on Topic:orders  would be added\n"
    assert "ACL ALLOW User:alice Read on Topic:orders exists already" in captured.err
    admin.create_acls.assert_not_called()


def test_remove_deletes_exactly_the_rules_that_add_creates(admin: FakeAdmin) -> None:
    assert removed(admin, "--allow-principal", "User:alice", "--topic", "orders") == [
        AclBindingFilter(2, "orders", 3, "User:alice", "*", 2, 3)
    ]
    assert removed(admin, "--principal", "User:alice", "--topic", "o", "--resource-pattern-type", "match") == [
        AclBindingFilter(2, "o", 2, "User:alice")
    ]
    assert removed(admin, "--topic", "orders") == [AclBindingFilter(2, "orders", 3)]


def test_removed_rules_are_listed(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    admin.delete_acls.return_value = Results({AclBindingFilter(): (READ, DENIED)}, {})
    assert main(["remove", "--principal", "User:alice"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "rule ALLOW User:alice Read on Topic:orders              removed",
        "rule DENY User:bob All on Topic:* (all) from 10.0.0.13  removed",
    ]


def test_without_an_authorizer_the_error_names_the_setting(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    admin.create_acls.side_effect = admin_error(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    assert main(["add", "--allow-principal", "User:a", "--topic", "t"]) == 1
    assert "next: set authorizer.class.name" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["add", "--topic", "t"], "no principal given"),
        (["add", "--allow-principal", "User:a"], "no resource given"),
        (["add", "--allow-principal", "a", "--topic", "t"], "User:alice"),
        (["add", "--allow-principal", "User:a", "--topic", "t", "--operation", "reed"], "did you mean read"),
        (["add", "--allow-principal", "User:a", "--topic", "t", "--operation", "any"], "valid are All"),
        (["add", "--allow-principal", "User:a", "--topic", "t", "--allow-host", "x"], "IP address"),
        (["add", "--allow-principal", "User:a", "--topic", "t", "--deny-host", "10.0.0.1"], "needs"),
        (
            ["add", "--allow-principal", "User:a", "--topic", "t", "--resource-pattern-type", "any"],
            "literal or prefixed",
        ),
        (["add", "--allow-principal", "User:a", "--topic", "t", "--idempotent"], "--producer"),
        (["add", "--allow-principal", "User:a", "--topic", "t", "--consumer"], "needs --group"),
        (
            ["add", "--allow-principal", "User:a", "--topic", "t", "--producer", "--operation", "All"],
            "omit --operation",
        ),
        (["add", "--allow-principal", "User:a", "--topic", "t", "--producer", "--group", "g"], "--group"),
        (["add", "--allow-principal", "User:a", "--group", "g", "--consumer"], "need --topic"),
        (["remove"], "no ACLs selected"),
        (["remove", "--topic", "t", "--producer"], "no principal given"),
        (["remove", "--topic", "t", "--principal", "User:a", "--allow-principal", "User:a"], "omit"),
    ],
)
def test_invalid_arguments_are_refused(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    assert main(arguments) == 2
    assert expected in capsys.readouterr().err
