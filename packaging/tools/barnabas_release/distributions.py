"""Builds wheel and sdist of a commit so that the same commit gives the same bytes.

The source is an export of the commit, so nothing that is only in the working tree gets into a package. The wheel is
built from the sdist, so a file that is missing in the sdist is missing in the wheel, too. Times in the archives are
those of SOURCE_DATE_EPOCH.
"""

from __future__ import annotations

import os
import subprocess
import tarfile
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from barnabas_release.tool_environment import ToolEnvironment, find_uv

__all__ = [
    "NotReproducible",
    "build_distributions",
    "build_twice",
    "digests",
    "export_commit",
    "names_in_sdist",
    "write_bill_of_materials",
]


class NotReproducible(Exception):
    """Two builds of the same source differ. The message names the files."""


def export_commit(root: Path, folder: Path) -> None:
    """Write the files of the last commit into ``folder``. Raise CalledProcessError outside a git checkout."""
    command = ["git", "-c", "safe.directory=*", "archive", "--format=tar", "HEAD"]
    archived = subprocess.run(command, cwd=root, capture_output=True, check=True).stdout
    subprocess.run(["tar", "--extract", "--directory", str(folder)], input=archived, check=True)


def build_distributions(source: Path, output: Path, tools: ToolEnvironment, *, epoch: int) -> list[Path]:
    """Build the sdist, and from it the wheel, into ``output``. ``epoch`` is the time in the archives, in seconds.

    What builds them (hatchling) has the versions and hashes of ``requirements/build.lock.txt``.
    """
    environment = {
        **os.environ,
        "PYTHONDONTWRITEBYTECODE": "1",
        "SOURCE_DATE_EPOCH": str(epoch),
        "UV_CONSTRAINT": str(source / "requirements" / "build.lock.txt"),
        "PATH": os.pathsep.join([str(Path(find_uv()).parent), os.environ.get("PATH", "")]),
    }
    tools.run("pyproject-build", "--installer", "uv", "--outdir", str(output), str(source), cwd=source, env=environment)
    return sorted([*output.glob("*.whl"), *output.glob("*.tar.gz")])


def build_twice(source: Path, output: Path, tools: ToolEnvironment, *, epoch: int) -> list[Path]:
    """Build into ``output`` and once more elsewhere. Raise NotReproducible if the bytes differ."""
    built = build_distributions(source, output, tools, epoch=epoch)
    with TemporaryDirectory() as folder:
        again = build_distributions(source, Path(folder), tools, epoch=epoch)
        first, second = digests(built), digests(again)
    if first != second:
        names = sorted(name for name in first | second if first.get(name) != second.get(name))
        raise NotReproducible(f"two builds of the same source differ: {', '.join(names)}; compare them with diffoscope")
    return built


def digests(files: list[Path]) -> dict[str, str]:
    """Return the SHA-256 of each file by its name."""
    return {file.name: sha256(file.read_bytes()).hexdigest() for file in files}


def names_in_sdist(sdist: Path) -> set[str]:
    """Return the names of its files, without the folder that holds them all."""
    with tarfile.open(sdist) as archive:
        return {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}


def write_bill_of_materials(root: Path, output: Path, tools: ToolEnvironment) -> None:
    """Write a CycloneDX document of everything that ``requirements/run.lock.txt`` pins, with its hashes."""
    tools.run(
        "cyclonedx-py",
        "requirements",
        str(root / "requirements" / "run.lock.txt"),
        *("--pyproject", str(root / "pyproject.toml")),
        *("--mc-type", "application"),
        "--output-reproducible",
        *("--output-format", "JSON"),
        *("--output-file", str(output)),
        cwd=root,
    )
