"""``response.http.headers.config``: headers added to every answer, ``[action] [name]:[value]`` separated by commas.

Actions: ``set`` and ``add``, and ``setDate`` and ``addDate``, whose value is a number of milliseconds from now. A rule
that contains a comma must be in double quotes.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from email.utils import formatdate

from starlette.datastructures import MutableHeaders

__all__ = ["HeaderRule", "UnusableHeaderRule", "apply_header_rules", "parse_header_rules"]

_ACTIONS = ("set", "add", "setDate", "addDate")
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


class UnusableHeaderRule(ValueError):
    """An invalid rule. The text says which rule and why."""


@dataclass(frozen=True, slots=True)
class HeaderRule:
    """``value`` is milliseconds from now for a date."""

    name: str
    value: str
    is_added: bool
    is_date: bool


def parse_header_rules(text: str) -> tuple[HeaderRule, ...]:
    """Parse the rules. Raise UnusableHeaderRule."""
    if not text.strip():
        return ()
    try:
        rules = next(csv.reader([text], skipinitialspace=True, strict=True))
    except csv.Error as error:
        raise UnusableHeaderRule(f"response.http.headers.config can't be read: {error}") from None
    return tuple(_rule(rule.strip()) for rule in rules)


def _rule(text: str) -> HeaderRule:
    action, _, header = text.partition(" ")
    if action not in _ACTIONS:
        raise UnusableHeaderRule(
            f"response.http.headers.config: Invalid header config action: '{action}'. "
            f"Expected one of [{', '.join(_ACTIONS)}]"
        )
    name, colon, value = (part.strip() for part in header.partition(":"))
    if not colon or not _TOKEN.fullmatch(name) or not value.isprintable() or not value.isascii():
        raise UnusableHeaderRule(
            f"response.http.headers.config: '{text}' is not of the form '[action] [header name]:[header value]'"
        )
    is_date = action.endswith("Date")
    if is_date and not re.fullmatch(r"-?[0-9]{1,15}", value):
        raise UnusableHeaderRule(f"response.http.headers.config: '{text}' needs a number of milliseconds as its value")
    return HeaderRule(name, value, action.startswith("add"), is_date)


def apply_header_rules(rules: tuple[HeaderRule, ...], headers: MutableHeaders, now_ms: int) -> None:
    for rule in rules:
        value = formatdate((now_ms + int(rule.value)) / 1000, usegmt=True) if rule.is_date else rule.value
        if rule.is_added:
            headers.append(rule.name, value)
        else:
            headers[rule.name] = value
