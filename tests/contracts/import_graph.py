"""The import graph of ``barnabas`` at run time: imports inside functions count, those for type checkers don't."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

__all__ = ["Import", "circles", "imports", "module_files", "run_time_graph"]

SOURCE = Path(__file__).resolve().parents[2] / "src"


class Import(NamedTuple):
    importer: str
    line: int
    target: str
    """A module of ours, or the dotted name of a foreign module."""
    name: str
    """The name imported from the module; empty if the module itself is imported."""
    function: str
    """The function that contains the statement; empty at the top level."""


@cache
def module_files() -> Mapping[str, Path]:
    found = {}
    for path in sorted((SOURCE / "barnabas").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports() -> tuple[Import, ...]:
    found: list[Import] = []
    for module, path in module_files().items():
        _Statements(module, found).visit(ast.parse(path.read_text()))
    return tuple(found)


@cache
def run_time_graph() -> Mapping[str, frozenset[str]]:
    """Return each module with our modules that it imports, at load time or later."""
    return graph_of(imports())


def graph_of(statements: Iterable[Import]) -> Mapping[str, frozenset[str]]:
    graph: dict[str, set[str]] = {module: set() for module in module_files()}
    for statement in statements:
        if statement.target in graph and statement.target != statement.importer:
            graph[statement.importer].add(statement.target)
    return {module: frozenset(targets) for module, targets in graph.items()}


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Return the strongly connected components of more than one module (Tarjan's algorithm)."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 10_000))
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for target in graph[module]:
            if target not in index:
                visit(target)
                low[module] = min(low[module], low[target])
            elif target in stack:
                low[module] = min(low[module], index[target])
        if low[module] == index[module]:
            first = stack.index(module)
            component, stack[first:] = stack[first:], []
            if len(component) > 1:
                found.append(sorted(component))

    for module in graph:
        if module not in index:
            visit(module)
    return sorted(found)


class _Statements(ast.NodeVisitor):
    def __init__(self, module: str, found: list[Import]) -> None:
        self._module = module
        self._found = found
        self._functions: list[str] = []

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._functions.append(node.name)
        self.generic_visit(node)
        self._functions.pop()

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for statement in node.orelse:
                self.visit(statement)
        else:
            self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._note(node, alias.name, "")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        assert not node.level, f"{self._module}:{node.lineno}: imports are absolute"
        for alias in node.names:
            whole = f"{node.module}.{alias.name}"
            if whole in module_files():
                self._note(node, whole, "")
            else:
                self._note(node, str(node.module), alias.name)

    def _note(self, node: ast.stmt, target: str, name: str) -> None:
        self._found.append(Import(self._module, node.lineno, target, name, ".".join(self._functions)))


def closure(graph: Mapping[str, Iterable[str]], roots: Iterable[str]) -> frozenset[str]:
    """Return the roots, all their transitive imports, and the packages of all of them."""
    seen: set[str] = set()
    left = list(roots)
    while left:
        module = left.pop()
        if module not in seen:
            seen.add(module)
            left += [*graph[module], *packages_of(module)]
    return frozenset(seen)


def packages_of(module: str) -> Iterator[str]:
    parts = module.split(".")
    return (".".join(parts[:length]) for length in range(1, len(parts)))
