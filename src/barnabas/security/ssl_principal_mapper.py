"""Maps the name in a certificate to the name of a principal: ``ssl.principal.mapping.rules``.

A rule is ``DEFAULT`` (the name itself) or ``RULE:expression/replacement/``, followed by an L or U for lower or upper
case. The first rule whose expression matches the whole name decides; without one the connection is refused. Expressions
and replacements are Java's, as Kafka applies them: where a rule matches, *every* match in the name is replaced.

The owner of a certificate chooses its name, and thereby the time that such an expression takes. It may be practically
endless, also with the rules in Kafka's documentation. So the rules may take a tenth of a second for a name.
"""

from __future__ import annotations

import hashlib
import re

from barnabas.security.cpu_limit import TooMuchWork, within_cpu_time
from barnabas.security.java_regex import compile_java, has_boundary, replace_all

__all__ = ["InvalidMappingRule", "NoMatchingRule", "SslPrincipalMapper", "TooLongToMatch"]

_CPU_S_MAX = 0.1
_REMEMBERED_MAX = 256

_BLANK = " \t\n\x0b\f\r"
_ANY = r"[^\n\r\x85\u2028\u2029]"
_PATTERN = rf"(DEFAULT)|RULE:((\\{_ANY}|[^\\/])*)/((\\{_ANY}|[^\\/])*)/([LU]?){_ANY}*?|({_ANY}*?)"
_SPLITTER = re.compile(rf"[{_BLANK}]*({_PATTERN})[{_BLANK}]*(,[{_BLANK}]*|\Z)")
_PARSER = re.compile(_PATTERN)
_BACK_REFERENCE = re.compile(r"\$([0-9]+)")


class InvalidMappingRule(ValueError):
    """The rules can't be used; the text names the rule."""


class NoMatchingRule(ValueError):
    """No rule matches this name."""


class TooLongToMatch(ValueError):
    """The rules exceeded the time limit for this name."""


class _Rule:
    __slots__ = ("case", "is_for_ascii", "pattern", "replacement", "source")

    def __init__(self, source: str, replacement: str, case: str) -> None:
        self.source = source
        self.case = case
        self.pattern = compile_java(source)
        self.is_for_ascii = has_boundary(source)
        self.replacement = _with_literal_references(replacement, self.pattern.groups)

    def apply(self, name: str) -> str | None:
        if self.is_for_ascii and not name.isascii():
            raise ValueError(
                f"the rule {self.source} can't be applied to {name}: "
                "\\b and \\B mean different things there in different versions of Java"
            )
        if self.pattern.fullmatch(name) is None:
            return None
        mapped = replace_all(self.pattern, self.replacement, name)
        return mapped.lower() if self.case == "L" else mapped.upper() if self.case == "U" else mapped


class SslPrincipalMapper:
    """Parse the rules once. Raises InvalidMappingRule."""

    def __init__(self, rules: str | None = "DEFAULT") -> None:
        self._rules: list[_Rule | None] = []
        self._texts: list[str] = []
        self._too_long: dict[bytes, None] = {}
        for text in _split("DEFAULT" if rules is None else rules):
            self._add(text)

    def _add(self, text: str) -> None:
        match = _PARSER.match(text)
        if match is None or match.end() < len(text):
            unmatched = text[0 if match is None else match.end() :]
            raise InvalidMappingRule(f"Invalid rule: `{text}`, unmatched substring: `{unmatched}`")
        if match[1] is not None:
            self._rules.append(None)
            self._texts.append("DEFAULT")
        elif match[2] is not None:
            try:
                self._rules.append(_Rule(match[2], match[4], match[6]))
            except ValueError as error:
                raise InvalidMappingRule(f"Invalid rule: `{text}`: {error}") from None
            self._texts.append(f"RULE:{match[2]}/{match[4]}" + (f"/{match[6]}" if match[6] else ""))

    def name_of(self, distinguished_name: str) -> str:
        """Map a name. Raises NoMatchingRule or TooLongToMatch, or ValueError when a replacement can't be applied."""
        if self._rules == [None]:
            return distinguished_name
        key = hashlib.sha256(distinguished_name.encode("utf-8", "surrogatepass")).digest()
        if key not in self._too_long:
            try:
                return within_cpu_time(_CPU_S_MAX, lambda: self._map(distinguished_name))
            except TooMuchWork:
                while len(self._too_long) >= _REMEMBERED_MAX:
                    del self._too_long[next(iter(self._too_long))]
                self._too_long[key] = None
        raise TooLongToMatch(
            f"ssl.principal.mapping.rules took more than {_CPU_S_MAX:g} s with the name {distinguished_name[:100]}; "
            "write them so that they can match a name in few ways: [^,]* instead of .*, no repetition inside of another"
        )

    def _map(self, distinguished_name: str) -> str:
        for rule in self._rules:
            mapped = distinguished_name if rule is None else rule.apply(distinguished_name)
            if mapped is not None:
                return mapped
        raise NoMatchingRule(f"No rules apply to {distinguished_name}, rules [{', '.join(self._texts)}]")

    def __str__(self) -> str:
        return f"SslPrincipalMapper(rules = [{', '.join(self._texts)}])"


def _split(rules: str) -> list[str]:
    trimmed = rules.strip("".join(map(chr, range(33))))
    return [match[1] for match in _SPLITTER.finditer(trimmed)]


def _with_literal_references(replacement: str, groups: int) -> str:
    """Quote references to unknown groups, in an expression that has groups.

    Their positions are those in the original text, even after a first inserted backslash has moved the rest: Kafka does
    the same.
    """
    if not groups:
        return replacement
    value = replacement
    for match in _BACK_REFERENCE.finditer(replacement):
        number = int(match[1])
        if match[1].startswith("0"):
            continue
        while number > groups and number >= 10:
            number //= 10
        if number > groups:
            start = match.start()
            value = f"{value[:start]}\\{value[start:]}"
    return value
