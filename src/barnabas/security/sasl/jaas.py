"""JAAS lines as Kafka reads them: ``<login module> <control flag> <key>=<value> ... ;``.

The lexer follows ``java.io.StreamTokenizer`` with Kafka's settings, because existing lines were written for it:

- a value in double or single quotes has Java's escapes (``\\n``, ``\\"``, octal); it ends at the line's end, too;
- words may contain letters, digits and ``-_$.``; a word that begins with a digit, a dot or a minus is a number, not a
  value: ``password=1234`` is refused, ``password="1234"`` is not;
- ``//``, ``/* */`` and, as in Java, a single ``/`` begin comments.

Messages are Kafka's with one exception: text that may be part of a value is not repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

__all__ = ["InvalidJaasConfig", "JaasEntry", "parse_jaas_config", "parse_jaas_entry"]

_CONTROL_FLAGS = ("REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_QUOTES = "\"'"


class InvalidJaasConfig(ValueError):
    """The text is not a JAAS configuration; the message has the reason and no value of the text."""


@dataclass(frozen=True, slots=True)
class JaasEntry:
    """One login module with its options."""

    login_module: str
    control_flag: str
    options: Mapping[str, str] = field(repr=False)


def parse_jaas_entry(text: str) -> JaasEntry:
    """Parse ``sasl.jaas.config``: exactly one entry. Raises InvalidJaasConfig."""
    entries = parse_jaas_config(text)
    if len(entries) != 1:
        raise InvalidJaasConfig(f"JAAS config property contains {len(entries)} login modules, should be 1 module")
    return entries[0]


def parse_jaas_config(text: str) -> list[JaasEntry]:
    """Every entry of the text, at least one. Raises InvalidJaasConfig."""
    tokens = _Tokens(text)
    entries = []
    while not tokens.at_end:
        entries.append(_entry(tokens))
    if not entries:
        raise InvalidJaasConfig("Login module not specified in JAAS config")
    return entries


def _entry(tokens: _Tokens) -> JaasEntry:
    module = tokens.take().word
    if module is None:
        raise InvalidJaasConfig("Login module not specified in JAAS config")
    if tokens.at_end:
        raise InvalidJaasConfig("Login module control flag not specified in JAAS config")
    flag = tokens.take().word
    if flag is None:
        raise InvalidJaasConfig("Login module control flag is not available in the JAAS config")
    if flag.upper() not in _CONTROL_FLAGS:
        raise InvalidJaasConfig(
            f"Invalid login module control flag in JAAS config (one of {', '.join(_CONTROL_FLAGS)})"
        )
    return JaasEntry(module, flag.upper(), _options(tokens))


def _options(tokens: _Tokens) -> dict[str, str]:
    options: dict[str, str] = {}
    while not tokens.at_end:
        token = tokens.take()
        if token.symbol == ";":
            return options
        if token.word is None or tokens.take().symbol != "=":
            # It may be a piece of a value that lacks its quotes: neither it nor a key behind it is shown.
            raise InvalidJaasConfig("An option of the JAAS config is not of the form key=value (quote the value)")
        value = tokens.take().word
        if value is None:
            raise InvalidJaasConfig("Value not specified for a key in JAAS config (quote it)")
        options[token.word] = value
    raise InvalidJaasConfig("JAAS config entry not terminated by semi-colon")


@dataclass(frozen=True, slots=True)
class _Token:
    """A word (quoted or not), or one other character; a number is neither."""

    word: str | None = None
    symbol: str = ""


class _Tokens:
    """The tokens of a text, with a check for more tokens."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._next = next(self._tokens, None)

    @property
    def at_end(self) -> bool:
        return self._next is None

    def take(self) -> _Token:
        """The next token; one without a word behind the last."""
        token = self._next
        if token is None:
            return _Token()
        self._next = next(self._tokens, None)
        return token


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while position < len(text):
        character = text[position]
        if character <= " ":
            position += 1
        elif character == "/":
            position = _after_comment(text, position)
        elif character in _QUOTES:
            word, position = _quoted(text, position)
            yield _Token(word)
        elif character.isascii() and (character.isdigit() or character in "-."):
            end = _after_number(text, position)
            yield _Token() if end > position else _Token(symbol=character)
            position = max(end, position + 1)
        elif _is_word_start(character):
            end = position + 1
            while end < len(text) and _is_word_part(text[end]):
                end += 1
            yield _Token(text[position:end])
            position = end
        else:
            yield _Token(symbol=character)
            position += 1


def _is_word_start(character: str) -> bool:
    return character in "_$" or (character.isascii() and character.isalpha()) or character >= "\xa0"


def _is_word_part(character: str) -> bool:
    return _is_word_start(character) or character in "-." or (character.isascii() and character.isdigit())


def _after_comment(text: str, position: int) -> int:
    if text.startswith("/*", position):
        end = text.find("*/", position + 2)
        return len(text) if end < 0 else end + 2
    while position < len(text) and text[position] not in "\r\n":
        position += 1
    return position


def _after_number(text: str, position: int) -> int:
    """Return the position after the number that begins here; ``position`` itself for a minus without a number."""
    end = position
    if text[end] == "-":
        following = text[end + 1 : end + 2]
        if not (following == "." or (following.isascii() and following.isdigit())):
            return position
        end += 1
    dots = 0
    while end < len(text) and ((text[end].isascii() and text[end].isdigit()) or (text[end] == "." and not dots)):
        dots += text[end] == "."
        end += 1
    return end


def _quoted(text: str, position: int) -> tuple[str, int]:
    quote, end, characters = text[position], position + 1, []
    while end < len(text) and text[end] not in ("\n", "\r", quote):
        character = text[end]
        end += 1
        if character == "\\" and end < len(text):
            character, end = _escaped(text, end)
        characters.append(character)
    return "".join(characters), end + (text[end : end + 1] == quote)


def _escaped(text: str, position: int) -> tuple[str, int]:
    """The character behind a backslash, and the position behind it; octal may have three digits up to 377."""
    character = text[position]
    if character in "01234567":
        end = position + 1
        longest = position + (3 if character <= "3" else 2)
        while end < min(longest, len(text)) and text[end] in "01234567":
            end += 1
        return chr(int(text[position:end], 8)), end
    return _ESCAPES.get(character, character), position + 1
