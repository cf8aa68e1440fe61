"""A command whose libraries are not installed names the extra, instead of a traceback."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from barnabas.cli.output import missing_extra
from barnabas.cli.output.missing_extra import missing_extra as advice

ROOT = Path(__file__).resolve().parents[3]
WORKER = """\
bootstrap.servers=localhost:1
group.id=g
listeners=http://localhost:0
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
offset.storage.topic=o
config.storage.topic=c
status.storage.topic=s
"""


def run_without(modules: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command in an interpreter that lacks these modules."""
    program = (
        f"import sys, importlib.machinery as machinery\n"
        f"missing = set({modules.split()!r})\n"
        "find = machinery.PathFinder.find_spec\n"
        "machinery.PathFinder.find_spec = classmethod(\n"
        "    lambda cls, name, *more: None if name.partition('.')[0] in missing else find(name, *more))\n"
        "from barnabas.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize(
    ("modules", "arguments", "extra"),
    [
        ("httpx", ["connect", "list"], "connect"),
        ("starlette", ["worker"], "connect"),
        ("jinja2", ["worker"], "connect"),
        ("pyspark", ["worker"], "spark"),
    ],
)
def test_a_command_names_the_extra_that_it_needs(
    modules: str, arguments: list[str], extra: str, tmp_path: Path
) -> None:
    if arguments == ["worker"]:
        (tmp_path / "worker.properties").write_text(WORKER)
        arguments = ["worker", str(tmp_path / "worker.properties")]
    done = run_without(modules, *arguments)
    assert done.stderr == f"barnabas {arguments[0]}: this command needs {modules}: pip install 'barnabas[{extra}]'\n"
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("modules", "statement", "expected"),
    [
        ("pyspark", "SELECT 1", "a query needs pyspark: pip install 'barnabas[spark]'"),
        ("httpx", "SHOW PIPELINES", "pipelines need httpx: pip install 'barnabas[connect]'"),
    ],
)
def test_a_statement_names_the_extra_that_it_needs(modules: str, statement: str, expected: str) -> None:
    done = run_without(modules, "sql", "-e", statement)
    assert (done.returncode, done.stderr) == (1, f"barnabas sql: {expected}\n")


def test_help_needs_no_extra() -> None:
    done = run_without("httpx starlette uvicorn jinja2 pyspark pyarrow pandas", "connect", "list", "--help")
    assert done.returncode == 0, done.stderr


def test_the_extras_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert missing_extra._EXTRAS.keys() == project["optional-dependencies"].keys()


def test_a_module_that_is_no_extra_is_a_bug() -> None:
    assert advice(ModuleNotFoundError("no yaml", name="yaml")) == ""
    assert advice(ModuleNotFoundError("no google.rpc", name="google.rpc.status")) == (
        "this command needs google: pip install 'barnabas[spark-connect]'"
    )
