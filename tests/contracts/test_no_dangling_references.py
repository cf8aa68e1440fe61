"""A comment or docstring refers only to files, modules and pages of this repository."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.contracts.import_graph import module_files
from tests.docs.tracked import PROJECT, text_files

_FILE = re.compile(r"(?<![\w./<{*-])[\w.-]*(?:[\w-]+/)*[\w-]+\.(?:md|py)\b(?!\w)")
_MODULE = re.compile(r"``(barnabas(?:\.[a-z_0-9]+)+|[a-z_]+(?:\.[a-z_0-9]+)+)``")
_DOTTED = re.compile(r"(?<!`)\"([a-z_]+(?:\.[a-z_0-9]+)+)\.?\"")
_SETTING = re.compile(r"`([a-z_]+(?:\.[a-z_0-9]+)+)`")
_RULE = re.compile(r"\b[ACFO]-\d{1,2}\b")
"""The names of notes from which the product was built. A reader has the KIP, or needs the rule itself."""


@cache
def _paths() -> frozenset[str]:
    """Return every path of the repository and all its suffixes: ``server/node.py`` is enough."""
    found = set()
    for path, _ in text_files():
        parts = path.parts
        found |= {"/".join(parts[first:]) for first in range(len(parts))}
    return frozenset(found)


@cache
def _packages() -> frozenset[str]:
    return frozenset(name.split(".")[1] for name in module_files() if name.count(".") == 1)


@cache
def _other_names() -> frozenset[str]:
    """Return the settings that the reference lists, and dotted names that the code contains as strings."""
    pages = "".join(text for path, text in text_files() if path.match("docs/reference/*.md"))
    strings = (name for path in module_files().values() for name in _DOTTED.findall(path.read_text()))
    return frozenset([*strings, *_SETTING.findall(pages)])


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield comments and standalone strings: docstrings of modules, classes, functions and attributes."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def dangling(text: str) -> list[str]:
    found = [name for name in _FILE.findall(text) if not _is_file(name)]
    found += [name for name in _MODULE.findall(text) if _is_missing(name)]
    return found + _RULE.findall(text)


def _is_file(name: str) -> bool:
    """A module may be named by the end of its path. A page needs its full path: several folders have pages of one
    name."""
    if name.endswith(".md"):
        return (PROJECT / name).is_file()
    return name in _paths()


def _is_missing(name: str) -> bool:
    """Return whether a name looks like a module of ours that does not exist, nor the module before its last dot."""
    if name in _other_names():  # A setting, ``controller.quorum.voters``.
        return False
    if not name.startswith("barnabas."):
        if name.partition(".")[0] not in _packages():
            return False
        name = f"barnabas.{name}"
    return name not in module_files() and name.rpartition(".")[0] not in module_files()


def python_files() -> list[tuple[Path, str]]:
    return [(path, text) for path, text in text_files() if path.suffix == ".py"]


def test_comments_refer_only_to_files_and_names_of_the_repository() -> None:
    found = [
        f"{path}:{line}: {name}"
        for path, source in python_files()
        for line, text in texts(source)
        for name in dangling(text)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("What Kafka checks (authorizer.md A-65).", ["authorizer.md", "A-65"]),
        ("See ``network.nowhere.at_all`` and ``network.connection``.", ["network.nowhere.at_all"]),
        ("Written by docs/reference/configs.md and server/no_such_module.py.", ["server/no_such_module.py"]),
        ("UTF-8, SHA-256 and ``server/node.py`` are known.", []),
    ],
)
def test_a_dangling_reference_is_found(text: str, names: list[str]) -> None:
    assert dangling(text) == names


def test_comments_and_docstrings_are_read() -> None:
    source = '"""Module."""\nx = 1  # comment\n"""About x."""\ny = "no docstring"\n'
    assert sorted(texts(source)) == [(1, "Module."), (2, "# comment"), (3, "About x.")]
