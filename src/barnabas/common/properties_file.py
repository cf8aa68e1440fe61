"""Java's .properties format, as ``java.util.Properties`` reads it.

Surprising rules:

- A key ends at the first ``=``, ``:`` or blank that is not escaped.
- A backslash at the end of a line continues it with the next line, whose leading blanks are dropped and which is never
  a comment.
- A backslash before any other character than ``t n r f u`` is dropped, so Windows paths need two.
- Bytes are ISO-8859-1; all other characters are written as \\uXXXX.
- If a key occurs twice, the last value counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

__all__ = ["MalformedProperties", "Properties", "format_properties", "parse_properties", "read_properties_file"]

_BLANKS = " \t\f"
_SEPARATORS = "=:"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")


class MalformedProperties(ValueError):
    """A ``\\u`` that four hexadecimal digits don't follow."""


class Properties(NamedTuple):
    """The properties of a file, and warnings for its author."""

    values: dict[str, str]
    lines: dict[str, int]
    """The number of the last line with each key, from 1."""
    warnings: list[str]


def parse_properties(text: str) -> Properties:
    """Read the whole format; raises MalformedProperties with the line."""
    values: dict[str, str] = {}
    lines: dict[str, int] = {}
    warnings: list[str] = []
    for number, line in _logical_lines(text):
        key_end, value_start = _split(line)
        try:
            key, value = _unescape(line[:key_end]), _unescape(line[value_start:])
        except MalformedProperties as error:
            raise MalformedProperties(f"line {number}: {error}") from None
        if key in values:
            warnings.append(f"line {number}: {key} occurs again (first in line {lines[key]}); the last value counts")
        values[key] = value
        lines[key] = number
    return Properties(values, lines, warnings)


def read_properties_file(path: str) -> Properties:
    """Read a file; raises OSError or MalformedProperties."""
    with open(path, "rb") as file:
        raw = file.read()
    properties = parse_properties(raw.decode("iso-8859-1"))
    for key, value in properties.values.items():
        if not (key + value).isascii() and not raw.isascii():
            properties.warnings.append(
                f"line {properties.lines[key]}: {key} has a character beyond ASCII; "
                "the file is read as ISO-8859-1, so write others as \\uXXXX"
            )
    return properties


def format_properties(values: Mapping[str, str]) -> str:
    """Text that reads back as ``values``, a line each, in their order."""
    return "".join(f"{_escape(key, is_key=True)}={_escape(value, is_key=False)}\n" for key, value in values.items())


def _natural_lines(text: str) -> list[str]:
    # str.splitlines would also split at form feeds and Unicode separators.
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each line with its number, without comments and blank lines, continued lines joined.

    A line that is only a backslash has not begun a property yet: a comment may follow it. At the end of the file it is
    an empty key, unless the line ends with CR LF.
    """
    first = 0
    pending: str | None = None
    for number, natural in enumerate(_natural_lines(text), start=1):
        line = natural.lstrip(_BLANKS)
        if pending:
            pending += line
        elif not line or line[0] in "#!":
            pending = None
            continue
        else:
            first, pending = number, line
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending = pending[:-1]
            continue
        yield first, pending
        pending = None
    if pending or (pending is not None and not text.endswith("\r\n")):
        yield first, pending


def _split(line: str) -> tuple[int, int]:
    """Return the end of the key and the start of the value."""
    end = 0
    while end < len(line) and line[end] not in _SEPARATORS and line[end] not in _BLANKS:
        end += 2 if line[end] == "\\" else 1
    start = end = min(end, len(line))
    seen_separator = False
    while start < len(line):
        if line[start] in _SEPARATORS and not seen_separator:
            seen_separator = True
        elif line[start] not in _BLANKS:
            break
        start += 1
    return end, start


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    at = 0
    while at < len(text):
        if text[at] != "\\":
            out.append(text[at])
            at += 1
            continue
        escaped = text[at + 1 : at + 2]
        if escaped == "u":
            digits = text[at + 2 : at + 6]
            if len(digits) != 4 or not _HEX_DIGITS.issuperset(digits):
                raise MalformedProperties("\\u must be followed by four hexadecimal digits")
            out.append(chr(int(digits, 16)))
            at += 6
        else:
            out.append(_ESCAPES.get(escaped, escaped))
            at += 2
    # Two \u escapes may be the halves of one character beyond U+FFFF.
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _escape(text: str, *, is_key: bool) -> str:
    out: list[str] = []
    for at, c in enumerate(text):
        if c in "\\" or c in "\t\n\r\f":
            out.append("\\" + {"\t": "t", "\n": "n", "\r": "r", "\f": "f"}.get(c, c))
        elif c in "=:#!" or (c == " " and (is_key or at == 0)):
            out.append("\\" + c)
        elif " " <= c <= "~":
            out.append(c)
        else:
            units = c.encode("utf-16-be", "surrogatepass").hex().upper()
            out.extend("\\u" + units[i : i + 4] for i in range(0, len(units), 4))
    return "".join(out)
