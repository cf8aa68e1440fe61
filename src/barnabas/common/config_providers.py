"""Config providers (KIP-297) supply values from elsewhere, for ``${provider:path:key}`` or ``${provider:key}``.

``config.providers`` names them, ``config.providers.<name>.class`` selects the class of each, and
``config.providers.<name>.param.<parameter>`` restricts what it may read. Kafka's three are supported: a properties
file, the environment, and a directory with a file for each key. References inside the returned values are not resolved.

A reference to a provider that is not named remains as text, as in Kafka. A reference for which its provider has no
value is an error. Kafka keeps the text in this case too, so that a password becomes the text of the reference.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import partial

from barnabas.common.properties_file import MalformedProperties, read_properties_file

__all__ = ["CONFIG_PROVIDERS", "ConfigProviders", "UnresolvedReference", "has_reference", "is_provider_setting"]

CONFIG_PROVIDERS = "config.providers"

_PREFIX = CONFIG_PROVIDERS + "."
_REFERENCE = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
_PACKAGE = "org.apache.kafka.common.config.provider."

_Lookup = Callable[[str, str], str]
"""Returns the value for a path and a key. Raises UnresolvedReference."""


class UnresolvedReference(ValueError):
    """An error in a reference or a provider; it never shows a value."""


def has_reference(text: str) -> bool:
    return "${" in text and _REFERENCE.search(text) is not None


def is_provider_setting(name: str) -> bool:
    """Return whether the setting configures a provider."""
    return name.startswith(_PREFIX)


class ConfigProviders:
    """Takes all settings of a configuration. ``problems`` has the errors of the providers' own settings, by setting."""

    __slots__ = ("_lookups", "problems")

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._lookups: dict[str, _Lookup] = {}
        self.problems: dict[str, str] = {}
        names = [part.strip() for part in settings.get(CONFIG_PROVIDERS, "").split(",") if part.strip()]
        for name in names:
            self._add(name, settings)
        for setting in settings:
            if is_provider_setting(setting) and setting[len(_PREFIX) :].partition(".")[0] not in names:
                self.problems[setting] = f"{CONFIG_PROVIDERS} does not name this provider"

    def _add(self, name: str, settings: Mapping[str, str]) -> None:
        prefix = f"{_PREFIX}{name}."
        parameters = {
            setting.removeprefix(prefix + "param."): text
            for setting, text in settings.items()
            if setting.startswith(prefix + "param.")
        }
        known: dict[str, tuple[str, Callable[[str], _Lookup]]] = {
            "FileConfigProvider": ("allowed.paths", _file_lookup),
            "DirectoryConfigProvider": ("allowed.paths", _directory_lookup),
            "EnvVarConfigProvider": ("allowlist.pattern", _environment_lookup),
        }
        class_name = settings.get(prefix + "class", "").strip()
        if class_name.removeprefix(_PACKAGE) not in known:
            what = f"is not an available class: {class_name}" if class_name else "is missing"
            self.problems[prefix + "class"] = (
                f"{what}; the available classes are {', '.join(_PACKAGE + name for name in known)}"
            )
            return
        parameter, make = known[class_name.removeprefix(_PACKAGE)]
        for other in parameters.keys() - {parameter}:
            self.problems[f"{prefix}param.{other}"] = f"is not a parameter; the parameter is {parameter}"
        try:
            self._lookups[name] = make(parameters.get(parameter, ""))
        except UnresolvedReference as error:
            self.problems[f"{prefix}param.{parameter}"] = str(error)

    def resolve(self, text: str, given: list[str] | None = None) -> str:
        """``given`` receives the values of the references. Raises UnresolvedReference."""

        def value(match: re.Match[str]) -> str:
            found = self._value(match)
            if given is not None and match[1] in self._lookups:
                given.append(found)
            return found

        return _REFERENCE.sub(value, text)

    def unnamed(self, text: str) -> list[str]:
        """Return the names of providers that the text refers to and that do not exist."""
        return [match[1] for match in _REFERENCE.finditer(text) if match[1] not in self._lookups]

    def _value(self, match: re.Match[str]) -> str:
        lookup = self._lookups.get(match[1])
        if lookup is None:
            return match[0]
        try:
            return lookup(match[2] or "", match[3])
        except UnresolvedReference as error:
            raise UnresolvedReference(f"{match[0]}: {error}") from error


def _file_lookup(allowed: str) -> _Lookup:
    roots = _roots(allowed)

    def value(path: str, key: str) -> str:
        _check_path(path, roots)
        try:
            values = read_properties_file(path).values
        except OSError as error:
            raise UnresolvedReference(f"can't read {path}: {error.strerror}") from error
        except MalformedProperties as error:
            raise UnresolvedReference(f"{path}: {error}") from error
        if key not in values:
            raise UnresolvedReference(f"{path} has no key {key}")
        return values[key]

    return value


def _directory_lookup(allowed: str) -> _Lookup:
    roots = _roots(allowed)

    def value(path: str, key: str) -> str:
        _check_path(path, roots)
        if not key or key != os.path.basename(key):
            raise UnresolvedReference(f"{key!r} is not the name of a file")
        file = os.path.join(path, key)
        _check_path(file, roots)
        try:
            with open(file, encoding="utf-8") as opened:
                return opened.read()
        except UnicodeDecodeError as error:
            raise UnresolvedReference(f"{file} is not text in UTF-8") from error
        except OSError as error:
            raise UnresolvedReference(f"can't read {file}: {error.strerror}") from error

    return value


def _environment_lookup(allowed: str) -> _Lookup:
    try:
        pattern = re.compile(allowed or ".*")
    except re.error as error:
        raise UnresolvedReference(f"is not a regular expression: {error}") from error
    return partial(_variable, pattern)


def _variable(pattern: re.Pattern[str], path: str, key: str) -> str:
    if path:
        raise UnresolvedReference("variables have no path; write ${provider:NAME}")
    if not pattern.fullmatch(key):
        raise UnresolvedReference(f"the variable {key} does not match allowlist.pattern")
    if key not in os.environ:
        raise UnresolvedReference(f"the environment has no variable {key}")
    return os.environ[key]


def _roots(allowed: str) -> tuple[str, ...]:
    """Return the folders below which a provider may read; without any it may read anywhere."""
    paths = [part.strip() for part in allowed.split(",") if part.strip()]
    for path in paths:
        if not os.path.isabs(path) or not os.path.exists(path):
            raise UnresolvedReference(f"{path} is not an existing absolute path")
    return tuple(os.path.realpath(path) for path in paths)


def _check_path(path: str, roots: tuple[str, ...]) -> None:
    """Resolve links first, so that no link leads out of the allowed folders."""
    if not path:
        raise UnresolvedReference("the reference has no path; write ${provider:path:key}")
    real = os.path.realpath(path)
    if roots and not any(real == root or real.startswith(root.rstrip(os.sep) + os.sep) for root in roots):
        raise UnresolvedReference(f"{path} is not below allowed.paths")
