"""Shared by the tests of packages and installation: a copy of the source, built packages, Pythons."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from barnabas_release.distributions import build_distributions
from barnabas_release.tool_environment import ToolEnvironment, find_uv, make_tool_environment
from tests.docs.tracked import PROJECT, tracked_files

__all__ = [
    "EPOCH",
    "VERSIONS",
    "built_packages",
    "copy_source",
    "environment_without_java",
    "install",
    "pythons",
    "tools_in",
]

EPOCH = 1_700_000_000
VERSIONS = ("3.11", "3.12", "3.13", "3.14")


def copy_source(folder: Path) -> Path:
    """Copy what git tracks or would track. The copies have new times, as in a fresh clone."""
    for path in tracked_files():
        copy = folder / path.relative_to(PROJECT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    return folder


def tools_in(folder: Path) -> ToolEnvironment:
    return make_tool_environment(PROJECT, folder / "tools")


def built_packages(folder: Path) -> dict[str, Path]:
    """Build both packages below ``folder``; the keys are "wheel" and "sdist"."""
    built = build_distributions(copy_source(folder / "source"), folder / "dist", tools_in(folder), epoch=EPOCH)
    return {"wheel" if path.suffix == ".whl" else "sdist": path for path in built}


@cache
def pythons() -> dict[str, str]:
    """Return the interpreters of this machine by version: on PATH, known to uv, or installed by pyenv."""
    found: dict[str, str] = {}
    for version in VERSIONS:
        pyenv = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob(f"versions/{version}.*/bin"))
        candidates = [shutil.which(f"python{version}"), *(str(folder / f"python{version}") for folder in pyenv)]
        known = subprocess.run(
            [find_uv(), "python", "find", "--no-project", "--system", "--no-python-downloads", version],
            capture_output=True,
            text=True,
            check=False,
        )
        candidates.append(known.stdout.strip() if known.returncode == 0 else None)
        for candidate in candidates:
            if candidate is not None and version not in found:
                found.update(_executable(candidate, version))
    return found


def _executable(path: str, version: str) -> dict[str, str]:
    """Return the version with the real path of the interpreter (a shim needs its shell), or an empty dict."""
    script = "import ensurepip, ssl, sqlite3, sys; print('%d.%d' % sys.version_info[:2], sys.executable)"
    ended = subprocess.run([path, "-c", script], capture_output=True, text=True, check=False)
    found, _, executable = ended.stdout.strip().partition(" ")
    return {version: executable} if ended.returncode == 0 and found == version else {}


def install(python: str, package: Path, folder: Path, *others: str, with_pip: bool = False) -> Path:
    """Make a fresh environment in ``folder``, and install the package and ``others`` in it. Return its ``bin``.

    Dependencies have the versions that ``requirements`` pins, so that a new release of one does not fail the test.
    """
    bin_folder = folder / "bin"
    pins = folder.parent / f"{folder.name}-pins.txt"
    text = (PROJECT / "requirements" / "dev.lock.txt").read_text()
    pins.write_text("".join(line.split(" \\")[0] + "\n" for line in text.splitlines() if line[:1].isalnum()))
    if with_pip:
        _run(python, "-m", "venv", str(folder))
        _run(str(bin_folder / "python"), "-m", "pip", "install", "--quiet", "-c", str(pins), str(package), *others)
    else:
        _run(find_uv(), "venv", "--quiet", "--python", python, str(folder))
        build = str(PROJECT / "requirements" / "build.lock.txt")
        target = ("--python", str(bin_folder / "python"), "--build-constraint", build, "-c", str(pins))
        _run(find_uv(), "pip", "install", "--quiet", *target, str(package), *others)
    return bin_folder


def environment_without_java(*first: Path) -> dict[str, str]:
    """Return an environment whose PATH has the given folders, and those of the system that do not contain Java."""
    kept = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PYTHONPATH", "VIRTUAL_ENV")}
    folders = [folder for folder in ("/usr/bin", "/bin") if not (Path(folder) / "java").exists()]
    return {**kept, "PATH": os.pathsep.join([*map(str, first), *folders])}


def _run(*command: str) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment_without_java())
    assert ended.returncode == 0, f"{' '.join(command)}\n{(ended.stdout + ended.stderr)[-4000:]}"
