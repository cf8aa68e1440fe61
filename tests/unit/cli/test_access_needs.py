"""``barnabas access needs``: the least rights of a transactional producer."""

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
