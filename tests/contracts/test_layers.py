"""The contracts of ``make layers`` name every package, and packages only: the tree is the architecture."""

from __future__ import annotations

import tomllib

import pytest

from tests.contracts.import_graph import module_files
from tests.docs.tracked import PROJECT, tracked_files

CONTRACTS = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


def test_every_package_belongs_to_a_layer() -> None:
    contract = CONTRACTS[0]
    placed = {name.strip(" ()") for layer in contract["layers"] for name in layer.split("|")}
    packages = {path.relative_to(PROJECT).parts[2] for path in tracked_files() if path.match("src/barnabas/*/**/*.py")}
    packages |= {path.relative_to(PROJECT).parts[2] for path in tracked_files() if path.match("src/barnabas/*/*.py")}
    assert sorted(packages - placed) == []
    rows = (PROJECT / "ARCHITECTURE.md").read_text()
    assert sorted(name for name in placed if f"`{name}`" not in rows) == []


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract["name"])
def test_contracts_name_packages_not_modules(contract: dict[str, list[str]]) -> None:
    named = [
        *contract.get("source_modules", ()),
        *contract.get("forbidden_modules", ()),
        *contract.get("containers", ()),
    ]
    ours = [name for name in named if name.partition(".")[0] == "barnabas"]
    assert [name for name in ours if module_files()[name].name != "__init__.py"] == []


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract["name"])
def test_contracts_have_no_exceptions(contract: dict[str, list[str]]) -> None:
    assert contract.get("ignore_imports", []) == []
