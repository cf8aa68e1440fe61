"""``python -m barnabas_release cut 0.2.0`` and ``python -m barnabas_release build``: see CONTRIBUTING.md, Release."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from barnabas_release.addresses import InvalidAddresses, read_addresses
from barnabas_release.changelog import CutError, changes_of, cut_changelog, cut_version, version_of
from barnabas_release.distributions import (
    NotReproducible,
    build_twice,
    digests,
    export_commit,
    write_bill_of_materials,
)
from barnabas_release.readme import broken_links
from barnabas_release.tool_environment import MissingTool, make_tool_environment

ROOT = Path(__file__).resolve().parents[3]
REFUSED = 1


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Return 0 if everything was done, 1 with the reasons on stderr if not."""
    parser = argparse.ArgumentParser(prog="python -m barnabas_release", description="Cut, build and check a release.")
    commands = parser.add_subparsers(required=True, metavar="command")
    cut = commands.add_parser("cut", help="write the version into the source and the changelog; commit both afterwards")
    cut.add_argument("version", help="the version, for example 0.2.0")
    cut.set_defaults(run=lambda chosen: _cut(root, chosen.version))
    check = commands.add_parser("check", help="print what a release still needs, and build nothing")
    check.set_defaults(run=lambda chosen: _refuse(problems(root)) or 0)
    build = commands.add_parser("build", help="build wheel, sdist, bill of materials and checksums")
    build.add_argument("--output", type=Path, default=root / "dist", help="an empty or new folder (default: dist)")
    build.add_argument("--rehearsal", action="store_true", help="build although something is unset or not committed")
    build.set_defaults(run=lambda chosen: _build(root, chosen.output, rehearsal=chosen.rehearsal))
    chosen = parser.parse_args(arguments)
    try:
        return int(chosen.run(chosen))
    except (CutError, InvalidAddresses, MissingTool, NotReproducible) as error:
        return _refuse([str(error)])
    except OSError as error:
        return _refuse([f"{error.filename}: {error.strerror}"])


def problems(root: Path) -> list[str]:
    """Return what stands between this checkout and a release."""
    unset = read_addresses(root / "packaging" / "release.toml").unset()
    found = [f"packaging/release.toml: {key} is not set; give it the project's real address" for key in unset]
    version = version_of((root / "src/barnabas/__init__.py").read_text(encoding="utf-8"))
    if changes_of((root / "CHANGELOG.md").read_text(encoding="utf-8"), version) is None:
        found.append(f"CHANGELOG.md: version {version} has no section; `python -m barnabas_release cut` writes it")
    targets = broken_links((root / "README.md").read_text(encoding="utf-8"), root)
    found += [f"README.md: the link to {target} leads to no file" for target in targets]
    changed = _git(root, "status", "--porcelain").splitlines()
    if changed:
        found.append(f"{len(changed)} files differ from the last commit, the first is {changed[0][3:]}; commit them")
    if _git(root, "tag", "--list", f"v{version}"):
        found.append(f"the tag v{version} exists; cut a later version")
    return found


def _cut(root: Path, version: str) -> int:
    source, changelog = root / "src/barnabas/__init__.py", root / "CHANGELOG.md"
    new_source = cut_version(source.read_text(encoding="utf-8"), version)
    day = datetime.now(UTC).date()
    new_changelog = cut_changelog(changelog.read_text(encoding="utf-8"), version, day)
    source.write_text(new_source, encoding="utf-8")
    changelog.write_text(new_changelog, encoding="utf-8")
    print(f"version {version}: src/barnabas/__init__.py and CHANGELOG.md are written; commit them")
    return 0


def _build(root: Path, output: Path, *, rehearsal: bool) -> int:
    found = problems(root)
    if found and not rehearsal:
        return _refuse(found)
    for problem in found:
        print(f"rehearsal, a release would be refused: {problem}", file=sys.stderr)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        return _refuse([f"--output {output}: choose an empty or new folder"])
    output.mkdir(parents=True, exist_ok=True)
    tools = make_tool_environment(root, root / ".cache" / "release-tools")
    epoch = int(_git(root, "log", "-1", "--format=%ct"))
    with TemporaryDirectory() as folder:
        export_commit(root, Path(folder))
        built = build_twice(Path(folder), output.absolute(), tools, epoch=epoch)
    tools.run("twine", "check", "--strict", *map(str, built), cwd=root)
    version = version_of((root / "src/barnabas/__init__.py").read_text(encoding="utf-8"))
    materials = output / f"barnabas-{version}.cdx.json"
    write_bill_of_materials(root, materials, tools)
    sums = "".join(f"{digest}  {name}\n" for name, digest in digests([*built, materials]).items())
    (output / "SHA256SUMS").write_text(sums, encoding="ascii")
    print(sums, end="")
    print(f"{output} is complete: built twice with the same bytes, and checked by twine")
    return 0


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-c", "safe.directory=*", *arguments]
    ended = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise MissingTool(f"git {' '.join(arguments)} ended with {ended.returncode}: {ended.stderr.strip()}")
    return ended.stdout


def _refuse(reasons: Sequence[str]) -> int:
    for reason in reasons:
        print(f"release: {reason}", file=sys.stderr)
    return REFUSED if reasons else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
