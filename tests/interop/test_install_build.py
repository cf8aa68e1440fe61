"""Wheel, sdist and bill of materials: the same source gives the same bytes, and nothing is missing in them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from email.message import Message
from html.parser import HTMLParser
from pathlib import Path

import pytest

from barnabas_release.distributions import build_distributions, digests, names_in_sdist, write_bill_of_materials
from barnabas_release.tool_environment import ToolEnvironment
from tests.docs.tracked import PROJECT
from tests.interop.install_source import EPOCH, copy_source, tools_in

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> ToolEnvironment:
    return tools_in(tmp_path_factory.mktemp("tools"))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_source(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, source: Path, tools: ToolEnvironment) -> dict[str, Path]:
    files = build_distributions(source, tmp_path_factory.mktemp("dist"), tools, epoch=EPOCH)
    return {"wheel" if path.suffix == ".whl" else "sdist": path for path in files}


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_bytes(archive.read(name))


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.targets += [value or "" for name, value in attrs if name in ("href", "src")]


def links_when_rendered(readme: str, tools: ToolEnvironment, folder: Path) -> list[str]:
    """Render as the index of Python's packages does."""
    (folder / "readme.md").write_text(readme)
    script = "import sys; from readme_renderer.markdown import render; print(render(open(sys.argv[1]).read()))"
    html = tools.run("python", "-c", script, str(folder / "readme.md"), cwd=folder)
    assert "<table>" in html, "tables are not rendered"
    links = Links()
    links.feed(html)
    return links.targets


def test_another_copy_of_the_source_gives_the_same_bytes(
    tmp_path: Path, source: Path, built: dict[str, Path], tools: ToolEnvironment
) -> None:
    before = os.umask(0o077)  # Permissions of a checkout depend on it.
    try:
        other = shutil.copytree(source, tmp_path / "elsewhere", copy_function=shutil.copyfile)  # With new times.
        again = build_distributions(other, tmp_path / "dist", tools, epoch=EPOCH)
    finally:
        os.umask(before)
    assert digests(again) == digests(list(built.values()))


def test_the_sdist_has_every_file_of_the_repository(source: Path, built: dict[str, Path]) -> None:
    names = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    assert names_in_sdist(built["sdist"]) == names | {"PKG-INFO"}


@pytest.mark.long  # It imports every test; the test above has the same files.
def test_the_tests_of_the_sdist_can_be_collected(tmp_path: Path, built: dict[str, Path]) -> None:
    subprocess.run(["tar", "--extract", "--file", str(built["sdist"]), "--directory", str(tmp_path)], check=True)
    (folder,) = tmp_path.iterdir()
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "-p", "no:randomly", "-p", "no:cacheprovider"],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    collected = re.search(r"^(\d+) tests collected", ended.stdout, re.MULTILINE)
    assert collected is not None, ended.stdout[-300:]
    assert int(collected[1]) > 8000


def test_the_builder_has_the_pinned_version(built: dict[str, Path]) -> None:
    pinned = re.search(r"^hatchling==(\S+)", (PROJECT / "requirements/build.lock.txt").read_text(), re.MULTILINE)
    with zipfile.ZipFile(built["wheel"]) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/WHEEL")]
        assert pinned is not None
        assert f"Generator: hatchling {pinned[1]}" in archive.read(name).decode()


def test_an_index_would_accept_both(built: dict[str, Path], tools: ToolEnvironment) -> None:
    tools.run("twine", "check", "--strict", *map(str, built.values()), cwd=PROJECT)


def test_the_wheel_has_the_licence_and_no_link_that_leads_nowhere(
    tmp_path: Path, built: dict[str, Path], tools: ToolEnvironment
) -> None:
    metadata = metadata_of(built["wheel"])
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    with zipfile.ZipFile(built["wheel"]) as archive:
        assert {"LICENSE"} == {Path(name).name for name in archive.namelist() if "/licenses/" in name}
        assert not [name for name in archive.namelist() if not name.startswith("barnabas")]
    targets = links_when_rendered(str(metadata.get_payload()), tools, tmp_path)
    assert [target for target in targets if not target.startswith(("#", "https://"))] == []


def test_addresses_in_one_file_become_project_urls_and_links(tmp_path: Path, tools: ToolEnvironment) -> None:
    source = copy_source(tmp_path / "source")
    settings = source / "packaging" / "release.toml"
    text = re.sub(
        r'^(\w+) = ""$', r'\1 = "https://forge.example/barnabas/\1"', settings.read_text(), flags=re.MULTILINE
    )
    text = re.sub(r'^((?:raw_)?file = ".*)"$', r'\1/v{version}/{path}"', text, flags=re.MULTILINE)
    settings.write_text(text)
    built = build_distributions(source, tmp_path / "dist", tools, epoch=EPOCH)
    metadata = metadata_of(built[0])
    urls = dict(entry.split(", ") for entry in metadata.get_all("Project-URL"))
    version = metadata["Version"]
    assert urls == {
        "Homepage": "https://forge.example/barnabas/homepage",
        "Source": "https://forge.example/barnabas/repository",
        "Issues": "https://forge.example/barnabas/issues",
        "Changelog": f"https://forge.example/barnabas/file/v{version}/CHANGELOG.md",
        "Security": "https://forge.example/barnabas/contact",
    }
    targets = links_when_rendered(str(metadata.get_payload()), tools, tmp_path)
    assert f"https://forge.example/barnabas/file/v{version}/SECURITY.md" in targets
    assert [target for target in targets if not target.startswith(("#", "https://"))] == []


def test_the_bill_of_materials_has_every_pinned_package_with_its_hashes(tmp_path: Path, tools: ToolEnvironment) -> None:
    texts = []
    for name in ("first.json", "second.json"):
        write_bill_of_materials(PROJECT, tmp_path / name, tools)
        texts.append((tmp_path / name).read_text())
    assert texts[0] == texts[1]
    document = json.loads(texts[0])
    assert document["bomFormat"] == "CycloneDX"
    assert document["metadata"]["component"]["name"] == "barnabas"
    pinned = re.findall(
        r"^([a-z0-9._-]+)==([^ \n]+)", (PROJECT / "requirements/run.lock.txt").read_text(), re.MULTILINE
    )
    assert {(component["name"], component["version"]) for component in document["components"]} == set(pinned)
    for component in document["components"]:
        hashes = [entry["hashes"] for entry in component["externalReferences"] if "hashes" in entry]
        assert hashes, component["name"]


def test_the_sdist_is_one_folder_named_after_the_version(built: dict[str, Path]) -> None:
    with tarfile.open(built["sdist"]) as archive:
        folders = {member.name.partition("/")[0] for member in archive.getmembers()}
        times = {int(member.mtime) for member in archive.getmembers()}
    assert folders == {built["sdist"].name.removesuffix(".tar.gz")}
    assert times == {EPOCH}
