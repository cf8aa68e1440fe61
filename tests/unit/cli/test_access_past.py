"""``barnabas access at`` and ``history``: the past of a metadata log, as tables and documents, and their errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.access.command import main
from barnabas.common.uuid import Uuid
from barnabas.protocol.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.protocol.records.begin_transaction_record import BeginTransactionRecord
from barnabas.protocol.records.end_transaction_record import EndTransactionRecord
from barnabas.protocol.records.feature_level_record import FeatureLevelRecord
from barnabas.protocol.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from tests.unit.written_log import Log

START_MS = 1_769_862_600_000
"""2026-01-31T12:30:00Z"""


def acl(
    number: int, *, principal: str = "User:alice", operation: int = 3, name: str = "orders"
) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=Uuid.from_int(1000 + number), resource_type=2, resource_name=name, pattern_type=3,
        principal=principal, host="*", operation=operation, permission_type=3,
    )  # fmt: skip


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Alice may read (offset 1), bob may write in a transaction (3, in effect at 4), alice may not read (5)."""
    written = Log(tmp_path)
    written.append(FeatureLevelRecord(name="metadata.version", feature_level=30), time_ms=START_MS)
    written.append(acl(1), time_ms=START_MS + 1000)
    written.append(BeginTransactionRecord(name="t"), acl(2, principal="User:bob", operation=4), time_ms=START_MS + 2000)
    written.append(EndTransactionRecord(), time_ms=START_MS + 3000)
    written.append(RemoveAccessControlEntryRecord(id=acl(1).id), time_ms=START_MS + 4000)
    return written


def run(log: Log, *arguments: str) -> int:
    return main([*arguments, "--directory", log.log.directory, "--super-users", ""])


def document(log: Log, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(log, *arguments, "--output", "json") == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_decision_is_that_of_the_moment(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["at", "--principal", "User:alice", "--resource", "Topic:orders", "--operation", "read"]
    assert [run(log, *asked, "--offset", str(offset)) for offset in range(6)] == [3, 0, 0, 0, 0, 3]
    assert run(log, *asked, "--time", "2026-01-31T12:30:01.500") == 0
    assert run(log, *asked, "--time", str(START_MS + 999)) == 3
    assert "DENIED   Read on Topic:orders for User:alice" in capsys.readouterr().out


def test_who_and_of_are_those_of_the_moment(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    holders = document(log, capsys, "at", "--offset", "4", "--resource", "Topic:orders")
    assert [grant["principal"] for grant in holders["grants"] if grant["operations"]] == ["User:alice", "User:bob"]
    holdings = document(log, capsys, "at", "--offset", "3", "--principal", "User:bob")
    assert holdings["accesses"] == []
    assert run(log, "at", "--offset", "4", "--principal", "User:bob") == 0
    assert "Topic:orders  *     Write, Describe" in capsys.readouterr().out


def test_the_history_of_a_resource_has_each_change_with_its_record(
    log: Log, capsys: pytest.CaptureFixture[str]
) -> None:
    found = document(log, capsys, "history", "--resource", "Topic:orders")["changes"]
    assert [(step["offsets"], step["time_ms"] - START_MS) for step in found] == [([1], 1000), ([3], 3000), ([5], 4000)]
    assert [
        (change["principal"], change["opened"], change["closed"]) for step in found for change in step["access"]
    ] == [
        ("User:alice", ["READ", "DESCRIBE"], []),
        ("User:bob", ["WRITE", "DESCRIBE"], []),
        ("User:alice", [], ["READ", "DESCRIBE"]),
    ]
    assert run(log, "history", "--resource", "Topic:orders") == 0
    out = capsys.readouterr().out
    assert (
        f"2026-01-31T12:30:01.000Z, offset 1: + ALLOW User:alice Read on Topic:orders from any host ({acl(1).id})"
        in out
    )
    assert "  closes  User:alice  *     Topic:orders  Read, Describe" in out
    assert "3 changes of rules that concern Topic:orders; known since the beginning of the log" in out


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        (["--since-offset", "1"], [3, 5]),
        (["--since-offset", "3"], [3, 5]),
        (["--since-offset", "4"], [5]),
        (["--until-offset", "4"], [1, 3]),
        (["--until-offset", "3"], [1]),
        (["--since-time", str(START_MS + 1000), "--until-time", str(START_MS + 3500)], [3]),
    ],
)
def test_a_history_has_bounds(
    log: Log, capsys: pytest.CaptureFixture[str], bounds: list[str], expected: list[int]
) -> None:
    found = document(log, capsys, "history", "--resource", "Topic:orders", *bounds)["changes"]
    assert [offset for step in found for offset in step["offsets"]] == expected


def test_the_history_of_a_principal_begins_with_the_snapshot(
    log: Log, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot = log.snapshot(
        [FeatureLevelRecord(name="metadata.version", feature_level=30), acl(2, principal="User:bob")]
    )
    size = log.path.stat().st_size
    log.append(acl(3, principal="User:bob", name="other"), time_ms=START_MS + 9000)
    folder = tmp_path / "copy" / "__cluster_metadata-0"
    folder.mkdir(parents=True)
    (folder / snapshot.name).write_bytes(snapshot.read_bytes())
    (folder / f"{6:020d}.log").write_bytes(log.path.read_bytes()[size:])
    assert main(["history", "--principal", "User:bob", "--directory", str(folder.parent)]) == 0
    captured = capsys.readouterr()
    assert "1 change of rules that concern User:bob; known since the snapshot" in captured.out
    assert "opens  User:bob" in captured.out
    assert "super.users" in captured.err
    assert main(["history", "--principal", "User:bob", "--since-offset", "2", "--directory", str(folder.parent)]) == 1
    assert "can't show offset 2: it can show offsets 5 to 6" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["at", "--resource", "Topic:x"], "no moment given: use --time or --offset"),
        (["at", "--offset", "1"], "nothing to show: use --resource, --principal"),
        (["at", "--offset", "1", "--time", "2026-01-31", "--resource", "Topic:x"], "can't be used together"),
        (["at", "--offset", "-1", "--resource", "Topic:x"], "offsets are 0, 1, 2"),
        (["at", "--time", "noon", "--resource", "Topic:x"], "write a time as"),
        (["at", "--offset", "1", "--resource", "Topic:x", "--principal", "User:a"], "needs --operation"),
        (["at", "--offset", "1", "--principal", "User:a", "--operation", "read"], "need --resource"),
        (["at", "--offset", "1", "--resource", "Topic:x", "--host", "1.2.3.4"], "--host needs --principal"),
        (["history"], "nothing to show"),
    ],
)
def test_a_question_that_has_no_answer_says_what_is_missing(
    log: Log, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert run(log, *arguments) == 2
    assert message in capsys.readouterr().err


def test_a_history_with_a_beginning_names_it_and_not_the_snapshot_before_it(
    log: Log, capsys: pytest.CaptureFixture[str]
) -> None:
    log.snapshot([FeatureLevelRecord(name="metadata.version", feature_level=30)], offset=1, time_ms=START_MS)
    assert run(log, "history", "--principal", "User:bob", "--since-offset", "2") == 0
    assert "1 change of rules that concern User:bob; since offset 2\n" in capsys.readouterr().out


def test_a_snapshot_alone_has_no_history(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    snapshot = log.snapshot([FeatureLevelRecord(name="metadata.version", feature_level=30)], time_ms=START_MS)
    assert main(["history", "--resource", "Topic:x", "--snapshot", str(snapshot)]) == 1
    assert f"{snapshot} is a snapshot, which has one moment and no changes" in capsys.readouterr().err


def test_options_are_checked_before_files_are_read(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["at", "--offset", "1", "--resource", "Topic:x", "--directory", "/none"]
    for more, message in (
        (["--host", "1.2.3.4"], "--host needs --principal"),
        (["--principal", "User:a"], "needs --operation"),
        (["--principal", "User:a", "--operation", "reed"], "reed"),
    ):
        assert main([*asked, *more]) == 2
        assert message in capsys.readouterr().err


def test_the_past_needs_files(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in (["at", "--offset", "1"], ["history"]):
        assert main([*verb, "--resource", "Topic:x", "--bootstrap-server", "localhost:1"]) == 2
        assert "the past is in the files of a node: use --directory" in capsys.readouterr().err
    assert main(["history", "--resource", "Topic:x", "--directory", "/none"]) == 1
    assert "/none: no such file or directory" in capsys.readouterr().err
