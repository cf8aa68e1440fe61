"""The project's addresses, from ``packaging/release.toml``: the only place that names them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Addresses", "InvalidAddresses", "read_addresses"]

_KEYS = {
    "addresses.homepage": "homepage",
    "addresses.repository": "repository",
    "addresses.issues": "issues",
    "addresses.file": "file",
    "addresses.raw_file": "raw_file",
    "security.contact": "security_contact",
}


class InvalidAddresses(Exception):
    """The file has an unknown key or a value that is not an address. The message names key, value and what to do."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """An empty string is an address that is not set. ``file`` and ``raw_file`` contain {path}, and may contain
    {version}."""

    homepage: str = ""
    repository: str = ""
    issues: str = ""
    file: str = ""
    raw_file: str = ""
    security_contact: str = ""

    def unset(self) -> list[str]:
        """Return the keys without a value, in the order of the file."""
        return [key for key, name in _KEYS.items() if not getattr(self, name)]

    def project_urls(self, version: str) -> dict[str, str]:
        """Return those that a package index shows, by label."""
        shown = {
            "Homepage": self.homepage,
            "Source": self.repository,
            "Issues": self.issues,
            "Changelog": self.page_of("CHANGELOG.md", version),
            "Security": self.security_contact,
        }
        return {label: address for label, address in shown.items() if address}

    def page_of(self, path: str, version: str) -> str:
        """Return the page that shows a file of the repository, or an empty string."""
        return _filled(self.file, path, version)

    def bytes_of(self, path: str, version: str) -> str:
        """Return where a file of the repository is served as it is, or an empty string."""
        return _filled(self.raw_file, path, version)


def _filled(template: str, path: str, version: str) -> str:
    return template.replace("{version}", version).replace("{path}", path)


def read_addresses(file: Path) -> Addresses:
    """Read ``release.toml``. Raise InvalidAddresses, or OSError if it can't be read."""
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidAddresses(f"{file}: not valid TOML: {error}") from error
    values: dict[str, str] = {}
    for table, entries in tables.items():
        if not isinstance(entries, dict):
            raise InvalidAddresses(f"{file}: {table}: put it below [addresses] or [security]")
        for key, value in entries.items():
            values[_KEYS.get(f"{table}.{key}", "")] = _checked(file, f"{table}.{key}", value)
    return Addresses(**values)


def _checked(file: Path, key: str, value: object) -> str:
    if key not in _KEYS:
        raise InvalidAddresses(f"{file}: {key}: unknown key; the keys are {', '.join(_KEYS)}")
    if not isinstance(value, str):
        raise InvalidAddresses(f'{file}: {key}={value!r}: write the address in quotes, or "" if it is not set')
    schemes = ("https://", "mailto:") if key == "security.contact" else ("https://",)
    if value and (not value.startswith(schemes) or any(character.isspace() for character in value)):
        raise InvalidAddresses(
            f"{file}: {key}={value!r}: an address begins with {' or '.join(schemes)}, without spaces"
        )
    if value and key in ("addresses.file", "addresses.raw_file") and "{path}" not in value:
        raise InvalidAddresses(f"{file}: {key}={value!r}: {{path}} is missing; it is replaced with the name of a file")
    return value
