"""``barnabas storage``: Kafka's flags, texts and exit statuses."""

from pathlib import Path

import pytest

from barnabas.cli.storage.command import main, random_uuid
from barnabas.common.uuid import Uuid

CLUSTER_ID = "aFcNCoQfQj6f9Ag7j0prxw"
PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:9093
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
controller.listener.names=CONTROLLER
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "server.properties"
    path.write_text(f"{PROPERTIES}log.dirs={tmp_path}/a,{tmp_path}/b\n")
    return str(path)


def test_format_then_info(config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["format", "-t", CLUSTER_ID, "--standalone", "-c", config]) == 0
    out = capsys.readouterr().out
    assert "FeatureLevelRecord(name='metadata.version', featureLevel=30)" in out
    assert f"Formatting dynamic metadata voter directory {tmp_path}/a with metadata.version 4.3-IV0.\n" in out
    assert f"Formatting data directory {tmp_path}/b with metadata.version 4.3-IV0.\n" in out
    assert main(["info", "-c", config]) == 0
    assert f"Found metadata: {{cluster.id={CLUSTER_ID}, directory.id=" in capsys.readouterr().out


def test_format_warns_of_suspicious_settings(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Path(config).open("a") as file:
        file.write(
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\nsuper.users=User:a,User:b\n"
        )
    assert main(["format", "-t", CLUSTER_ID, "--standalone", "-c", config]) == 0
    captured = capsys.readouterr()
    assert "warning: super.users: 'User:a,User:b' is one user" in captured.err
    assert "warning" not in captured.out


def test_formatted_directories_are_not_changed(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["format", "-t", CLUSTER_ID, "-s", "-c", config]
    assert main(arguments) == 0
    assert main(arguments) == 1
    assert "is already formatted. Use --ignore-formatted" in capsys.readouterr().err
    assert main([*arguments, "-g"]) == 0
    assert capsys.readouterr().out == "All of the log directories are already formatted.\n"


def test_info_of_missing_directories_fails(config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "-c", config]) == 1
    text = f"Found problems:\n  {tmp_path}/a does not exist\n  {tmp_path}/b does not exist\n\n"
    assert capsys.readouterr().out == text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Because controller.quorum.voters is not set on this controller, you must specify one of"),
        (["-s", "-f", "foo=1"], "Unsupported feature: foo."),
        (["-s", "-f", "foo"], "Can't parse feature=level string foo: equals sign not found."),
        (["-s", "-f", "group.version=x"], "Can't parse feature=level string group.version=x: unable to parse x as a"),
        (["-s", "-f", "group.version=9"], "No feature:group.version with feature level 9"),
        (["-s", "-r", "9.9"], "Unknown metadata.version '9.9'."),
        (["-s", "-S", "bad"], "Failed to find equals sign in SCRAM argument 'bad'"),
        (["-I", "1@127.0.0.1:9093"], "No colon following port could be found."),
    ],
)
def test_a_format_that_is_impossible_has_kafkas_message_and_writes_nothing(
    arguments: list[str], message: str, config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["format", "-t", CLUSTER_ID, "-c", config, *arguments]) == 1
    assert capsys.readouterr().err.startswith(message)
    assert [path.name for path in tmp_path.iterdir()] == ["server.properties"]


def test_a_credential_is_written_to_the_bootstrap_records_and_not_printed(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    scram = "SCRAM-SHA-256=[name=alice,password=geheim]"
    assert main(["format", "-t", CLUSTER_ID, "-s", "-c", config, "--add-scram", scram]) == 0
    out = capsys.readouterr().out
    assert "UserScramCredentialRecord(name='alice', mechanism=1, iterations=4096)" in out
    assert "geheim" not in out


def test_an_invalid_setting_is_named(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    with open(config, "a") as file:
        file.write("num.partitons=1\n")
    assert main(["format", "-t", CLUSTER_ID, "-s", "-c", config]) == 1
    assert "did you mean num.partitions?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [[], ["bogus"], ["format"], ["info"], ["format", "-c", "x", "-t", "y", "-s", "-N"]]
)
def test_a_usage_error_has_kafkas_exit_status(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(arguments)
    assert raised.value.code == 1
    assert capsys.readouterr().err.startswith("usage: barnabas storage")


def test_a_missing_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "-c", "no/such.properties"]) == 1
    assert capsys.readouterr().err == "no/such.properties: No such file or directory\n"


def test_a_random_uuid_is_printed_and_can_be_used_in_a_shell(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["random-uuid"]) == 0
    printed = Uuid.from_string(capsys.readouterr().out.strip())
    ids = {printed, *(random_uuid() for _ in range(500))}
    assert len(ids) == 501
    assert not any(str(uuid).startswith("-") or uuid.is_reserved for uuid in ids)
