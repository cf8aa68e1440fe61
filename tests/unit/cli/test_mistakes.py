"""A mistake in a command line is named with the option, the value and what is valid, and nothing is sent."""

from __future__ import annotations

import subprocess
import sys

import pytest

from barnabas.cli.main import main
from tests.unit.cli.conftest import FakeAdmin


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("topics lst", "barnabas topics: 'lst' is not a verb: did you mean list? the verbs are list, "),
        ("topics list a b --topic c", "a b: write all values as arguments, or each with --topic, not both"),
        ("export extra", "barnabas export: extra: an unexpected argument"),
        ("topics list --topics a", "--topics is not an option of this command; did you mean --topic?"),
        ("topics create a --partitions x", "--partitions x: this is not a whole number"),
        ("topics create a --partitions=1.5", "--partitions 1.5: this is not a whole number"),
        ("cluster drain --broker-id 1.5", "--broker-id 1.5: this is not a whole number"),
        ("groups list --timeout x", "--timeout x: this is not a number"),
        ("topics create a --partitions 0", "--partitions 0: the number must be >= 1"),
        ("topics create a --partitions", "--partitions needs a value"),
        ("topics create a --partitions 1 --partitions 2", "--partitions is given twice; omit one of the two"),
        ("topics list -o jsn", "--output jsn: choose one of table, json, yaml; did you mean json?"),
        ("topics elect-leaders a --election-type x", "--election-type x: choose one of preferred, unclean"),
        ("plan", "barnabas plan: FILE is missing"),
        ("users set-password", "barnabas users set-password: USER is missing"),
        ("completion tcsh", "barnabas completion: SHELL tcsh: choose one of bash, zsh, fish"),
        ("topics list --bootstrap-server localhost:99999", "'localhost:99999': the port must be between 1 and 65535"),
        ("topics list --bootstrap-server localhost", "'localhost' is not host:port; write it as localhost:9092"),
        ("configs check no/such/file", "barnabas configs check: can't read no/such/file: No such file"),
        ("plan no/such/file", "barnabas plan: can't read no/such/file: No such file"),
        ("node no/such/file", "barnabas node: can't read no/such/file: No such file"),
        ("worker no/such/file", "barnabas worker: can't read no/such/file: No such file"),
    ],
)
def test_a_mistake_is_named_and_ends_with_status_2(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""
    assert "Traceback" not in captured.err


def test_a_denied_user_is_not_sent_to_a_command_that_denies_it(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    from barnabas.clients.admin.errors import admin_error
    from barnabas.common.error_code import ErrorCode

    admin.describe_cluster.side_effect = admin_error(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert main(["cluster", "describe"]) == 1
    assert "a user with ALTER on Cluster can grant it" in capsys.readouterr().err


@pytest.mark.parametrize("line", ["--help", "topics --help", "topics create --help", "configs show num.partitions"])
def test_a_reader_that_stops_early_ends_the_command_quietly(line: str) -> None:
    program = "import sys; from barnabas.cli.main import main; sys.exit(main(sys.argv[1:]))"
    with subprocess.Popen(
        [sys.executable, "-c", program, *line.split()], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141
