"""``barnabas node``: its arguments, and its messages when it can't start."""

import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.cli import node
from barnabas.cli.arguments.properties_arguments import UsageError, parse_arguments
from barnabas.cli.arguments.readiness_options import ReadinessOptions, parse_readiness
from barnabas.server.settings.node_config import NodeConfig


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[NodeConfig]:
    """The configs with which nodes would have been started; no node is started."""
    configs: list[NodeConfig] = []

    def run(config: NodeConfig, readiness: ReadinessOptions) -> int:
        configs.append(config)
        return 0

    monkeypatch.setattr(node, "_run", run)
    return configs


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], (None, [])),
        (["server.properties"], ("server.properties", [])),
        (["a", "--override", "b=c", "--override=d=e=f"], ("a", ["b=c", "d=e=f"])),
        (["--override", "b=c", "a"], ("a", ["b=c"])),
    ],
)
def test_the_arguments_are_those_of_kafka(arguments: list[str], expected: tuple[str | None, list[str]]) -> None:
    assert parse_arguments(arguments) == expected


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--override"], "--override needs a key=value argument"),
        (["--overide", "a=b"], "--overide is not an option"),
        (["a", "b"], "b: only one file is allowed"),
    ],
)
def test_a_wrong_argument_is_named(
    arguments: list[str], complaint: str, started: list[NodeConfig], capsys: pytest.CaptureFixture[str]
) -> None:
    assert node.main(arguments) == 2
    assert complaint in capsys.readouterr().err
    assert started == []


@pytest.mark.parametrize(
    ("arguments", "expected", "others"),
    [
        ([], (None, None), []),
        (["a", "--ready-file", "f", "--override", "b=c"], ("f", None), ["a", "--override", "b=c"]),
        (["--ready-file=f", "--ready-fd=3", "a"], ("f", 3), ["a"]),
        (["--override", "--ready-fd", "--override"], (None, None), ["--override", "--ready-fd", "--override"]),
    ],
)
def test_readiness_options_may_be_anywhere(
    arguments: list[str], expected: tuple[str | None, int | None], others: list[str]
) -> None:
    assert parse_readiness(arguments) == (expected, others)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--ready-file"], "--ready-file needs a path"),
        (["--ready-fd="], "--ready-fd needs a number"),
        (["--ready-fd", "-1"], "--ready-fd -1: write the number of a descriptor"),
        (["--ready-fd", "1", "--ready-fd=2"], "--ready-fd is given twice"),
    ],
)
def test_a_wrong_readiness_option_is_named(arguments: list[str], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        parse_readiness(arguments)


def test_an_unusable_ready_file_is_named_before_the_start(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert node.main(["--ready-file", str(tmp_path / "no" / "ready"), "--override", f"log.dirs={tmp_path}/data"]) == 2
    assert "is not a folder that can be written" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_node_is_started_with_its_config(started: list[NodeConfig]) -> None:
    assert node.main(["--override", "num.partitions=5"]) == 0
    assert [config.num_partitions for config in started] == [5]


def test_an_invalid_setting_starts_nothing_and_writes_nothing(
    started: list[NodeConfig],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert node.main(["--override", "num.partitons=5"]) == 1
    assert "did you mean num.partitions?" in capsys.readouterr().err
    assert (started, list(tmp_path.iterdir())) == ([], [])


def test_a_missing_file_is_named(started: list[NodeConfig], capsys: pytest.CaptureFixture[str]) -> None:
    assert node.main(["no/such.properties"]) == 2
    assert "can't read no/such.properties: No such file" in capsys.readouterr().err


def test_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert node.main(["--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: barnabas node")


def test_reading_a_configuration_loads_only_modules_that_a_start_needs() -> None:
    code = (
        "import sys; from barnabas.cli.node import load_node_config; load_node_config(None);"
        "heavy = {'argparse', 'asyncio', 'cyclopts', 'dataclasses', 'difflib', 'inspect', 'rich', 'typing_extensions'};"
        "docs = {m for m in sys.modules if m.endswith('config_docs')};"
        "print(sorted(heavy & set(sys.modules) | docs))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
