"""``barnabas plan --against-audit``: real requests that a plan would deny or allow."""

from __future__ import annotations

import errno
import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.desired_state import plan
from barnabas.common.acl import AclBinding
from barnabas.common.uuid import Uuid
from barnabas.metadata.image.acls import acl_record
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.protocol.records.feature_level_record import FeatureLevelRecord
from barnabas.server.metadata_log.record_serde import MetadataRecordSerde
from barnabas.storage.bootstrap_file import write_bootstrap_file

SCOPE = "version: 1\nscope: {acls: [{resource: 'Topic:*'}]}\n"
CHANGE = SCOPE + "acls: [{principal: 'User:bob', operations: Read, resources: 'Topic:ord*'}]\n"
"""Alice loses orders, bob may read it."""


def kafka_line(
    principal: str, outcome: str, *, operation: str = "READ", name: str = "orders", pattern: str = "LITERAL"
) -> str:
    return (
        f"[2026-01-31 12:30:00,000] INFO Principal = {principal} is {outcome} operation = {operation} "
        f"from host = 10.0.0.7 on resource = Topic:{pattern}:{name} for request = Fetch with resourceRefCount = 1 "
        "based on rule DefaultDeny (kafka.authorizer.logger)\n"
    )


def our_line(principal: str, *, allowed: bool, decisions: int, pattern: str = "LITERAL") -> str:
    fields = {
        "version": 1, "type": "decision", "first_ms": 1_769_862_600_000, "last_ms": 1_769_949_000_000,
        "decisions": decisions, "allowed": allowed, "principal": principal, "host": "10.0.0.7", "operation": "READ",
        "resource_type": "TOPIC", "pattern_type": pattern, "resource_name": "orders",
    }  # fmt: skip
    return json.dumps(fields) + "\n"


@pytest.fixture
def audit(tmp_path: Path) -> Path:
    folder = tmp_path / "audit"
    folder.mkdir()
    (folder / "kafka-authorizer.log").write_text(
        kafka_line("User:bob", "Denied") * 2
        + kafka_line("User:alice", "Allowed", operation="DESCRIBE")
        + kafka_line("User:carol", "Denied")
        + kafka_line("User:dave", "Allowed")
        + "a stack trace\n"
    )
    lines = our_line("User:alice", allowed=True, decisions=40) + our_line(
        "User:x", allowed=True, decisions=7, pattern="ANY"
    )
    lines += '{"version":1,"type":"dropped","node_id":1,"time_ms":1,"dropped":9,"dropped_total":9}\n'
    (folder / "events.json.gz").write_bytes(gzip.compress(lines.encode()))
    return folder


def planned(tmp_path: Path, text: str, audit: Path | str, *more: str) -> int:
    messages = [
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        acl_record(Uuid.from_int(1 << 100), AclBinding(2, "orders", 3, "User:alice", "*", 3, 3)),
    ]
    records = [ApiMessageAndVersion(message, 0) for message in messages]
    write_bootstrap_file(str(tmp_path), records, serde=MetadataRecordSerde(), now_ms=1)
    state = tmp_path / "state.yaml"
    state.write_text(text)
    snapshot = str(tmp_path / "bootstrap.checkpoint")
    options = ["--snapshot", snapshot, "--super-users", "", "--against-audit", str(audit), *more]
    return plan.main([str(state), *options])


def document(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)["against_audit"]
    return found


def test_requests_that_the_plan_decides_otherwise_are_shown(
    tmp_path: Path, audit: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert planned(tmp_path, CHANGE, audit, "--allow-delete", "--output", "json") == 3
    found = document(capsys)
    assert [(item["principal"], item["operation"], item["decisions"]) for item in found["denied"]] == [
        ("User:alice", "READ", 40),
        ("User:alice", "DESCRIBE", 1),
    ]
    assert [(item["principal"], item["resource_name"], item["decisions"]) for item in found["allowed"]] == [
        ("User:bob", "orders", 2)
    ]
    counts = {
        name: found[name] for name in ("decisions", "requests", "not_replayed", "differing", "unreadable", "dropped")
    }
    assert counts == {
        "decisions": 52, "requests": 5, "not_replayed": 7, "differing": 1, "unreadable": 1, "dropped": 9,
    }  # fmt: skip
    assert (found["first_ms"], found["last_ms"]) == (1_769_862_600_000, 1_769_949_000_000)


def test_tables_and_notes_say_what_the_audit_covers(
    tmp_path: Path, audit: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert planned(tmp_path, CHANGE, audit, "--allow-delete") == 3
    captured = capsys.readouterr()
    assert "Requests of the audit that the plan would deny" in captured.out
    assert "User:alice  10.0.0.7  Topic:orders  Read       40         2026-02-01T12:30:00.000Z" in captured.out
    assert "52 decisions about 5 distinct requests, from 2026-01-31T12:30:00.000Z to" in captured.err
    assert "the audit has 1 line that can't be read; the first because: not a line of an authorizer" in captured.err
    assert "the audit itself lacks what was dropped: 9 decisions" in captured.err
    assert "were others then: --super-users, --allow-everyone): 1 decision\n" in captured.err


def test_kafkas_decision_about_any_topic_is_counted_and_not_replayed(
    tmp_path: Path, audit: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = kafka_line("User:alice", "Allowed", name="hardcode").replace("resourceRefCount = 1", "resourceRefCount = 0")
    (audit / "any.log").write_text(line)
    assert planned(tmp_path, CHANGE, audit, "--allow-delete", "--output", "json") == 3
    found = document(capsys)
    assert (found["not_replayed"], found["differing"]) == (8, 1)


def test_deletions_that_are_withheld_deny_nothing(
    tmp_path: Path, audit: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert planned(tmp_path, CHANGE, audit, "--output", "json") == 3
    found = document(capsys)
    assert (found["denied"], len(found["allowed"])) == ([], 1)


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_part_of_the_audit_that_cannot_be_read_is_named(
    tmp_path: Path, audit: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """What an audit lacks would look like requests that no client made."""
    denied = audit / "closed"
    if kind == "folder":
        denied.mkdir()
        scan = os.scandir

        def refusing_scan(path: Any) -> Any:
            if str(path) == str(denied):
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return scan(path)

        monkeypatch.setattr(os, "scandir", refusing_scan)
    else:
        denied.symlink_to(tmp_path / "nowhere")
    assert planned(tmp_path, CHANGE, audit) == 2
    assert f"--against-audit: can't read {denied}: " in capsys.readouterr().err


def test_an_audit_that_is_missing_or_not_needed_is_named(
    tmp_path: Path, audit: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert planned(tmp_path, CHANGE, tmp_path / "none") == 2
    assert "--against-audit: can't read" in capsys.readouterr().err
    (audit / "kafka-authorizer.log").write_text("")
    (audit / "events.json.gz").unlink()
    assert planned(tmp_path, CHANGE, audit) == 3
    assert "has no decisions, so nothing was replayed" in capsys.readouterr().err
    assert planned(tmp_path, "version: 1\nscope: {topics: [x]}\n", audit) == 0
    assert "the scope of the file has no ACLs" in capsys.readouterr().err
