"""``barnabas groups`` for groups whose coordinator assigns: consumer, share and streams groups."""

from __future__ import annotations

import json

import pytest

from barnabas.cli.groups.command import main
from barnabas.clients.admin import (
    GroupDescription,
    ListedOffset,
    MemberDescription,
    OffsetAndMetadata,
    Results,
    ShareGroupOffset,
    StreamsTasks,
    StreamsTopology,
    Subtopology,
    TaskId,
    TopicPartition,
)
from barnabas.clients.admin.errors import admin_error
from barnabas.common.error_code import ErrorCode
from tests.unit.cli.conftest import FakeAdmin

ORDERS = [TopicPartition("orders", number) for number in range(3)]


def knows(admin: FakeAdmin, group: GroupDescription) -> None:
    admin.describe_groups.return_value = Results({group.group_id: group}, {})

    async def list_offsets(wanted: dict) -> Results:
        known = {-2: 10, -1: 100}
        return Results({tp: ListedOffset(known.get(spec.timestamp, 70), 0, None) for tp, spec in wanted.items()}, {})

    admin.mock.list_offsets = list_offsets


@pytest.fixture
def consumers(admin: FakeAdmin) -> FakeAdmin:
    """One member gives up a partition for which the other one waits."""
    members = (
        MemberDescription("m-1", None, "a", "/1", tuple(ORDERS), tuple(ORDERS[:2]), 4, None, "consumer", ("orders",)),
        MemberDescription("m-2", "i", "b", "/2", (), (ORDERS[2],), 5, "r", "classic", (), "ord.*"),
    )
    knows(admin, GroupDescription("g", "consumer", "consumer", "Reconciling", "uniform", members, None, 5, 5))
    admin.list_group_offsets.return_value = Results({"g": Results({ORDERS[0]: OffsetAndMetadata(50)}, {})}, {})
    return admin


def test_a_target_that_is_being_computed_is_noted(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    members = (MemberDescription("m-1", None, "a", "/1", (), (), 4, None, "consumer", ("orders",)),)
    knows(admin, GroupDescription("g", "consumer", "consumer", "Assigning", "uniform", members, None, 5, 4))
    admin.list_group_offsets.return_value = Results({"g": Results({}, {})}, {})
    assert main(["describe", "g", "--state"]) == 0
    noted = "group g: the target assignment of epoch 5 is not complete yet; the members follow that of epoch 4"
    assert noted in capsys.readouterr().err


@pytest.fixture
def queue(admin: FakeAdmin) -> FakeAdmin:
    members = (MemberDescription("m-1", None, "a", "/1", tuple(ORDERS), None, 5, None, None, ("orders",)),)
    knows(admin, GroupDescription("g", "share", "share", "Stable", "simple", members, None, 5, 5))
    offsets = {ORDERS[0]: ShareGroupOffset(40, 0, 60), ORDERS[1]: ShareGroupOffset(None, None, None)}
    admin.list_share_group_offsets.return_value = Results({"g": Results(offsets, {})}, {})
    return admin


@pytest.fixture
def streams(admin: FakeAdmin) -> FakeAdmin:
    tasks = StreamsTasks((TaskId("0", 0), TaskId("1", 0)), (TaskId("1", 1),), ())
    target = StreamsTasks((TaskId("0", 0),), (), (TaskId("1", 1),))
    members = (
        MemberDescription(
            "m-1", None, "a", "/1", None, member_epoch=5, protocol="streams", tasks=tasks, target_tasks=target,
            topology_epoch=1, process_id="p-1",
        ),
    )  # fmt: skip
    topology = StreamsTopology(
        1,
        (
            Subtopology("0", ("orders",), (), ("counts-repartition",), ()),
            Subtopology("1", (), ("counts-repartition",), (), ("counts-changelog",)),
        ),
    )
    knows(admin, GroupDescription("g", "streams", "streams", "Stable", "", members, None, 5, 5, topology))
    admin.list_group_offsets.return_value = Results({"g": Results({ORDERS[0]: OffsetAndMetadata(50)}, {})}, {})
    return admin


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[list[str]]:
    assert main(["describe", "g", *arguments]) == 0
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    assert main(["describe", "g", *arguments, "-o", "json"]) == 0
    (group,) = json.loads(capsys.readouterr().out)["groups"]
    return dict(group)


def test_a_member_that_is_not_reconciled_shows_its_target(
    consumers: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    _, first, second = printed(capsys, "--members")
    assert first[5:8] == ["consumer", "4", "no"]
    assert first[8:] == ["orders-0,", "orders-1,", "orders-2", "orders-0,", "orders-1"]
    assert second[5:8] == ["classic", "5", "no"]
    assert printed(capsys, "--state")[1] == ["g", "Reconciling", "consumer", "uniform", "2", "2", "5", "5", "50"]
    found = document(capsys)
    assert (found["epoch"], found["target_epoch"]) == (5, 5)
    assert [member["is_reconciled"] for member in found["members"]] == [False, False]
    assert found["members"][1]["target_partitions"] == [{"topic": "orders", "partition": 2}]
    assert found["members"][1]["subscribed_pattern"] == "ord.*"


def test_who_lags_is_noted(consumers: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", "g"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("group g (Reconciling, consumer, epoch 5)\n")
    assert "group g: 2 members have not reached the target assignment yet" in captured.err


def test_a_share_group_has_start_offsets_and_no_targets(queue: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    title, _, first, second = printed(capsys)
    assert " ".join(title) == "group g (Stable, share, epoch 5)"
    assert first == ["orders", "0", "40", "60"]
    assert second == ["orders", "1", "-", "-"]
    assert printed(capsys, "--members")[1] == ["g", "m-1", "/1", "a", "5", "orders-0,", "orders-1,", "orders-2"]
    assert printed(capsys, "--state")[1][-1] == "60"
    found = document(capsys)
    assert found["offsets"][0] == {"topic": "orders", "partition": 0, "start_offset": 40, "lag": 60}
    assert "target_partitions" not in found["members"][0]


def test_a_streams_group_has_tasks_and_a_topology(streams: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys)[2][:6] == ["orders", "0", "50", "100", "50", "m-1"]  # Its task 0_0 reads the partition.
    (member,) = printed(capsys, "--members")[1:]
    assert member[5:9] == ["p-1", "streams", "5", "no"]
    assert " ".join(member[9:]) == "0_0, 1_0 1_1 active 0_0; warm-up 1_1"
    _, _, first, second = printed(capsys, "--topology")
    assert first == ["0", "orders", "-", "counts-repartition", "-"]
    assert second == ["1", "-", "counts-repartition", "-", "counts-changelog"]
    found = document(capsys)
    assert found["members"][0]["tasks"] == {"active": ["0_0", "1_0"], "standby": ["1_1"], "warmup": []}
    assert found["topology"]["subtopologies"][1]["changelog_topics"] == ["counts-changelog"]


def test_other_groups_have_no_topology(queue: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", "g", "--topology"]) == 0
    assert "only streams groups have one" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("way", "offset"), [(["--to-earliest"], 10), (["--to-latest"], 100), (["--shift-by", "-5"], 35)]
)
def test_the_start_offsets_of_a_share_group_are_reset(queue: FakeAdmin, way: list[str], offset: int) -> None:
    queue.alter_share_group_offsets.return_value = Results({ORDERS[0]: None}, {})
    assert main(["reset-offsets", "g", "--topic", "orders:0", *way, "--execute"]) == 0
    queue.alter_share_group_offsets.assert_awaited_once_with("g", {ORDERS[0]: offset})
    queue.alter_group_offsets.assert_not_called()


def test_a_share_group_with_members_is_not_reset(queue: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    refused = admin_error(ErrorCode.NON_EMPTY_GROUP, None, ORDERS[0])
    queue.alter_share_group_offsets.return_value = Results({}, {ORDERS[0]: refused})
    assert main(["reset-offsets", "g", "--topic", "orders:0", "--to-latest"]) == 1
    assert "the group has members" in capsys.readouterr().err
    assert main(["reset-offsets", "g", "--topic", "orders:0", "--to-latest", "--execute"]) == 1
    assert "stop the members of the group first" in capsys.readouterr().err


def test_a_share_group_forgets_whole_topics(queue: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["delete-offsets", "g", "--topic", "orders:0"]) == 1
    assert "a share group forgets whole topics only" in capsys.readouterr().err
    queue.delete_share_group_offsets.return_value = Results({"orders": None}, {})
    assert main(["delete-offsets", "g", "--topic", "orders"]) == 0
    queue.delete_share_group_offsets.assert_awaited_once_with("g", ["orders"])
    assert capsys.readouterr().out == "offset of g in orders-0  deleted (offset 40)\n"


@pytest.mark.parametrize("kind", ["queue", "streams"])
def test_members_of_these_groups_are_not_removed(
    kind: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    admin = request.getfixturevalue(kind)
    assert main(["remove-members", "g", "--all-members"]) == 1
    assert "groups can't be removed" in capsys.readouterr().err
    admin.remove_members.assert_not_called()
