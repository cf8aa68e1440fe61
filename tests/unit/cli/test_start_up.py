"""A command loads only what it needs: the number of modules stands for the time, which tests can't measure reliably."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"attr", "cyclopts", "multiprocessing", "prometheus_client", "pydoc", "rich", "yaml", "barnabas.server.node"}
"""Modules that no usual command needs; each takes 5 to 50 ms."""
MODULES_MAX = 330
"""The interpreter itself, asyncio with TLS, and what a request needs. All commands had 366 to 400 with cyclopts."""
NOWHERE = ("--bootstrap-server", "localhost:1")


def loaded_by(*arguments: str) -> set[str]:
    program = (
        "import sys\n"
        "from barnabas.cli.main import main\n"
        "main(sys.argv[1:])\n"
        "sys.stdout.write('\\n' + ' '.join(sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "arguments",
    [
        ("topics", "list"),
        ("topics", "create", "orders", "--partitions", "3", "--config", "retention.ms=1"),
        ("topics", "describe", "orders"),
        ("groups", "list"),
        ("queue", "list"),
        ("acls", "list"),
        ("configs", "describe", "--topic", "orders"),
        ("users", "list"),
        ("quorum", "describe"),
        ("cluster", "describe"),
        ("access", "mine"),
        ("access", "who", "Topic:orders"),
        ("sql", "-e", "SHOW TOPICS"),
        ("sql", "-e", "DESCRIBE orders"),
    ],
    ids=" ".join,
)
def test_a_usual_command_loads_few_modules(arguments: tuple[str, ...]) -> None:
    loaded = loaded_by(*arguments, *NOWHERE)
    assert loaded & HEAVY == set()
    assert len(loaded) < MODULES_MAX, sorted(loaded)


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("nonsense",)], ids=" ".join)
def test_help_loads_no_command(arguments: tuple[str, ...]) -> None:
    loaded = loaded_by(*arguments)
    assert loaded & (HEAVY | {"asyncio", "dataclasses"}) == set()


def test_a_help_text_does_not_load_the_admin_client() -> None:
    assert "barnabas.clients.admin.topics" not in loaded_by("topics", "create", "--help")
