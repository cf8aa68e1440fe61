"""``barnabas shell`` and ``barnabas access`` on directories of real nodes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from barnabas.cli.access import command as access
from barnabas.cli.shell import command as shell
from barnabas.metadata.loader import MetadataLoader
from barnabas.storage.metadata_point_in_time import Moment
from barnabas.storage.metadata_reader import read_metadata
from tests.oracles.archives import unpack
from tests.oracles.test_metadata_image import LOG, committed_batches

pytestmark = pytest.mark.oracle

DATA = Path(__file__).parent / "data" / "kraft"


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("kraft")
    for name in ("storage-a", "storage-c", "storage-d"):
        unpack(DATA / f"{name}.tar.xz", directory)
    return directory


@pytest.fixture(scope="module")
def recorded(unpacked: Path) -> dict[str, str]:
    """Return what Kafka's shell printed for each command; the commands are comments at the head of the file."""
    lines = (unpacked / "storage-a" / "metadata-shell.txt").read_text().splitlines()
    commands = [line.removeprefix("#> ") for line in lines if line.startswith("#> ")]
    outputs = "\n".join(line for line in lines if not line.startswith("#")).split("\n>> ")[1:]
    return dict(zip(commands, outputs, strict=False))


def test_the_shell_prints_what_kafkas_shell_prints(
    unpacked: Path, recorded: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    directory = str(unpacked / "storage-a" / "controller-3000")
    assert len(recorded) > 10
    for command, expected in recorded.items():
        assert shell.main(["--directory", directory, "--show-secrets", *command.split()]) == 0
        printed = capsys.readouterr().out
        if command == "tree image/clientQuotas":  # Kafka's shell has no name for a default, and shows nothing below it.
            default = "user(<default>):\n  controller_mutation_rate:\n    10.0\n"
            assert default in printed
            printed = ":\n" + printed.replace(default, "")
        assert printed == expected.rstrip("\n") + "\n", command


def test_an_acl_is_found_under_kip_801s_path_too(
    unpacked: Path, recorded: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    directory = str(unpacked / "storage-a" / "controller-3000" / "__cluster_metadata-0")
    lines = recorded["tree image/acls/byId"].splitlines()
    for acl_id, text in zip(lines[::2], lines[1::2], strict=True):
        assert shell.main([directory, "cat", f"/acl/id/{acl_id.removesuffix(':')}"]) == 0
        assert capsys.readouterr().out == text.strip() + "\n"


@pytest.mark.parametrize("path", ["storage-a/broker-1-dir0", "storage-c/controller-3002", "storage-d/controller-1"])
def test_every_directory_can_be_read_to_the_end(unpacked: Path, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert shell.main([str(unpacked / path), "tree", "/"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "metadataVersion" in captured.out


def test_every_past_state_of_a_real_log_equals_the_image_of_a_node(unpacked: Path) -> None:
    log = unpacked / "storage-a" / "controller-3000" / LOG
    loader = MetadataLoader()
    for number, batch in enumerate(committed_batches(log.read_bytes())):
        loader.handle_commit([batch])
        if number % 20 == 0:
            assert read_metadata(str(log), Moment(offset=batch.last_offset)).image == loader.image
    last = loader.image.provenance
    assert read_metadata(str(log), Moment(time_ms=last.last_contained_log_time_ms)).image == loader.image


def test_the_shell_shows_an_earlier_state(unpacked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = str(unpacked / "storage-a" / "controller-3000")

    def shown(*arguments: str) -> list[str]:
        assert shell.main([directory, *arguments]) == 0
        return capsys.readouterr().out.splitlines()

    (now,) = shown("cat", "/image/provenance")
    time, last = now.partition("time ")[2].removesuffix("[UTC]"), int(now.removeprefix("offset ").partition(",")[0])
    assert shown("--at-time", time, "tree", "/") == shown("--at-offset", str(last), "tree", "/") == shown("tree", "/")
    assert shown("--at-offset", "0", "ls", "/acl/id") == []
    assert shown("--at-offset", "700", "cat", "/image/provenance")[0].startswith("offset 700, ")
    assert shell.main([directory, "--at-offset", str(last + 1), "ls"]) == 1
    assert f"can't show offset {last + 1}: it can show offsets 0 to {last} (20" in capsys.readouterr().err


def explained(unpacked: Path, capsys: pytest.CaptureFixture[str], *question: str) -> tuple[int, dict[str, object]]:
    directory = str(unpacked / "storage-a" / "controller-3000")
    status = access.main(["explain", *question, "--directory", directory, "--output", "json"])
    return status, json.loads(capsys.readouterr().out)


def test_the_acl_of_a_real_log_is_named(unpacked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bob = ["--principal", "User:bob", "--host", "127.0.0.1", "--resource", "Topic:t-one", "--operation", "read"]
    status, answer = explained(unpacked, capsys, *bob)
    assert (status, answer["allowed"], answer["reason"]) == (3, False, "deny-rule")
    assert answer["rule"] == {
        "id": "pHz7IMOVSVa1wo37DhBnXA",
        "permission": "DENY",
        "principal": "User:bob",
        "host": "127.0.0.1",
        "operation": "READ",
        "resource_type": "TOPIC",
        "name": "t-one",
        "pattern_type": "LITERAL",
    }
    anybody = ["--principal", "User:x", "--resource", "group:any", "--operation", "DESCRIBE"]
    status, answer = explained(unpacked, capsys, *anybody)
    assert (status, answer["why"]) == (0, "ALLOW User:* Read on Group:* (all) from any host; Read implies Describe")
    assert answer["rules_for_resource"] == 1


def test_piped_tables_do_not_wrap_names(unpacked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = str(unpacked / "storage-a" / "controller-3000")
    assert access.main(["of", "User:alice", "--directory", directory, "--super-users", ""]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Access of User:alice"
    assert any(line.startswith("Topic:pay* (prefix)") and "81nmSKGVT1m299Y5Hlzhgw" in line for line in lines)
    assert all(line == line.rstrip() for line in lines)
