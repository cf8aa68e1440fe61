"""`barnabas storage` prints what Kafka's own storage tool prints, and each reads directories that the other
formatted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from barnabas.cli.storage.command import main
from tests.peers import run_class

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

CLUSTER_ID = "aFcNCoQfQj6f9Ag7j0prxw"
DYNAMIC = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:9093
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
controller.listener.names=CONTROLLER
"""
STATIC = DYNAMIC.replace("controller.quorum.bootstrap.servers=", "controller.quorum.voters=1@")
FORMAT = ("format", "-t", CLUSTER_ID)
VOTER = "1@127.0.0.1:9093:JEXY6aqzQY-32P5TStzaFg"

# (settings, arguments of each call in turn); the same calls are made with both tools, each on directories of its own.
CASES = {
    "dynamic": (DYNAMIC, (("info",), (*FORMAT, "-s"), (*FORMAT, "-s"), (*FORMAT, "-s", "-g"), ("info",))),
    "initial controllers": (DYNAMIC, ((*FORMAT, "-I", VOTER), ("info",))),
    "no initial controllers": (DYNAMIC, ((*FORMAT, "-N", "-r", "3.9"), ("info",))),
    "static": (STATIC, ((*FORMAT, "-s"), (*FORMAT, "-r", "3.7"), ("info",))),
    "features": (
        DYNAMIC,
        (
            (*FORMAT, "-s", "-r", "9.9"),
            (*FORMAT, "-s", "-r", "3.9-IV0", "-f", "metadata.version=21"),
            (*FORMAT, "-s", "-f", "kraft.version=0"),
            (*FORMAT, "-s", "-f", "transaction.version=1", "-f", "group.version=0"),
        ),
    ),
    "credentials": (
        DYNAMIC,
        (
            (*FORMAT, "-s", "-S", "SCRAM-SHA-256=[name=a]"),
            (*FORMAT, "-s", "-S", "SCRAM-SHA-256=[name=a,password=b,iterations=7]"),
            (*FORMAT, "-s", "-S", "SCRAM-SHA-1=[name=a,password=b]"),
        ),
    ),
}


class Tool:
    """One of the two tools with its own directories."""

    def __init__(self, home: Path, settings: str) -> None:
        home.mkdir()
        self.home = home
        self.config = home / "server.properties"
        self.config.write_text(f"{settings}log.dirs={home}/a,{home}/b\n")

    def normalized(self, status: int, out: str, err: str) -> tuple[int, list[str], list[str]]:
        """Return the exit status and the lines; folders and random ids have placeholders, and directories any order."""
        lines = out.replace(str(self.home), "HOME").replace(CLUSTER_ID, "CLUSTER").splitlines()
        masked = [re.sub(r"directory\.id=[\w-]{22}", "directory.id=ID", line) for line in lines]
        errors = [re.sub(r"HOME/[ab]", "HOME/x", line) for line in err.replace(str(self.home), "HOME").splitlines()]
        return status, sorted(masked), errors


IN_EVERY_RUN = ("dynamic", "static")


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=() if case in IN_EVERY_RUN else pytest.mark.long) for case in CASES]
)
def test_both_tools_print_the_same(
    case: str, kafka_peer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings, calls = CASES[case]
    ours, theirs = Tool(tmp_path / "ours", settings), Tool(tmp_path / "theirs", settings)
    for arguments in calls:
        status = main([*arguments, "-c", str(ours.config)])
        captured = capsys.readouterr()
        done = run_class("storage", *arguments, "-c", str(theirs.config), check=False)
        expected = theirs.normalized(done.returncode, done.stdout, done.stderr)
        assert (arguments, ours.normalized(status, captured.out, captured.err)) == (arguments, expected)


def test_each_tool_knows_what_the_other_formatted(
    kafka_peer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, theirs = Tool(tmp_path / "ours", DYNAMIC), Tool(tmp_path / "theirs", DYNAMIC)
    assert main([*FORMAT, "-s", "-c", str(ours.config)]) == 0
    run_class("storage", *FORMAT, "-s", "-c", str(theirs.config))
    assert {path.name for path in (ours.home / "a").rglob("*")} == {
        path.name for path in (theirs.home / "a").rglob("*")
    }
    capsys.readouterr()
    for tool in (ours, theirs):
        assert main(["info", "-c", str(tool.config)]) == 0
        by_us = tool.normalized(0, capsys.readouterr().out, "")
        by_kafka = run_class("storage", "info", "-c", str(tool.config))
        assert by_us == tool.normalized(by_kafka.returncode, by_kafka.stdout, by_kafka.stderr)
