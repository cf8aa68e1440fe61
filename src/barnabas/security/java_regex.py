"""Runs Java's regular expressions with Python's.

The two dialects are similar. Where they differ, an expression is rewritten (line ends, named groups, quoted text, the
classes of ``\\p{}``) or refused with the reason: an expression with a silently different meaning could map a client to
a wrong principal. Digits, words and letter case are those of ASCII, as in Java without flags. Only ``\\b`` and
``\\B`` changed their meaning between versions of Java, for letters beyond ASCII: see ``has_boundary``.
"""

from __future__ import annotations

import re

__all__ = ["UnsupportedExpression", "compile_java", "expand", "has_boundary", "replace_all"]

_LINE_ENDS = r"\n\r\x85\u2028\u2029"
_ANY = f"[^{_LINE_ENDS}]"
_AT_END = r"(?:(?=(?:\r\n|[\r\x85\u2028\u2029])?\Z)|(?<!\r)(?=\n\Z))"
_HORIZONTAL = r" \t\xA0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000"
_VERTICAL = r"\n\x0B\f\r\x85\u2028\u2029"
_POSIX = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": r" \t\n\x0B\f\r",
}
_POSSESSIVE = re.compile(r"(?:[*+?]|\{\d+(?:,\d*)?\})\+")
_NO_CAPTURES_IN = ("(?!", "(?<!", "(?>")
_REPETITION = re.compile(r"\{\d{1,9}(?:,\d{0,9})?\}")
_NAMED_GROUP = re.compile(r"<([a-zA-Z][a-zA-Z0-9]*)>")
_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(-[a-zA-Z]*)?([:)])")
_HEXADECIMAL = re.compile(r"\{([0-9a-fA-F]{1,6})\}|([0-9a-fA-F]{2})")


class UnsupportedExpression(ValueError):
    """The expression is invalid, or is a Java expression that can't be run here; the text names the part."""


def compile_java(expression: str) -> re.Pattern[str]:
    """Raises UnsupportedExpression."""
    converter = _Converter(expression)
    converted = converter.run()
    try:
        return re.compile(converted, re.ASCII | converter.flags)
    except (re.error, RecursionError, OverflowError) as error:
        raise UnsupportedExpression(f"'{expression}': {error}") from None


def has_boundary(expression: str) -> bool:
    """Whether the expression has a word boundary: then its result is certain for ASCII only."""
    converter = _Converter(expression)
    converter.run()
    return converter.has_boundary


def replace_all(pattern: re.Pattern[str], replacement: str, text: str) -> str:
    """Return the result of ``String.replaceAll``. Raises ValueError for a replacement that Java refuses too.

    After an empty match Java continues one character further; Python would first try a longer match at the same place.
    """
    parts: list[str] = []
    copied = position = 0
    while position <= len(text) and (match := pattern.search(text, position)) is not None:
        parts += (text[copied : match.start()], expand(match, replacement))
        copied = match.end()
        position = copied + (match.start() == copied)
    parts.append(text[copied:])
    return "".join(parts)


def expand(match: re.Match[str], replacement: str) -> str:
    """Expand ``$1`` (as many digits as form an existing group) and ``${name}``; a backslash quotes a character."""
    parts: list[str] = []
    position = 0
    while position < len(replacement):
        char = replacement[position]
        position += 1
        if char == "\\":
            if position == len(replacement):
                raise ValueError("the replacement ends with a single backslash")
            parts.append(replacement[position])
            position += 1
        elif char == "$":
            group, position = _group_reference(match, replacement, position)
            parts.append(match.group(group) or "")
        else:
            parts.append(char)
    return "".join(parts)


def _group_reference(match: re.Match[str], replacement: str, position: int) -> tuple[int | str, int]:
    groups = match.re.groups
    rest = replacement[position:]
    if rest.startswith("{"):
        name, brace, _ = rest[1:].partition("}")
        if not brace or name not in match.re.groupindex:
            raise ValueError(f"the replacement names an unknown group: ${rest}")
        return name, position + len(name) + 2
    if not rest or not "0" <= rest[0] <= "9":
        raise ValueError(f"the replacement has a $ without a group: ${rest}")
    number = int(rest[0])
    if number > groups:
        raise ValueError(f"the replacement names group {number}, but the expression has {groups}")
    position += 1
    while position < len(replacement) and "0" <= replacement[position] <= "9":
        longer = number * 10 + int(replacement[position])
        if longer > groups:
            break
        number = longer
        position += 1
    return number, position


class _Converter:
    """One pass over an expression; ``flags`` are those that it sets for itself as a whole."""

    def __init__(self, expression: str) -> None:
        self._text = expression
        self._position = 0
        self._out: list[str] = []
        self.flags = re.RegexFlag(0)
        self.has_boundary = False
        self._open: list[tuple[str, bool]] = []

    def run(self) -> str:
        self._leading_flags()
        while self._position < len(self._text):
            char = self._text[self._position]
            if char == "\\":
                self._escape()
            elif char == "[":
                self._class()
            elif char == "(":
                self._group()
            elif char == ")":
                self._end_group()
            elif char == "{":
                self._repetition()
            else:
                self._out.append(_AT_END if char == "$" else self._any() if char == "." else char)
                self._position += 1
        return "".join(self._out)

    def _any(self) -> str:
        return "." if self.flags & re.DOTALL else _ANY

    def _refuse(self, what: str) -> UnsupportedExpression:
        return UnsupportedExpression(f"'{self._text}': {what}")

    def _leading_flags(self) -> None:
        match = _FLAGS.match(self._text)
        if match is None or match[3] != ")" or match[2]:
            return
        for flag in match[1]:
            if flag not in "is":
                raise self._refuse(f"the flag {flag} is not supported; i and s are, at the start")
            self.flags |= re.IGNORECASE if flag == "i" else re.DOTALL
        self._position = match.end()

    def _end_group(self) -> None:
        """Refuse groups whose capture Java keeps after a failed or abandoned match; Python doesn't keep it."""
        self._out.append(")")
        self._position += 1
        if not self._open:
            return  # The compiler reports the error.
        opening, captures = self._open.pop()
        is_possessive = _POSSESSIVE.match(self._text, self._position) is not None
        if captures and (is_possessive or opening in _NO_CAPTURES_IN):
            raise self._refuse("a group with a number inside of (?!, (?<!, (?> or *+ is not supported; write (?:...)")
        if captures and self._open:
            self._open[-1] = (self._open[-1][0], True)

    def _group(self) -> None:
        rest = self._text[self._position :]
        named = _NAMED_GROUP.match(rest, 2) if rest.startswith("(?<") else None
        if named is not None:
            self._out.append(f"(?P<{named[1]}>")
            self._open.append(("(", True))
            self._position += named.end()
            return
        flags = _FLAGS.match(rest)
        if flags is not None and flags[0] != "(?:":
            if flags[3] == ")" or set(flags[1]) != {"i"} or flags[2]:
                raise self._refuse(
                    f"{flags[0]} is not supported here; (?i) and (?s) are at the start, (?i:...) anywhere"
                )
            self._out.append("(?i:")
            self._open.append(("(?i:", False))
            self._position += flags.end()
            return
        for opening in ("(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"):
            if rest.startswith(opening):
                self._out.append(opening)
                self._open.append((opening, False))
                self._position += len(opening)
                return
        if rest.startswith("(?"):
            raise self._refuse(f"{rest[:4]} does not open a known kind of group")
        self._out.append("(")
        self._open.append(("(", True))
        self._position += 1

    def _repetition(self) -> None:
        match = _REPETITION.match(self._text, self._position)
        if match is None:
            raise self._refuse("a { that does not begin a repetition has to be written \\{")
        self._out.append(match[0])
        self._position = match.end()

    def _escape(self) -> None:
        if self._position + 1 == len(self._text):
            raise self._refuse("it ends with a single backslash")
        char = self._text[self._position + 1]
        self._position += 2
        if char == "Q":
            self._out.append(re.escape(self._quoted()))
        elif char == "k":
            named = _NAMED_GROUP.match(self._text, self._position)
            if named is None:
                raise self._refuse("\\k without the name of a group")
            self._out.append(f"(?P={named[1]})")
            self._position = named.end()
        elif char in "123456789":
            if self._text[self._position : self._position + 1].isdigit():
                raise self._refuse(f"\\{char} and a digit after it mean different things; name the group")
            self._out.append(f"(?:\\{char})")
        elif char in "hvHV":
            body = _HORIZONTAL if char in "hH" else _VERTICAL
            self._out.append(f"[^{body}]" if char in "HV" else f"[{body}]")
        elif char in "pP":
            self._out.append(f"[^{self._property()}]" if char == "P" else f"[{self._property()}]")
        elif char in "zZAbB":
            self._out.append({"z": r"\Z", "Z": _AT_END, "B": r"(?!\b)"}.get(char, f"\\{char}"))
            self.has_boundary |= char in "bB"
        else:
            self._out.append(self._character(char))

    def _quoted(self) -> str:
        text, _, _ = self._text[self._position :].partition("\\E")
        self._position = min(self._position + len(text) + 2, len(self._text))
        return text

    def _property(self) -> str:
        rest = self._text[self._position :]
        name = rest[1 : rest.find("}")] if rest.startswith("{") and "}" in rest else ""
        if name not in _POSIX:
            known = ", ".join(sorted(_POSIX))
            raise self._refuse(f"\\p{{{name}}} is not supported; the supported names are {known}")
        self._position += len(name) + 2
        return _POSIX[name]

    def _character(self, char: str) -> str:
        """The meaning of a backslash and ``char``, inside a class as outside."""
        if char in "dDsSwWtnrfa":
            return f"\\{char}"
        if char == "e":
            return r"\x1b"
        if char == "u" and re.match(r"[0-9a-fA-F]{4}", self._text[self._position :]):
            self._position += 4
            return f"\\u{self._text[self._position - 4 : self._position]}"
        if char == "x":
            match = _HEXADECIMAL.match(self._text, self._position)
            if match is not None and int(match[1] or match[2], 16) < 0x110000:
                self._position = match.end()
                return re.escape(chr(int(match[1] or match[2], 16)))
        if char.isascii() and char.isalnum():
            raise self._refuse(f"\\{char} is not supported")
        return re.escape(char)

    def _class(self) -> None:
        start = self._position
        self._position += 1
        body = ["["]
        if self._text.startswith("^", self._position):
            body.append("^")
            self._position += 1
        empty = True
        while True:
            if self._position >= len(self._text):
                raise self._refuse("a [ is not closed")
            char = self._text[self._position]
            if char == "]" and not empty:
                break
            if char in "[]" or self._text.startswith("&&", self._position):
                raise self._refuse(f"classes inside of classes are not supported: {self._text[start:]}")
            self._position += 1
            body.append(self._escaped_in_class() if char == "\\" else char if char in "-^" else re.escape(char))
            empty = False
        self._position += 1
        self._out.append("".join(body) + "]")

    def _escaped_in_class(self) -> str:
        if self._position == len(self._text):
            raise self._refuse("it ends with a single backslash")
        char = self._text[self._position]
        self._position += 1
        if char == "p":
            return self._property()
        if char in "hv":
            return _HORIZONTAL if char == "h" else _VERTICAL
        if char in "QPHV":
            raise self._refuse(f"\\{char} inside of a class is not supported")
        return self._character(char)
