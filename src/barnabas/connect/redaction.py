"""Replace secrets in texts: traces, plans and log lines.

A password such as ``kafka`` is also a part of ``org.apache.kafka.common.errors.TimeoutException``. Names of classes,
and the source files of a Python trace, are not secrets and explain the error, so a secret inside one of them stays. A
name that is a secret as a whole is hidden.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["names_a_class", "without"]

_HIDDEN = "[hidden]"
_ROOTS = "barnabas|com|io|java|javax|jdk|net|org|py4j|pyspark|scala|sun"
_CODE = re.compile(
    rf"(?<![\w.@:/-])(?:{_ROOTS})(?:\.[A-Za-z_$][\w$]*)+(?::[A-Z]\w*)?(?![\w$@-])"  # org.x.Y, and module:Class
    r"|(?<!\w)[A-Z]\w*(?:Exception|Error)(?!\w)"
    r'|File "[^"\n]+\.py", line \d+(?!\w)'
)
_WORD = re.compile(r"\w+")
_CLASS_SETTING = re.compile(r"(^|\.)(class|converter|type)$")


def names_a_class(setting: str) -> bool:
    """Return whether the value of a setting is the name of a class, so that it is not a secret."""
    return _CLASS_SETTING.search(setting) is not None


def without(text: str, secrets: Iterable[str]) -> str:
    """Return the text with ``[hidden]`` for each secret. Of secrets inside others, give the longest first."""
    found = [secret for secret in secrets if secret in text]
    words = [secret for secret in found if _WORD.fullmatch(secret)]
    text = _replaced(text, [secret for secret in found if secret not in words])
    return _replaced_outside_of_code(text, words) if words else text


def _replaced(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, _HIDDEN)
    return text


def _replaced_outside_of_code(text: str, words: list[str]) -> str:
    parts: list[str] = []
    begin = 0
    for code in _CODE.finditer(text):
        parts += [_replaced(text[begin : code.start()], words), _HIDDEN if code[0] in words else code[0]]
        begin = code.end()
    return "".join([*parts, _replaced(text[begin:], words)])
