"""``barnabas topics elect-leaders|delete-records``: the requests to the cluster, and the output of dry runs."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.cli.topics.command import main
from barnabas.clients.admin import (
    Config,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ElectionType,
    ListedOffset,
    Results,
    TopicDescription,
    TopicPartitionInfo,
    Uuid,
)
from barnabas.clients.admin.errors import admin_error
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_partition import TopicPartition
from tests.unit.cli.conftest import FakeAdmin

LED, ELSEWHERE, LATE, DOWN = (TopicPartition("orders", index) for index in range(4))


@pytest.fixture
def orders(admin: FakeAdmin) -> FakeAdmin:
    """Led by the preferred leader, by another, by another while the preferred one lags, and without a leader."""
    partitions = (
        TopicPartitionInfo(0, 1, (1, 2), (1, 2)),
        TopicPartitionInfo(1, 2, (1, 2), (1, 2)),
        TopicPartitionInfo(2, 2, (1, 2), (2,)),
        TopicPartitionInfo(3, None, (1, 2), ()),
    )
    topic = TopicDescription("orders", Uuid.from_int(1 << 90), False, partitions)
    admin.describe_topics.return_value = Results({"orders": topic}, {})

    async def list_offsets(wanted: dict[TopicPartition, Any]) -> Results[TopicPartition, ListedOffset]:
        known = {-2: 10, -1: 100}
        return Results({tp: ListedOffset(known[spec.timestamp], 0, None) for tp, spec in wanted.items()}, {})

    admin.mock.list_offsets = list_offsets
    entry = ConfigEntry("cleanup.policy", "delete", ConfigSource.DEFAULT_CONFIG, False, False)
    resource = ConfigResource.topic("orders")
    admin.describe_configs.return_value = Results({resource: Config(resource, {entry.name: entry})}, {})
    return admin


def test_a_dry_run_of_an_election_shows_the_new_leaders(orders: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["elect-leaders", "orders", "--dry-run"]) == 1
    captured = capsys.readouterr()
    assert captured.out == "leader of orders-1  would be elected (1 instead of 2)\n"
    assert "1 partitions need no election" in captured.err
    assert captured.err.count("PREFERRED_LEADER_NOT_AVAILABLE") == 2
    assert main(["elect-leaders", "--all-topic-partitions", "--dry-run"]) == 0
    assert main(["elect-leaders", "orders", "--election-type", "unclean", "--dry-run"]) == 0
    assert "leader of orders-3  would be elected (unclean)\n" in capsys.readouterr().out
    orders.elect_leaders.assert_not_called()


def test_leaders_are_elected(orders: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    late = admin_error(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, None, LATE)
    orders.elect_leaders.return_value = Results({LED: False, ELSEWHERE: True}, {LATE: late})
    assert main(["elect-leaders", "--topic", "orders", "--partition", "0", "--partition", "1", "--wait"]) == 1
    captured = capsys.readouterr()
    assert captured.out == "leader of orders-1  elected (preferred)\n"
    assert "its broker must be alive and in sync" in captured.err
    assert orders.elect_leaders.call_args.args == (ElectionType.PREFERRED, [LED, ELSEWHERE])
    assert orders.elect_leaders.call_args.kwargs == {"wait": True}
    assert main(["elect-leaders", "--all-topic-partitions", "--election-type", "UNCLEAN"]) == 1
    assert orders.elect_leaders.call_args.args == (ElectionType.UNCLEAN, None)


def test_a_dry_run_of_a_deletion_shows_the_affected_records(
    orders: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["delete-records", "orders:0", "--before-offset", "40", "--dry-run"]) == 0
    assert capsys.readouterr().out == "records of orders-0  would be deleted (before 40, 30 offsets)\n"
    assert main(["delete-records", "orders:0", "--before-offset", "-1", "--dry-run"]) == 0
    assert capsys.readouterr().out == "records of orders-0  would be deleted (before 100, 90 offsets)\n"
    assert main(["delete-records", "orders:0", "--before-offset", "101", "--dry-run"]) == 1
    assert "it ends at 100, before 101 (OFFSET_OUT_OF_RANGE)" in capsys.readouterr().err
    orders.delete_records.assert_not_called()


def test_offsets_of_all_partitions_are_shown(orders: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["offsets", "orders", "--time", "earliest", "--partitions", "0,2"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["orders", "0", "10"], ["orders", "2", "10"],
    ]  # fmt: skip
    assert main(["offsets", "orders", "--time", "-1", "-o", "json"]) == 0
    assert '"offset": 100' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["elect-leaders"], "no partitions given"),
        (["elect-leaders", "a", "--all-topic-partitions"], "no partitions given"),
        (["elect-leaders", "a", "b", "--partition", "1"], "--partition needs a single topic"),
        (["elect-leaders", "a", "--election-type", "best"], "preferred"),
        (["elect-leaders", "a b"], "contains one or more characters"),
        (["offsets", "--time", "soon"], "use latest, earliest, max-timestamp"),
        (["offsets", "--time", "2026-13-01"], "--time 2026-13-01: write it as in"),
        (["offsets", "--time", "-7"], "milliseconds since 1970"),
        (["offsets", "--partitions", "x"], "for example 0,2"),
        (["delete-records"], "no records given"),
        (["delete-records", "a"], "--before-offset needs topics"),
        (["delete-records", "a", "--before-offset", "-2"], "or -1 for all records"),
        (["delete-records", "a", "--offset-json-file", "x"], "no records given"),
        (["delete-records", "--offset-json-file", "/none"], "can't read /none"),
    ],
)
def test_invalid_arguments_are_refused(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    assert main(arguments) == 2
    assert expected in capsys.readouterr().err
