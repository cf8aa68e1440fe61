"""Every public name of the admin client is found, and importing the package loads none of its modules."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.clients import admin


def test_every_public_name_is_found() -> None:
    assert {name for name in admin.__all__ if not hasattr(admin, name)} == set()
    assert dir(admin) == sorted(admin.__all__)


def test_names_are_imported_from_the_modules_that_type_checkers_see() -> None:
    assert admin.__file__ is not None
    block = next(node for node in ast.parse(Path(admin.__file__).read_text()).body if isinstance(node, ast.If))
    imported = {
        node.module: tuple(alias.name for alias in node.names)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
    }
    assert imported == admin._MODULES


def test_an_unknown_name_raises_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'NewTopics'"):
        admin.NewTopics  # type: ignore[attr-defined]  # noqa: B018


def test_importing_the_package_loads_none_of_its_modules() -> None:
    program = "import sys, barnabas.clients.admin\nprint(*(name for name in sys.modules if 'clients.admin.' in name))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []
