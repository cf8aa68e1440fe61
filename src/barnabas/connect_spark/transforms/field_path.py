"""Paths into nested structs, as ``field.syntax.version=V2`` writes them (KIP-821)."""

from __future__ import annotations

from barnabas.common.config_value import ConfigException

__all__ = ["path_of"]


def path_of(setting: str, text: str) -> tuple[str, ...]:
    """Return the steps of a path: separated by dots, with backticks around a name that has dots (KIP-821)."""
    steps: list[str] = []
    rest = text
    while True:
        if rest.startswith("`"):
            end = _closing(rest)
            if end < 0:
                raise ConfigException(
                    setting, text, "a ` is not closed: a dot or the end of the path must follow the closing one"
                )
            steps.append(rest[1:end].replace("\\`", "`"))
            rest = rest[end + 1 :]
            if not rest:
                return tuple(steps)
            rest = rest[1:]
        else:
            step, dot, rest = rest.partition(".")
            steps.append(step)
            if not dot:
                return tuple(steps)


def _closing(text: str) -> int:
    at = 1
    while (at := text.find("`", at)) >= 0:
        if text[at - 1] != "\\" and text[at + 1 : at + 2] in ("", "."):
            return at
        at += 1
    return -1
