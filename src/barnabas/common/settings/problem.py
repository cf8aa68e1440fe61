"""Unusable settings, with all that their author needs to correct them: what, where, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from barnabas.common.errors import Terminal

__all__ = ["InvalidSettings", "SettingProblem"]


class SettingProblem(NamedTuple):
    """One unusable setting. ``subject`` is the setting as its message names it; without one, ``what`` names it.

    No field contains a secret.
    """

    name: str
    what: str
    where: str = ""
    advice: str = ""
    subject: str = ""

    def __str__(self) -> str:
        where = f" ({self.where})" if self.where else ""
        advice = f" -> {self.advice}" if self.advice else ""
        if self.subject:
            return f"{self.subject}{where}: {self.what}{advice}"
        return f"{self.what}{where}{advice}"


class InvalidSettings(Terminal, Exception):
    """The process cannot start with these settings. Nothing was written."""

    def __init__(self, problems: Sequence[SettingProblem]) -> None:
        self.problems = list(problems)
        count = "1 setting" if len(self.problems) == 1 else f"{len(self.problems)} settings"
        super().__init__(f"{count} can't be used:\n" + "\n".join(f"  {problem}" for problem in self.problems))
