"""An import is inside a function only for a reason of decision 5, docs/decisions/0005-start-up-is-a-feature.md."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from functools import cache

import pytest

from barnabas.cli.main import COMMANDS
from tests.contracts.import_graph import Import, closure, graph_of, imports, run_time_graph

NODE = ("barnabas.cli.main", "barnabas.cli.node", "barnabas.server.node")
"""The modules that a node loads at start; it imports later ones in functions of these, or of their imports."""

OPTIONAL = frozenset(
    {"confluent_kafka", "google", "grpc", "httpx", "jinja2", "matplotlib", "pandas", "py4j", "pyarrow", "pyspark"}
    | {"fastavro", "jsonschema", "psycopg", "referencing", "starlette", "uvicorn", "uvloop"}
)
"""Libraries of the extras in ``pyproject.toml``, which a user may lack."""

NEEDED_RARELY = {
    "rich": "progress bars appear only on a terminal",
    "barnabas.security.sasl.scram": "only a password change needs a salt",
    "barnabas.security.scram_credentials": "only a password change needs a salt",
}
"""Imports that most runs of a command don't need, and that take a tenth of their time."""


@cache
def loaded_by_a_node() -> frozenset[str]:
    """Return all modules, ours and foreign, that a node has loaded before it starts its work."""
    program = f"import sys, {', '.join(NODE)}\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return frozenset(run.stdout.split())


@cache
def at_once() -> Mapping[str, frozenset[str]]:
    return graph_of(statement for statement in imports() if not statement.function)


@cache
def loaded_with(module: str) -> frozenset[str]:
    """Return what importing the module loads immediately: our modules, and the libraries that these name."""
    ours = closure(at_once(), [module])
    return ours | {target for loaded in ours for target in _libraries().get(loaded, ())}


@cache
def _libraries() -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for statement in imports():
        if not statement.function and statement.target not in at_once():
            found.setdefault(statement.importer, set()).add(statement.target)
    return {module: frozenset(targets) for module, targets in found.items()}


@cache
def on_the_way_to_ready() -> frozenset[str]:
    """Return the modules that a node may load before it is ready, depending on its settings."""
    graph = {
        module: [target for target in targets if not target.startswith("barnabas.cli.") or target in NODE]
        for module, targets in run_time_graph().items()
    }
    return closure(graph, NODE)


def is_optional(statement: Import) -> bool:
    """The import loads a library of an extra, which the module itself does not need."""
    needed = loaded_with(statement.target) if statement.target in at_once() else {statement.target}
    have = loaded_with(statement.importer)
    return any(library.partition(".")[0] in OPTIONAL for library in needed - have)


def spares_the_node(statement: Import) -> bool:
    return statement.importer in on_the_way_to_ready() and statement.target not in loaded_by_a_node()


def spares_a_help_text(statement: Import) -> bool:
    """Help, completion and usage errors load a command, but not its implementation."""
    commands = [loaded_with(module) for module, _ in COMMANDS.values()]
    return any(statement.importer in loaded and statement.target not in loaded for loaded in commands)


def spares_a_command(statement: Import) -> bool:
    is_of_a_command = statement.importer.startswith(("barnabas.cli.", "barnabas.clients.admin."))
    return is_of_a_command and any(
        statement.target == rare or statement.target.startswith(f"{rare}.") for rare in NEEDED_RARELY
    )


def has_a_reason(statement: Import) -> bool:
    if is_optional(statement):
        return True
    is_loaded_anyway = statement.target in loaded_with(statement.importer)
    return not is_loaded_anyway and (
        spares_the_node(statement) or spares_a_help_text(statement) or spares_a_command(statement)
    )


def test_an_import_inside_a_function_has_a_reason() -> None:
    in_functions = [statement for statement in imports() if statement.function]
    without = [f"{found.importer}:{found.line}: {found.target}" for found in in_functions if not has_a_reason(found)]
    assert without == []


def test_the_modules_before_ready_are_those_that_a_node_loads() -> None:
    """The static graph, on which the check relies, agrees with the interpreter."""
    ours = {module for module in loaded_by_a_node() if module.partition(".")[0] == "barnabas"}
    assert ours == closure(at_once(), NODE)


@pytest.mark.parametrize(
    ("importer", "target", "has_one"),
    [
        ("barnabas.server.settings.tls", "barnabas.security.tls", True),
        ("barnabas.server.node", "json", False),
        ("barnabas.cli.topics.command", "barnabas.clients.admin", True),
        ("barnabas.cli.topics.command", "cyclopts", True),
        ("barnabas.cli.topics.command", "barnabas.cli.output.answer", False),
        ("barnabas.spark.spark_session", "pyspark.sql", True),
        ("barnabas.clients.admin.topics", "barnabas.broker.broker", False),
        ("barnabas.server.node", "rich.table", True),
        ("barnabas.cli.bench.progress", "rich.progress", True),
        ("barnabas.cli.bench.progress", "asyncio", False),
    ],
)
def test_each_of_the_four_reasons_excuses_an_import(importer: str, target: str, has_one: bool) -> None:
    assert has_a_reason(Import(importer, 1, target, "", "run")) is has_one
