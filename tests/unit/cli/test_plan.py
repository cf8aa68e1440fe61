"""``barnabas plan``, ``apply`` and ``export``: exit statuses and output, without a cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from barnabas.access.cluster_state import Credential
from barnabas.access.desired_state_notation import Secret
from barnabas.access.plan import Step, StepKind, UserChange
from barnabas.cli.desired_state import apply, export, plan
from barnabas.cli.desired_state.passwords import resolve_passwords
from barnabas.common.acl import AclBinding
from barnabas.common.scram_mechanism import ScramMechanism
from barnabas.common.uuid import Uuid
from barnabas.metadata.image.acls import acl_record
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.protocol.records.config_record import ConfigRecord
from barnabas.protocol.records.feature_level_record import FeatureLevelRecord
from barnabas.server.metadata_log.record_serde import MetadataRecordSerde
from barnabas.storage.bootstrap_file import write_bootstrap_file

SCRAM = ScramMechanism.SCRAM_SHA_256
SCOPE = "version: 1\nscope: {configs: [broker-defaults], acls: [{resource: 'Topic:*'}]}\n"
SAME = SCOPE + (
    "configs: {broker-defaults: {log.retention.ms: 5}}\n"
    "acls: [{principal: 'User:[bold]alice', operations: Read, resources: Topic:orders}]\n"
)
MORE = SAME.replace("operations: Read", "operations: [Read, Write]")
LESS = SCOPE


@pytest.fixture
def snapshot(tmp_path: Path) -> str:
    messages = [
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value="5"),
        ConfigRecord(resource_type=4, resource_name="1", name="ssl.key.password", value="hunter2"),
        acl_record(Uuid.from_int(1 << 100), AclBinding(2, "orders", 3, "User:[bold]alice", "*", 3, 3)),
    ]
    records = [ApiMessageAndVersion(message, 0) for message in messages]
    write_bootstrap_file(str(tmp_path), records, serde=MetadataRecordSerde(), now_ms=1)
    return str(tmp_path / "bootstrap.checkpoint")


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "state.yaml"
    path.write_text(text)
    return str(path)


def planned(tmp_path: Path, snapshot: str, text: str, *more: str) -> int:
    return plan.main([written(tmp_path, text), "--snapshot", snapshot, "--super-users", "User:admin", *more])


def test_the_exit_status_reports_whether_changes_are_needed(
    tmp_path: Path, snapshot: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert planned(tmp_path, snapshot, SAME) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "note: no changes: everything in the file's scope matches the file\n"
    assert planned(tmp_path, snapshot, MORE) == 3
    out = capsys.readouterr().out
    assert "+  acl   ALLOW User:[bold]alice Write on Topic:orders from any host" in out
    assert "Access that opens" in out
    assert planned(tmp_path, snapshot, LESS) == 0
    assert "Kept, although the file lacks it" in capsys.readouterr().out
    assert planned(tmp_path, snapshot, LESS, "--allow-delete") == 3
    assert "Access that closes" in capsys.readouterr().out


def test_new_access_can_be_refused_by_an_option(
    tmp_path: Path, snapshot: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert planned(tmp_path, snapshot, MORE, "--forbid-new-access") == 3
    assert "--forbid-new-access forbids access that the change opens" in capsys.readouterr().err
    assert planned(tmp_path, snapshot, LESS, "--forbid-new-access", "--allow-delete") == 0
    assert planned(tmp_path, snapshot, SAME, "--forbid-new-access") == 0
    file = written(tmp_path, MORE)
    assert plan.main([file, "--snapshot", snapshot, "--super-users", "User:[bold]alice", "--forbid-new-access"]) == 0


def test_access_is_grouped_by_its_cause(tmp_path: Path, snapshot: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = SCOPE + (
        "acls:\n"
        "  - {principal: 'User:[bold]alice', operations: Read, resources: Topic:orders}\n"
        "  - {principal: 'User:*', operations: Read, resources: 'Topic:ship-*'}\n"
        "  - {principal: [User:bob, User:carol], operations: [Read, Write], resources: 'Topic:ship-*'}\n"
        "configs: {broker-defaults: {log.retention.ms: 5}}\n"
    )
    assert planned(tmp_path, snapshot, text) == 3
    out = capsys.readouterr().out
    assert "because of new: ALLOW User:bob Read, Write on Topic:ship-* (prefix) from any host" in out
    assert "Topic:ship-* means the names with this prefix that no narrower ACL covers" in out
    shared = next(line for line in out.splitlines() if "User:bob, User:carol" in line)
    assert shared.split() == [
        "+",
        "User:bob,",
        "User:carol",
        "*",
        "Write",
        "some",
        "Topic",
        "(an",
        "idempotent",
        "producer)",
    ]


def test_hidden_names_say_how_to_see_them(tmp_path: Path, snapshot: str, capsys: pytest.CaptureFixture[str]) -> None:
    topics = [f"Topic:t{number}" for number in range(6)]
    text = SAME + f"  # more\n- {{principal: User:bob, operations: Read, resources: {topics}}}\n".replace("'", '"')
    text = SCOPE + f"acls: [{{principal: User:bob, operations: Read, resources: {topics}}}]\n"
    assert planned(tmp_path, snapshot, text) == 3
    out = capsys.readouterr().out
    assert "Topic:t0; Topic:t1; Topic:t2 and 3 more" in out
    assert "--output json lists all names and causes" in out


def test_a_plan_can_be_a_comment_in_markdown(tmp_path: Path, snapshot: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert planned(tmp_path, snapshot, MORE, "--output", "markdown") == 3
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert "### Changes, in this order" in lines
    assert "| step |  | what | how |" in lines
    assert r"| 1 | + | acl | ALLOW User:\[bold\]alice Write on Topic:orders from any host |" in lines
    assert "| --- | --- | --- | --- |" in lines
    assert planned(tmp_path, snapshot, SAME, "-o", "markdown") == 0
    assert capsys.readouterr().out == "- no changes: everything in the file's scope matches the file\n"


def test_the_json_form_is_complete(tmp_path: Path, snapshot: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert planned(tmp_path, snapshot, MORE, "--forbid-new-access", "-o", "json") == 3
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["opens_access"], found["closes_access"]) == ("new-access", True, False)
    (step,) = found["steps"]
    rule = {
        "permission": "ALLOW", "principal": "User:[bold]alice", "host": "*", "operation": "WRITE",
        "resource_type": "TOPIC", "name": "orders", "pattern_type": "LITERAL",
    }  # fmt: skip
    assert step == {"kind": "create-acls", "changes": [rule]}
    assert found["access"]["changes"] == [
        {
            "resource_type": "TOPIC",
            "principal": "User:[bold]alice",
            "hosts": ["*"],
            "hosts_except": [],
            "before": ["READ", "DESCRIBE"],
            "after": ["READ", "WRITE", "DESCRIBE"],
            "opened": ["WRITE"],
            "closed": [],
            "names": [
                {
                    "class": "name",
                    "name": "orders",
                    "example": "orders",
                    "opened_by": [{"kind": "rule-added", "rule": rule}],
                    "closed_by": [],
                }
            ],
        }
    ]
    assert found["access"]["any_resource"][0]["operation"] == "WRITE"


def test_a_plan_never_shows_a_secret(tmp_path: Path, snapshot: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = "version: 1\nscope: {configs: ['broker:*']}\nconfigs: {'broker:2': {ssl.key.password: tell-no-one}}"
    for output in ("table", "json", "yaml"):
        assert planned(tmp_path, snapshot, text, "-o", output) == 3
        captured = capsys.readouterr()
        assert "tell-no-one" not in captured.out + captured.err
        assert "hunter2" not in captured.out + captured.err


def test_an_export_can_be_the_input_of_a_plan(
    tmp_path: Path, snapshot: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export.main(["--snapshot", snapshot]) == 0
    captured = capsys.readouterr()
    assert "hunter2" not in captured.out
    assert "1 secret settings are omitted" in captured.err
    assert yaml.safe_load(captured.out)["acls"] == [
        {"principal": "User:[bold]alice", "operations": ["Read"], "resources": ["Topic:orders"]}
    ]
    assert planned(tmp_path, snapshot, captured.out) == 0
    capsys.readouterr()
    assert export.main(["--snapshot", snapshot, "--only", "acls", "-o", "json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"version", "scope", "acls"}


@pytest.mark.parametrize(
    ("command", "text", "more", "status", "message"),
    [
        ("plan", "version: 1\nscop: {}", [], 2, "line 2: the file has no 'scop' (did you mean 'scope'?)"),
        ("plan", "a: [", [], 2, "invalid YAML"),
        ("apply", "version: 9\nscope: {}", [], 2, "line 1: version: '9'"),
        ("apply", SAME, ["--super-users", "alice"], 2, "'alice' is not a principal"),
        ("plan", SAME, ["--config", "no-such-file"], 2, "can't read no-such-file"),
        ("plan", SAME, ["--snapshot", "no-such-file"], 1, "no such file"),
        ("plan", SAME, ["--snapshot", "a", "--directory", "b"], 2, "can't be used together"),
        ("plan", SAME, ["--snapshot", "a", "--bootstrap-server", "b:1"], 2, "can't be used together"),
        ("apply", SAME, ["--bootstrap-server", "127.0.0.1:1", "--timeout", "1"], 1, "next:"),
    ],
)
def test_mistakes_set_the_exit_status_and_report_what_to_do(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    text: str,
    more: list[str],
    status: int,
    message: str,
) -> None:
    main = plan.main if command == "plan" else apply.main
    assert main([written(tmp_path, text), *more]) == status
    assert message in " ".join(capsys.readouterr().err.split())


def test_all_passwords_are_resolved_before_any_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pw").write_text("from-file\n")
    monkeypatch.setenv("FROM_ENV", "from-env")
    monkeypatch.delenv("NOT_THERE", raising=False)
    secrets = [
        Secret("env", "FROM_ENV"), Secret("file", str(tmp_path / "pw")), Secret("clear", "seen"),
        Secret("env", "NOT_THERE"), Secret("file", str(tmp_path / "no")),
    ]  # fmt: skip
    changes = tuple(
        UserChange(Credential(f"u{number}", SCRAM), None, None, secret, True) for number, secret in enumerate(secrets)
    )
    found, problems = resolve_passwords([Step(StepKind.ALTER_USERS, changes)])
    assert list(found.values()) == ["from-env", "from-file", "seen"]
    assert [problem.item for problem in problems] == [
        "user u3 (SCRAM-SHA-256): password",
        "user u4 (SCRAM-SHA-256): password",
    ]
    assert "the environment variable NOT_THERE is not set" in problems[0].text
