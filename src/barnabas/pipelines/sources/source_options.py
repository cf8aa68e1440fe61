"""Parse the options of a data source. Spark passes them as texts, and their names without regard to case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from barnabas.pipelines.sources.errors import InvalidOption

__all__ = ["SourceOptions"]


class SourceOptions:
    """The options of one read. The methods raise InvalidOption with the name, the value and what is allowed."""

    def __init__(self, source: str, options: Mapping[str, str], *, known: Sequence[str], prefixes: Sequence[str] = ()):
        """``prefixes``: options that begin with one of them are kept as they are (``with_prefix``)."""
        self._source = source
        self._values = {name.casefold(): value for name, value in options.items()}
        names = {name.casefold(): name for name in known}
        for name in self._values:
            if name not in names and not any(name.startswith(prefix.casefold()) for prefix in prefixes):
                close = get_close_matches(name, list(names), n=1, cutoff=0.6)
                hint = f" (did you mean {names[close[0]]}?)" if close else ""
                raise InvalidOption(f"{source} has no option {name}{hint}; its options are {', '.join(known)}")

    def text(self, name: str) -> str | None:
        value = self._values.get(name.casefold(), "").strip()
        return value or None

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """Return one of ``choices``; the first is the default."""
        value = self.text(name)
        if value is None:
            return choices[0]
        if value.casefold() not in choices:
            raise InvalidOption(f"{self._source}: option {name} is {value!r}; it must be one of {', '.join(choices)}")
        return value.casefold()

    def flag(self, name: str, *, default: bool) -> bool:
        return self.choice(name, ("true", "false") if default else ("false", "true")) == "true"

    def number(self, name: str, *, default: int, minimum: int) -> int:
        value = self.text(name)
        if value is None:
            return default
        if not (value.isascii() and value.isdigit()) or int(value) < minimum:
            raise InvalidOption(f"{self._source}: option {name} is {value!r}; it must be a number from {minimum}")
        return int(value)

    def names(self, name: str) -> tuple[str, ...]:
        """Return the parts of a list that is separated by commas."""
        return tuple(part for text in (self.text(name) or "").split(",") if (part := text.strip()))

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """Return the options that begin with the prefix, without it, in lower case."""
        start = prefix.casefold()
        return {name[len(start) :]: value for name, value in self._values.items() if name.startswith(start)}
