"""A setting that can't be used, said so that its author can mend it: name, value, where, what, what to do."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.common.broker_config import BROKER_CONFIG_DEF, broker_config_key
from barnabas.common.errors import Terminal

__all__ = ["Given", "InvalidSettings", "Problem"]

# Words in the name of an unknown setting that make its value one not to print.
_SECRET_WORDS = ("password", "secret", "jaas", "token", "credential", "key", "passphrase", "certificate", "cert.")


class Given:
    """The text of a setting and where it was found."""

    __slots__ = ("text", "where")

    def __init__(self, text: str, where: str) -> None:
        self.text = text
        self.where = where


class Problem:
    """One setting that can't be used."""

    __slots__ = ("advice", "name", "shown_value", "what", "where")

    def __init__(self, name: str, given: Given | None, what: str, advice: str = "") -> None:
        self.name = name
        self.what = what
        self.advice = advice
        self.where = given.where if given is not None else ""
        self.shown_value = None if given is None else _shown(name, given.text)

    def __str__(self) -> str:
        setting = self.name if self.shown_value is None else f"{self.name}={self.shown_value}"
        where = f" ({self.where})" if self.where else ""
        advice = f" -> {self.advice}" if self.advice else ""
        return f"{setting}{where}: {self.what}{advice}"


class InvalidSettings(Terminal, Exception):
    """The node can't start with these settings. Nothing was written."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = list(problems)
        count = "1 setting" if len(self.problems) == 1 else f"{len(self.problems)} settings"
        super().__init__(f"{count} can't be used:\n" + "\n".join(f"  {problem}" for problem in self.problems))


def _shown(name: str, text: str) -> str:
    key = broker_config_key(name)
    if key is not None:
        return "[hidden]" if key.sensitive else text
    # What nobody knows may be a secret; a known name with a mistake in it is not, unless it sounds like one.
    meant = BROKER_CONFIG_DEF.nearest_name(name)
    if meant is None or BROKER_CONFIG_DEF[meant].sensitive or any(word in name.lower() for word in _SECRET_WORDS):
        return "[hidden]"
    return text
