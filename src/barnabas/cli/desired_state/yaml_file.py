"""Read YAML (and JSON) into the tree that ``barnabas.access`` understands, with the line of every value."""

from __future__ import annotations

from typing import Any

import yaml

from barnabas.access.desired_state import DesiredState, read_desired_state
from barnabas.access.document_tree import ListNode, MapNode, Node, ScalarNode
from barnabas.cli.arguments.standard_input import read_file

__all__ = ["UnreadableFile", "load_desired_state", "parse_document"]

_DEPTH_MAX = 20
_NODES_MIN, _NODES_A_CHARACTER = 100_000, 8


class UnreadableFile(Exception):
    """The file does not exist, or is not valid YAML."""


def load_desired_state(path: str) -> DesiredState:
    """Read a file. ``-`` is the standard input. Raise UnreadableFile or InvalidFile."""
    try:
        text = read_file(path)
    except OSError as error:
        raise UnreadableFile(f"can't read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UnreadableFile(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from error
    return read_desired_state(parse_document(text, path))


def parse_document(text: str, path: str) -> Node:
    """Parse YAML. Raise UnreadableFile."""
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        root = yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        where = "" if error.problem_mark is None else f", line {error.problem_mark.line + 1}"
        raise UnreadableFile(f"{path}{where}: invalid YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise UnreadableFile(f"{path}: invalid YAML: {error}") from error
    except RecursionError as error:
        raise UnreadableFile(f"{path}: the file is nested too deeply") from error
    if root is None:
        raise UnreadableFile(f"{path} is empty; it needs at least version: 1 and scope")
    return _Converter(path, nodes_max=_NODES_MIN + _NODES_A_CHARACTER * len(text)).convert(root, 0)


class _Converter:
    """Converts YAML to a tree. It follows aliases within limits, because a few lines can mean billions of values."""

    def __init__(self, path: str, *, nodes_max: int) -> None:
        self._path = path
        self._nodes_max = nodes_max
        self._count = 0

    def convert(self, node: Any, depth: int) -> Node:
        self._count += 1
        if depth > _DEPTH_MAX or self._count > self._nodes_max:
            raise UnreadableFile(f"{self._path}: line {node.start_mark.line + 1}: too large, or nested too deeply")
        line = node.start_mark.line + 1
        if node.id == "scalar":
            return ScalarNode(line, node.value, node.tag == "tag:yaml.org,2002:null")
        if node.id == "sequence":
            return ListNode(line, tuple(self.convert(item, depth + 1) for item in node.value))
        return MapNode(line, tuple((self._key(key), self.convert(item, depth + 1)) for key, item in node.value))

    def _key(self, node: Any) -> ScalarNode:
        line = node.start_mark.line + 1
        if node.id != "scalar":
            raise UnreadableFile(f"{self._path}: line {line}: a key must be a plain string")
        return ScalarNode(line, node.value)
