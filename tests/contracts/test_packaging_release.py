"""The release tools: where addresses stand, what the README becomes, how a version is cut, and what is refused."""

from __future__ import annotations

import re
import subprocess
import tomllib
from datetime import date
from pathlib import Path

import pytest

from barnabas_release.__main__ import main, problems
from barnabas_release.addresses import Addresses, InvalidAddresses, read_addresses
from barnabas_release.changelog import CutError, changes_of, cut_changelog, cut_version
from barnabas_release.readme import broken_links, for_an_index
from tests.docs.tracked import PROJECT

KEYS = [
    "addresses.homepage",
    "addresses.repository",
    "addresses.issues",
    "addresses.file",
    "addresses.raw_file",
    "security.contact",
]
FORGE = Addresses(file="https://forge.example/{version}/{path}", raw_file="https://raw.example/{path}?v={version}")
SOURCE = '"""A package."""\n\n__version__ = "0.1.0"\n'
CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- A thing.\n"


def test_the_file_of_the_repository_is_valid_and_has_a_place_for_each_address() -> None:
    file = PROJECT / "packaging" / "release.toml"
    assert set(read_addresses(file).unset()) <= set(KEYS)
    tables = tomllib.loads(file.read_text())
    assert [f"{table}.{key}" for table, entries in tables.items() for key in entries] == KEYS


def test_nothing_is_shown_for_an_address_that_is_not_set() -> None:
    assert Addresses().unset() == KEYS
    assert Addresses().project_urls("1.0.0") == {}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('[addresses]\nhomepag = ""', "addresses.homepag: unknown key; the keys are addresses.homepage"),
        ("[addresses]\nissues = 3", 'addresses.issues=3: write the address in quotes, or "" if it is not set'),
        ('[addresses]\nhomepage = "http://a.example"', "an address begins with https://"),
        ('[security]\ncontact = "me@a.example"', "an address begins with https:// or mailto:"),
        ('[addresses]\nfile = "https://a.example/blob"', "{path} is missing"),
        ('homepage = "https://a.example"', "put it below [addresses] or [security]"),
        ("[addresses", "not valid TOML"),
    ],
)
def test_a_wrong_address_is_refused_by_key(tmp_path: Path, text: str, named: str) -> None:
    (tmp_path / "release.toml").write_text(text)
    with pytest.raises(InvalidAddresses) as refused:
        read_addresses(tmp_path / "release.toml")
    assert named in str(refused.value)
    assert "release.toml" in str(refused.value)


def test_relative_links_become_absolute_if_files_have_an_address() -> None:
    text = "[a](docs/a.md#part) [b](#here) [c](https://c.example) ![d](d.png)\n```\n[e](e.md)\n```\n"
    assert for_an_index(text, FORGE, "0.2.0") == (
        "[a](https://forge.example/0.2.0/docs/a.md#part) [b](#here) [c](https://c.example) "
        "![d](https://raw.example/d.png?v=0.2.0)\n```\n[e](e.md)\n```\n"
    )


def test_without_an_address_the_text_of_a_link_stays_and_a_picture_is_omitted() -> None:
    text = "before [the `a` page](docs/a.md)\n\n![d](d.png)\n\nafter\n"
    assert for_an_index(text, Addresses(), "0.2.0") == "before the `a` page\n\nafter\n"


def test_links_without_a_file_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.md").touch()
    text = "[a](a.md#x) [b](b.md) [c](https://c.example) ![d](d.png)\n```\n[e](e.md)\n```\n"
    assert broken_links(text, tmp_path) == ["b.md", "d.png"]


def test_a_cut_moves_the_open_changes_below_the_version() -> None:
    assert cut_version(SOURCE, "0.2.0") == SOURCE.replace("0.1.0", "0.2.0")
    text = cut_changelog(CHANGELOG, "0.2.0", date(2026, 1, 2))
    assert text == "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-01-02\n\n### Added\n\n- A thing.\n"
    assert changes_of(text, "0.2.0") == "### Added\n\n- A thing."
    assert changes_of(text, "0.1.0") is None


@pytest.mark.parametrize("version", ["0.1.0", "0.0.9", "1.0", "0.2.0rc1", "v0.2.0"])
def test_only_a_later_version_of_three_numbers_is_cut(version: str) -> None:
    with pytest.raises(CutError, match="version"):
        cut_version(SOURCE, version)


def test_a_version_is_cut_once_and_with_changes() -> None:
    text = cut_changelog(CHANGELOG, "0.2.0", date(2026, 1, 2))
    with pytest.raises(CutError, match=r"0\.2\.0 is there already"):
        cut_changelog(text, "0.2.0", date(2026, 1, 2))
    with pytest.raises(CutError, match="has no entry"):
        cut_changelog(text, "0.3.0", date(2026, 1, 2))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small project with one commit and every address."""
    settings = (PROJECT / "packaging" / "release.toml").read_text()
    files = {
        "src/barnabas/__init__.py": SOURCE,
        "CHANGELOG.md": CHANGELOG,
        "README.md": "[the changes](CHANGELOG.md)\n",
        "packaging/release.toml": re.sub(
            r'^(\w+) = ".*"$', r'\1 = "https://forge.example/{path}"', settings, flags=re.MULTILINE
        ),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def git(root: Path, *arguments: str) -> None:
    names = ("-c", "user.name=tester", "-c", "user.email=tester@a.example", "-c", "safe.directory=*")
    subprocess.run(["git", *names, *arguments], cwd=root, check=True, capture_output=True)


def commit(root: Path) -> None:
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "a change")


def test_a_release_is_refused_until_everything_is_set_cut_and_committed(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["build"], checkout) == 1
    assert "CHANGELOG.md: version 0.1.0 has no section" in capsys.readouterr().err
    assert main(["cut", "0.2.0"], checkout) == 0
    assert problems(checkout) == [
        "2 files differ from the last commit, the first is CHANGELOG.md; commit them",
    ]
    commit(checkout)
    assert problems(checkout) == []
    git(checkout, "tag", "v0.2.0")
    assert problems(checkout) == ["the tag v0.2.0 exists; cut a later version"]
    assert not (checkout / "dist").exists()


def test_a_refused_release_names_each_unset_address(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout / "packaging" / "release.toml").write_text('[addresses]\nhomepage = "https://forge.example"\n')
    assert main(["check"], checkout) == 1
    printed = capsys.readouterr().err
    for key in KEYS[1:]:
        assert f"packaging/release.toml: {key} is not set" in printed
    assert "addresses.homepage" not in printed


def test_a_readme_with_a_dead_link_and_a_full_folder_are_refused(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / "README.md").write_text("[gone](docs/gone.md)\n")
    assert main(["check"], checkout) == 1
    assert "README.md: the link to docs/gone.md leads to no file" in capsys.readouterr().err
    assert main(["build", "--rehearsal", "--output", str(checkout / "src")], checkout) == 1
    assert "choose an empty or new folder" in capsys.readouterr().err


def test_a_missing_settings_file_is_an_error_and_not_a_traceback(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / "packaging" / "release.toml").unlink()
    assert main(["check"], checkout) == 1
    assert "release.toml: No such file or directory" in capsys.readouterr().err
