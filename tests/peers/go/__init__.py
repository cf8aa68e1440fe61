"""Small programs in Go, each a folder with its ``go.mod``, and the tests of Go's clients themselves; ``go.sum`` pins
every module."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from tests.peers.fetched import fetched, require_program, run_quietly

__all__ = ["Change", "Outcomes", "go_program", "go_suite", "run_suite"]

_BUILD_S = 600
_OUTCOME = re.compile(r"^--- (PASS|FAIL|SKIP): (\S+)", re.MULTILINE)


class Change(NamedTuple):
    """A text of a file that another one replaces before the tests are built. The text occurs once."""

    file: str
    old: str
    new: str

    def apply(self, package: Path) -> None:
        file = package / self.file
        text = file.read_text()
        assert text.count(self.old) == 1, f"{self.file} has changed"
        file.write_text(text.replace(self.old, self.new))


class Outcomes(NamedTuple):
    """What became of the tests of a suite; ``printed`` is the end of the output."""

    is_passed: bool
    passed: frozenset[str]
    skipped: frozenset[str]
    printed: str


def go_program(name: str) -> Path:
    """Return the program of a folder, built when a source has changed. Skip the test without Go."""
    source = Path(__file__).parent / name

    def build(folder: Path) -> None:
        _go(source, "build", "-o", str(folder / name), ".")

    return fetched(f"go-{name}-{_digest(source)}", build) / name


def go_suite(name: str, module: str, package: str = ".", *, tag: str = "", change: Change | None = None) -> Path:
    """Return the program with the tests of a package, in the folder of the package: some read files there. The module
    is one of those that ``suites/go.mod`` pins. Skip the test without Go."""
    source = Path(__file__).parent / "suites"

    def build(folder: Path) -> None:
        _go(source, "mod", "download", module)
        copied = folder / "module"
        shutil.copytree(_go(source, "list", "-m", "-f", "{{.Dir}}", module).strip(), copied)
        run_quietly("chmod", "-R", "u+w", str(copied))  # Go's cache can't be written to.
        if change is not None:
            change.apply(copied / package)
        _go(copied / package, "test", "-c", "-tags", tag, "-o", name, ".")

    return fetched(f"go-suite-{name}-{_digest(source, change)}", build) / "module" / package / name


def run_suite(program: Path, tests: str, environment: Mapping[str, str], *, timeout_s: int) -> Outcomes:
    """Run the tests whose names match an expression, in the folder of the program."""
    done = subprocess.run(
        [str(program), "-test.v", f"-test.run={tests}", f"-test.timeout={timeout_s}s"],
        cwd=program.parent, env={**os.environ, **environment}, timeout=timeout_s + 30,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
    )  # fmt: skip
    found = [(outcome, name) for outcome, name in _OUTCOME.findall(done.stdout)]
    passed, skipped = (frozenset(name for outcome, name in found if outcome == kind) for kind in ("PASS", "SKIP"))
    return Outcomes(done.returncode == 0, passed, skipped, done.stdout[-8000:])


def _digest(source: Path, *more: object) -> str:
    files = sorted(path for path in source.iterdir() if path.is_file())
    texts = b"".join(path.name.encode() + path.read_bytes() for path in files)
    return sha256(texts + str(more or "").encode()).hexdigest()[:16]


def _go(folder: Path, verb: str, *arguments: str) -> str:
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-trimpath -mod=readonly -modcacherw"}
    return run_quietly(require_program("go"), verb, *arguments, cwd=folder, env=environment, timeout_s=_BUILD_S)
