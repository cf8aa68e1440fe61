"""The product uses every public name that its tests use: a helper for tests alone belongs under ``tests/``.

The test compares names, not the objects behind them, so it can miss a case (two functions share a name) but rarely
reports a wrong one. A string counts as a use too, because getattr, entry points and route tables spell names. It
ignores names with an underscore, attributes of a class, definitions that a decorator registers, the methods that
asyncio calls, the declarations of Kafka's messages and records, which are complete on purpose, and the package for the
tests of users.
"""

from __future__ import annotations

import ast
import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

from tests.contracts.import_graph import module_files

TESTS = Path(__file__).resolve().parents[1]
SOURCES = TESTS.parent / "src"

AUTHORS_USE = "users and authors of plugins call it"
TESTS_OBSERVE = "simulations and models observe this state"
PAGES_COME_FROM_IT = "`python -m tests.docs.reference` writes a page of it"
SPARK_CALLS = "Spark calls it by this name"
NOTEBOOKS_USE = "users call it in a Spark session: docs/analytics"
ORACLE = "a family of Kafka's recorded answers covers it"

STAYS = {
    "barnabas.access.desired_state_schema:json_schema": PAGES_COME_FROM_IT,
    "barnabas.clients.admin.errors:GroupIdNotFound": AUTHORS_USE,
    "barnabas.clients.admin.errors:GroupNotEmpty": AUTHORS_USE,
    "barnabas.clients.admin.errors:InvalidConfig": AUTHORS_USE,
    "barnabas.clients.admin.errors:InvalidReplicationFactor": AUTHORS_USE,
    "barnabas.clients.admin.errors:InvalidTopic": AUTHORS_USE,
    "barnabas.clients.admin.errors:InvalidUpdateVersion": AUTHORS_USE,
    "barnabas.clients.admin.partitions:OffsetSpec.earliest_local": AUTHORS_USE,
    "barnabas.clients.producer.prepared_transaction:end_prepared_transaction": AUTHORS_USE,
    "barnabas.common.config_validators:ListSize": ORACLE,
    "barnabas.common.settings.setting:attributes_of": "the contracts of settings read the promises of a table from it",
    "barnabas.connect.decide.validation.connector_config_reference:connector_reference_page": PAGES_COME_FROM_IT,
    "barnabas.connect.plugins.record_plugins:RecordColumns.with_key": AUTHORS_USE,
    "barnabas.connect.plugins.pipeline_testing:PipelineKit": AUTHORS_USE,
    "barnabas.connect.plugins.testing:ConnectorKit": AUTHORS_USE,
    "barnabas.connect.settings.worker_config_reference:worker_reference_page": PAGES_COME_FROM_IT,
    "barnabas.pipelines.acl_history.job:follow_history": NOTEBOOKS_USE,
    "barnabas.pipelines.acl_history.job:write_history": NOTEBOOKS_USE,
    "barnabas.pipelines.acl_history.transforms:rules_at_offset": NOTEBOOKS_USE,
    "barnabas.pipelines.acl_history.transforms:rules_at_time": NOTEBOOKS_USE,
    "barnabas.pipelines.effective_permissions.transforms:effective_permissions": NOTEBOOKS_USE,
    "barnabas.pipelines.effective_permissions.transforms:permissions_of_resources": NOTEBOOKS_USE,
    "barnabas.pipelines.sources.access_audit:AccessAudit.streamReader": SPARK_CALLS,
    "barnabas.pipelines.sources.access_audit:_AuditStreamReader.initialOffset": SPARK_CALLS,
    "barnabas.pipelines.sources.kraft_metadata:KraftMetadata.streamReader": SPARK_CALLS,
    "barnabas.pipelines.sources.kraft_metadata:_FilesStreamReader.initialOffset": SPARK_CALLS,
    "barnabas.registry.settings.registry_config_reference:registry_reference_page": PAGES_COME_FROM_IT,
    "barnabas.raft.raft_node:RaftNode.is_recovering": TESTS_OBSERVE,
    "barnabas.security.principal_builder:AuthenticationContext.peer_certificate": AUTHORS_USE,
    "barnabas.security.sasl.scram:ScramServer.server_first": TESTS_OBSERVE,
    "barnabas.security.sasl.scram:credential_from_text": ORACLE,
    "barnabas.security.sasl.scram:credential_to_text": ORACLE,
    "barnabas.server.settings.reference_page:reference_page": PAGES_COME_FROM_IT,
    "barnabas.storage.partition_log:PartitionLog.append_as_leader": "a complete append; a broker calls its two steps",
    "barnabas.storage.producer_state:ProducerState.ongoing_transactions": TESTS_OBSERVE,
}

_REGISTERS_NOTHING = {"abstractmethod", "cache", "cached_property", "classmethod", "contextmanager", "dataclass"} | {
    "lru_cache",
    "property",
    "staticmethod",
}
_NOT_CHECKED = ("barnabas.protocol.messages.", "barnabas.protocol.records.", "barnabas.testing.")
_CALLED_BY_ASYNCIO = {*dir(asyncio.Protocol), *dir(asyncio.BufferedProtocol)}
_WORD = re.compile(r"\w+")
_EXPRESSION = re.compile(r"\{[{%].*?[%}]\}", re.DOTALL)
_PROSE_LENGTH = 200
"""Longer strings are texts for people; their words are not names."""

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def used_by_tests_alone(sources: dict[str, str], tests: str, templates: str = "") -> set[str]:
    """Return the definitions, as ``module:Class.method``, that ``tests`` names, and neither another source nor an
    expression of the templates of pages."""
    trees = {module: ast.parse(source) for module, source in sources.items()}
    used = {name for tree in trees.values() for name in _used_names(tree)}
    used.update(name for expression in _EXPRESSION.findall(templates) for name in _WORD.findall(expression))
    words = set(_WORD.findall(tests)) - _CALLED_BY_ASYNCIO
    return {
        f"{module}:{qualified}"
        for module, tree in trees.items()
        for qualified, name in _public_definitions(tree)
        if name in words and name not in used and not module.startswith(_NOT_CHECKED)
    }


def _public_definitions(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for statement in tree.body:
        match statement:
            case ast.ClassDef():
                yield from _if_public(statement, "")
                for member in statement.body:
                    if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
                        yield from _if_public(member, f"{statement.name}.")
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from _if_public(statement, "")
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                if not name.startswith("_"):
                    yield name, name


def _if_public(definition: _Definition, prefix: str) -> Iterator[tuple[str, str]]:
    if not definition.name.startswith("_") and _REGISTERS_NOTHING.issuperset(map(_name_of, definition.decorator_list)):
        yield prefix + definition.name, definition.name


def _name_of(decorator: ast.expr) -> str:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(called).rpartition(".")[2]


def _used_names(tree: ast.Module) -> Iterator[str]:
    """Yield the used names, also those in strings. Uses by the definition itself, by one of the same name, or by an
    export do not count."""
    waiting: list[tuple[ast.AST, tuple[str, ...]]] = [(tree, ())]
    while waiting:
        node, enclosing = waiting.pop()
        match node:
            case (
                ast.Assign(targets=[ast.Name(id="__all__" | "_MODULES")]) | ast.Expr(value=ast.Constant())
            ):  # Exports, also those that are imported when they are used; docstrings.
                continue
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                enclosing += (node.name,)
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                if name not in enclosing:
                    yield name
            case ast.Constant(value=str(text)) if len(text) < _PROSE_LENGTH:
                yield from _WORD.findall(text)
        waiting.extend((child, enclosing) for child in ast.iter_child_nodes(node))


def test_the_product_has_no_helpers_for_tests_alone() -> None:
    sources = {module: path.read_text() for module, path in module_files().items()}
    here = Path(__file__)
    tests = "\n".join(path.read_text() for path in sorted(TESTS.rglob("*.py")) if path != here)
    templates = "\n".join(path.read_text() for path in sorted(SOURCES.rglob("templates/*.html")))
    found = used_by_tests_alone(sources, tests, templates)
    assert found - STAYS.keys() == set(), "move these under tests/, or say in STAYS why the product has them"
    assert STAYS.keys() - found == set(), "the product uses these, or they were deleted: remove them from STAYS"


SOURCE = """
__all__ = ["Box", "by_tests", "by_itself", "called", "registered", "spelled"]
LIMIT_OF_TESTS = 3

class Box:
    def opened(self): ...
    @property
    def of_tests(self): ...

def by_tests(): ...
def by_itself(): return by_itself()
def by_nothing(): ...
def called(): return Box().opened
def spelled(): ...
@app.command(name="x")
def registered(): getattr(called(), "spelled")
"""


def test_the_check_finds_names_that_the_product_never_uses() -> None:
    tests = "by_tests() by_itself() called() registered() spelled() Box().opened Box().of_tests LIMIT_OF_TESTS"
    assert used_by_tests_alone({"m": SOURCE}, tests) == {
        "m:by_tests",
        "m:by_itself",
        "m:Box.of_tests",
        "m:LIMIT_OF_TESTS",
    }


def test_a_template_uses_what_its_expressions_name() -> None:
    found = used_by_tests_alone({"m": SOURCE}, "of_tests by_tests", "{% if box.of_tests %}by_tests{% endif %}")
    assert found == {"m:by_tests"}
