"""Makefile, licence, pins and settings agree with the documents."""

from __future__ import annotations

import re
import tomllib

import pytest

import barnabas
from tests.docs.tracked import PROJECT, text_files

PYPROJECT = tomllib.loads((PROJECT / "pyproject.toml").read_text())
MAKEFILE = (PROJECT / "Makefile").read_text()
LOCKS = sorted((PROJECT / "requirements").glob("*.lock.txt"))

# The pattern is split, so that this file does not contain what it searches for.
ADDRESSES = [
    "py" + "pi.org",
    "python" + "hosted",
    "repo1." + "maven",
    "repo." + "maven",
    "maven." + "org",
    "registry." + "npmjs",
    "conda.anaconda" + ".org",
]
MACHINE_PATH = re.compile(
    r"(?<![A-Za-z0-9_.$}/-])/(?:" + "|".join(["wo" + "rk", "ro" + "ot", "ho" + "me", "Us" + "ers"]) + r")/"
)


def make_targets() -> set[str]:
    listed = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert listed is not None
    return set(listed.group(1).split())


def test_every_make_target_is_in_the_table_of_contributing() -> None:
    table = set(re.findall(r"^\| `make ([a-z-]+)` \|", (PROJECT / "CONTRIBUTING.md").read_text(), re.MULTILINE))
    assert table == make_targets()


def test_every_make_target_that_a_document_or_ci_uses_exists() -> None:
    used = set()
    for path, text in text_files():
        if path.suffix in {".md", ".py", ".yml"} or path.parts[0] == ".ci":
            used |= {(str(path), name) for name in re.findall(r"(?:`|^|\$ )make ([a-z-]+)", text, re.MULTILINE)}
    assert sorted((path, name) for path, name in used if name not in make_targets()) == []


def test_no_registry_address_is_committed() -> None:
    found = [f"{path}: {address}" for path, text in text_files() for address in ADDRESSES if address in text]
    assert found == []


def test_no_path_of_a_developer_machine_is_committed() -> None:
    found = []
    for path, text in text_files():
        found += [f"{path}: {text[m.start() : m.start() + 60]!r}" for m in MACHINE_PATH.finditer(text)]
    assert found == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_pin_is_exact_and_hashed(lock) -> None:  # type: ignore[no-untyped-def]
    entries = re.split(r"\n(?=[a-z0-9])", re.sub(r"^#.*\n", "", lock.read_text(), flags=re.MULTILINE).strip())
    assert len(entries) > 0
    for entry in entries:
        assert re.match(r"^[a-z0-9._-]+==[^ ]+", entry), entry.splitlines()[0]
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry.splitlines()[0]


def pins(name: str) -> dict[str, str]:
    text = (PROJECT / "requirements" / name).read_text()
    return dict(re.findall(r"^([a-z0-9._-]+)==([^ \n]+)", text, re.MULTILINE))


def test_runtime_packages_are_tested_in_the_same_version() -> None:
    run, dev = pins("run.lock.txt"), pins("dev.lock.txt")
    assert {name: dev.get(name) for name in run} == run


def test_every_dependency_is_pinned() -> None:
    required = [*PYPROJECT["project"]["dependencies"]]
    for extra in PYPROJECT["project"]["optional-dependencies"].values():
        required += extra
    for group in PYPROJECT["dependency-groups"].values():
        required += [entry for entry in group if isinstance(entry, str)]
    names = {re.split(r"[<>=!~ \[]", entry)[0].lower().replace("_", "-") for entry in required}
    pinned = pins("dev.lock.txt").keys() | pins("build.lock.txt").keys()
    assert sorted(names - pinned) == []


def test_the_licence_is_apache_2_in_full() -> None:
    text = (PROJECT / "LICENSE").read_text()
    assert PYPROJECT["project"]["license"] == "Apache-2.0"
    assert "Apache License\n                           Version 2.0, January 2004" in text
    for section in ("9. Accepting Warranty or Additional Liability.", "END OF TERMS AND CONDITIONS"):
        assert section in text


def test_the_changelog_has_an_open_section_and_the_released_version() -> None:
    text = (PROJECT / "CHANGELOG.md").read_text()
    assert "## [Unreleased]" in text
    released = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", text, re.MULTILINE)
    assert not released or released[0] == barnabas.__version__


def test_every_marker_is_declared() -> None:
    declared = {entry.split(":")[0] for entry in PYPROJECT["tool"]["pytest"]["ini_options"]["markers"]}
    assert {"interop", "spark", "simulation", "roundtrip", "oracle"} <= declared


def test_archives_are_unpacked_in_a_way_that_every_supported_python_has() -> None:
    """``filter=`` exists since 3.11.4; the system Python of many machines is 3.11.2."""
    users = {str(path) for path, text in text_files() if path.suffix == ".py" and ".extract" + "all(" in text}
    assert users == {"tests/oracles/archives.py"}
