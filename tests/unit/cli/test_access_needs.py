"""``barnabas access needs``: the least rights of clients."""

from __future__ import annotations

import json

import pytest

from barnabas.cli.access.command import main

NEEDS = ["needs", "--transactional-producer", "billing", "--topics", "invoices,receipts"]


def test_a_producer_needs_its_id_and_its_topics(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(NEEDS) == 0
    printed = capsys.readouterr().out
    assert "TransactionalId:billing" in printed
    assert "Topic:invoices" in printed
    assert "Topic:receipts" in printed
    assert "Group:" not in printed


def test_an_application_that_reads_and_writes_needs_its_group_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*NEEDS, "--group", "readers", "--read-topics", "orders", "--output", "json"]) == 0
    needs = json.loads(capsys.readouterr().out)["needs"]
    assert [(need["resource_type"], need["resource_name"], need["operation"]) for need in needs] == [
        ("TRANSACTIONAL_ID", "billing", "WRITE"),
        ("TOPIC", "invoices", "WRITE"),
        ("TOPIC", "receipts", "WRITE"),
        ("GROUP", "readers", "READ"),
        ("TOPIC", "orders", "READ"),
    ]


def test_the_commands_that_add_the_rights_are_printed_for_a_principal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*NEEDS[:3], "--topics", "my topic", "--principal", "User:ann o'neil"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == [
        "barnabas acls add --transactional-id billing --operation Write --allow-principal 'User:ann o'\"'\"'neil'",
        "barnabas acls add --topic 'my topic' --operation Write --allow-principal 'User:ann o'\"'\"'neil'",
    ]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--read-topics", "orders"], "--read-topics needs --group"),
        (["--topics", "a,,b"], "has an empty name"),
        (["--principal", "ann"], "ann"),
    ],
)
def test_a_mistake_is_named(arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = NEEDS[:3] if "--topics" in arguments else NEEDS
    assert main([*given, *arguments]) == 2
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["--consumer", "g", "--topics", "a", "--topic-prefixes", "b-"],
            [("GROUP", "g", "LITERAL", "READ"), ("TOPIC", "a", "LITERAL", "READ"), ("TOPIC", "b-", "PREFIXED", "READ")],
        ),
        (
            ["--share-consumer", "g", "--topics", "a,b"],
            [("GROUP", "g", "LITERAL", "READ"), ("TOPIC", "a", "LITERAL", "READ"), ("TOPIC", "b", "LITERAL", "READ")],
        ),
        (
            ["--streams", "s", "--read-topics", "a", "--topics", "b", "--exactly-once"],
            [
                ("GROUP", "s", "LITERAL", "READ"),
                ("TOPIC", "a", "LITERAL", "READ"),
                ("TOPIC", "b", "LITERAL", "WRITE"),
                ("TOPIC", "s-", "PREFIXED", "CREATE"),
                ("TOPIC", "s-", "PREFIXED", "READ"),
                ("TOPIC", "s-", "PREFIXED", "WRITE"),
                ("TOPIC", "s-", "PREFIXED", "DELETE"),
                ("TRANSACTIONAL_ID", "s-", "PREFIXED", "WRITE"),
            ],
        ),
    ],
)
def test_members_of_groups_need_their_group_and_topics(
    arguments: list[str], expected: list[tuple[str, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["needs", *arguments, "--output", "json"]) == 0
    fields = ("resource_type", "resource_name", "pattern_type", "operation")
    assert [tuple(need[field] for field in fields) for need in json.loads(capsys.readouterr().out)["needs"]] == expected


def test_a_right_on_all_names_that_begin_alike_is_added_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["needs", "--consumer", "g", "--topic-prefixes", "b-", "--principal", "User:ann"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "Topic:b-*" in lines[3]
    assert lines[-1] == (
        "barnabas acls add --topic b- --resource-pattern-type prefixed --operation Read --allow-principal User:ann"
    )


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "no client given"),
        (["--topics", "a"], "--topics needs a client"),
        (["--consumer", "g", "--share-consumer", "g"], "choose one client"),
        (["--consumer", "g"], "no topics given: use --topics or --topic-prefixes"),
        (["--consumer", "g", "--topics", "a", "--exactly-once"], "--exactly-once can't be used with --consumer"),
        (["--share-consumer", "g"], "no topics given: use --topics"),
        (["--share-consumer", "g", "--topic-prefixes", "a"], "--topic-prefixes can't be used with --share-consumer"),
        (["--streams", "s"], "no topics given: use --read-topics"),
        (["--streams", "s", "--read-topics", "a", "--group", "g"], "--group can't be used with --streams"),
        (["--transactional-producer", "t"], "no topics given: use --topics"),
    ],
)
def test_a_client_that_is_not_described_is_refused(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["needs", *arguments]) == 2
    assert reason in capsys.readouterr().err
