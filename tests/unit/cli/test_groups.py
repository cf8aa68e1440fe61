"""``barnabas groups``: the offsets of groups, and changes of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from barnabas.cli.arguments.time_options import parse_datetime, parse_duration
from barnabas.cli.groups.command import main
from barnabas.clients.admin import (
    GroupDescription,
    GroupListing,
    GroupListings,
    ListedOffset,
    MemberDescription,
    MemberToRemove,
    OffsetAndMetadata,
    Results,
    TopicDescription,
    TopicPartition,
    TopicPartitionInfo,
    Uuid,
)
from barnabas.clients.admin.errors import admin_error
from barnabas.common.error_code import ErrorCode
from tests.unit.cli.conftest import FakeAdmin

ORDERS = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
MEMBER = MemberDescription("m-1", None, "client", "/10.0.0.1", (ORDERS[0],))


@pytest.fixture
def billing(admin: FakeAdmin) -> FakeAdmin:
    """A group with offset 50 of 10..100 in one partition and without an offset in the other."""
    admin.list_groups.return_value = GroupListings((GroupListing("billing", "consumer", "Stable", "classic"),), {})
    has_members(admin, MEMBER)
    offsets = Results({ORDERS[0]: OffsetAndMetadata(50)}, {})
    admin.list_group_offsets.return_value = Results({"billing": offsets}, {})

    async def list_offsets(wanted: dict) -> Results:
        known = {-2: 10, -1: 100}
        return Results({tp: ListedOffset(known.get(spec.timestamp, 70), 0, None) for tp, spec in wanted.items()}, {})

    admin.mock.list_offsets = list_offsets
    partitions = tuple(TopicPartitionInfo(index, 1, (1,), (1,)) for index in (0, 1))
    admin.describe_topics.return_value = Results(
        {"orders": TopicDescription("orders", Uuid.from_int(9), False, partitions)}, {}
    )
    return admin


def has_members(admin: FakeAdmin, *members: MemberDescription) -> None:
    group = GroupDescription("billing", "classic", "consumer", "Stable", "range", members)
    admin.describe_groups.return_value = Results({"billing": group}, {})


def test_groups_are_listed(billing: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--state", "Stable,Empty"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["billing", "Stable", "classic", "consumer"]
    assert billing.list_groups.call_args.kwargs == {"states": ["Stable", "Empty"], "types": []}


def test_groups_are_listed_by_type_and_state_in_any_spelling(billing: FakeAdmin) -> None:
    assert main(["list", "--state", "notready", "--type", "Streams,share"]) == 0
    assert billing.list_groups.call_args.kwargs == {"states": ["NotReady"], "types": ["streams", "share"]}


@pytest.mark.parametrize(
    ("option", "choices"),
    [("--type", "classic, consumer, share, streams"), ("--state", "Empty, PreparingRebalance, CompletingRebalance")],
)
def test_an_unknown_type_or_state_is_refused(
    option: str, choices: str, billing: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list", option, "queue"]) == 2
    assert f"{option} queue: choose one of {choices}" in capsys.readouterr().err
    assert not billing.list_groups.called


def test_a_group_is_described_with_its_lag(billing: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", "--group", "billing"]) == 0
    line = capsys.readouterr().out.splitlines()[2]
    assert line.split() == ["orders", "0", "50", "100", "50", "m-1", "/10.0.0.1", "client"]
    assert main(["describe", "--all-groups", "--state"]) == 0
    state = capsys.readouterr().out.splitlines()[1].split()
    assert state == ["billing", "Stable", "classic", "range", "1", "-", "-", "-", "50"]
    assert main(["describe", "billing", "--members", "-o", "json"]) == 0
    (group,) = json.loads(capsys.readouterr().out)["groups"]
    assert group["members"][0]["partitions"] == [{"topic": "orders", "partition": 0}]
    assert group["offsets"][0]["lag"] == 50


def test_a_missing_group_is_answered_with_the_closest_name(
    billing: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = admin_error(ErrorCode.GROUP_ID_NOT_FOUND, None, "biling")
    billing.describe_groups.return_value = Results({}, {"biling": missing})
    assert main(["describe", "biling"]) == 1
    assert "did you mean billing?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("way", "offsets"),
    [
        (["--to-earliest"], [10, 10]),
        (["--to-latest"], [100, 100]),
        (["--to-current"], [50, 100]),
        (["--to-offset", "60"], [60, 60]),
        (["--to-offset", "5000"], [100, 100]),
        (["--shift-by", "-5"], [45, 95]),
        (["--shift-by", "-500"], [10, 10]),
        (["--to-datetime", "2026-01-31T12:30:00.000"], [70, 70]),
        (["--by-duration", "PT1H"], [70, 70]),
    ],
)
def test_offsets_are_reset(billing: FakeAdmin, way: list[str], offsets: list[int]) -> None:
    billing.alter_group_offsets.return_value = Results(dict.fromkeys(ORDERS), {})
    assert main(["reset-offsets", "billing", "--topic", "orders", *way, "--execute"]) == 0
    billing.alter_group_offsets.assert_awaited_once_with("billing", dict(zip(ORDERS, offsets, strict=True)))


def test_nothing_is_reset_without_execute(billing: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    has_members(billing)
    assert main(["reset-offsets", "billing", "--all-topics", "--to-earliest"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "group billing  would be reset (orders-0 from 50 to 10)\n"
    assert "--execute makes the changes" in captured.err
    billing.alter_group_offsets.assert_not_called()
    has_members(billing, MEMBER)
    assert main(["reset-offsets", "billing", "--topic", "orders:1", "--to-earliest"]) == 1
    assert "stop the members" in capsys.readouterr().err


def test_an_unknown_group_has_no_offsets_to_reset(billing: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    billing.list_group_offsets.return_value = Results({"biling": Results({}, {})}, {})
    billing.describe_groups.return_value = Results({}, {})
    for words in (
        ["reset-offsets", "biling", "--all-topics", "--to-latest"],
        ["delete-offsets", "biling", "--topic", "a"],
    ):
        assert main(words) == 1
        assert "did you mean billing?" in capsys.readouterr().err
    assert main(["reset-offsets", "biling", "--topic", "orders:0", "--to-latest"]) == 0
    assert "would be reset (orders-0 to 100, because it has no offset)" in capsys.readouterr().out


def test_exported_offsets_can_be_imported_from_the_file(
    billing: FakeAdmin, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    has_members(billing)
    assert main(["reset-offsets", "billing", "--topic", "orders", "--to-earliest", "--export"]) == 0
    written = capsys.readouterr().out
    assert written == "orders,0,10\norders,1,10\n"
    file = tmp_path / "offsets.csv"
    file.write_text(written.replace(",1,10", ",1,5000"))
    billing.alter_group_offsets.return_value = Results(dict.fromkeys(ORDERS), {})
    assert main(["reset-offsets", "billing", "--from-file", str(file), "--execute"]) == 0
    billing.alter_group_offsets.assert_awaited_once_with("billing", {ORDERS[0]: 10, ORDERS[1]: 100})
    assert main(["reset-offsets", "--all-groups", "--topic", "orders:0", "--to-current", "--export"]) == 0
    several = capsys.readouterr().out.splitlines()[-1]
    assert several == "billing,orders,0,50"
    file.write_text(several)
    assert main(["reset-offsets", "--all-groups", "--from-file", str(file)]) == 0
    assert "would be reset (orders-0 from 50 to 50)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "has no rows of group g"),
        ("other,orders,0,1\n", "has no rows of group g"),
        ("orders,0\n", "line 1: a row must be topic,partition,offset or"),
        ("orders,0,1\norders,x,1\n", "line 2: partition and offset must be numbers, not 'x' and '1'"),
        ("orders,0,-1\n", "must be at least 0"),
        ("orders,0,1\norders,0,2\n", "orders-0 is listed twice"),
        ("or ders,0,1\n", "contains one or more characters"),
        ('"orders,0,1\n', "invalid CSV"),
    ],
)
def test_an_invalid_file_is_reported_with_the_line(
    admin: FakeAdmin, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, expected: str
) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text(text)
    assert main(["reset-offsets", "g", "--from-file", str(file)]) == 2
    assert expected in capsys.readouterr().err


def test_groups_are_deleted_unless_it_is_a_dry_run(billing: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["delete", "billing", "--dry-run"]) == 1
    assert "the group has members" in capsys.readouterr().err
    billing.delete_groups.assert_not_called()
    billing.delete_groups.return_value = Results({"billing": None}, {})
    assert main(["delete", "billing"]) == 0
    assert capsys.readouterr().out == "group billing  deleted\n"


def test_offsets_are_deleted(billing: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    billing.delete_group_offsets.return_value = Results({ORDERS[0]: None}, {})
    assert main(["delete-offsets", "billing", "--topic", "orders", "--dry-run"]) == 0
    billing.delete_group_offsets.assert_not_called()
    assert main(["delete-offsets", "billing", "--topic", "orders"]) == 0
    billing.delete_group_offsets.assert_awaited_once_with("billing", [ORDERS[0]])
    assert capsys.readouterr().out.endswith("offset of billing in orders-0  deleted (offset 50)\n")


def test_members_are_removed(billing: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["remove-members", "billing", "--member", "m-1", "--instance", "none", "--dry-run"]) == 1
    captured = capsys.readouterr()
    assert captured.out == "member m-1 of group billing  would be removed\n"
    assert "instance none: not a member of the group" in captured.err
    billing.remove_members.return_value = Results({MemberToRemove(None, "m-1"): None}, {})
    assert main(["remove-members", "billing", "--all-members"]) == 0
    billing.remove_members.assert_awaited_once_with("billing", [MemberToRemove(None, "m-1")])


def test_times_and_durations_have_kafkas_notation() -> None:
    assert parse_datetime("1970-01-01T00:00:01.500") == 1500
    assert parse_datetime("1970-01-01T01:00:00+01:00") == 0
    assert parse_duration("P1DT2H30M0.5S").total_seconds() == 95400.5


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["describe"], "no group given"),
        (["describe", "g", "--members", "--state"], "can't be used together"),
        (["delete"], "no group given"),
        (["reset-offsets", "g", "--to-latest"], "no partitions given"),
        (["reset-offsets", "g", "--topic", "t"], "no new offset given"),
        (["reset-offsets", "g", "--topic", "t", "--to-latest", "--to-earliest"], "no new offset given"),
        (["reset-offsets", "g", "--topic", "t:x", "--to-latest"], "t:0,2"),
        (["reset-offsets", "g", "--topic", "t", "--to-datetime", "yesterday"], "2026-01-31"),
        (["reset-offsets", "g", "--topic", "t", "--by-duration", "P"], "P7D"),
        (["reset-offsets", "g", "--topic", "t", "--to-latest", "--execute", "--dry-run"], "can't be used together"),
        (["reset-offsets", "g", "--from-file", "/none"], "can't read /none"),
        (["reset-offsets", "g", "--from-file", "/none", "--topic", "t"], "omit --topic and --all-topics"),
        (["reset-offsets", "g", "--from-file", "/none", "--to-latest"], "no new offset given"),
        (["reset-offsets", "g", "--topic", "t", "--to-latest", "--export", "-o", "json"], "can't be used together"),
        (["reset-offsets", "g", "--all-groups", "--topic", "t", "--to-latest"], "omit --group"),
        (["delete-offsets", "g"], "no topic given"),
        (["remove-members", "g"], "no members given"),
    ],
)
def test_invalid_arguments_are_refused(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    assert main(arguments) == 2
    assert expected in capsys.readouterr().err
