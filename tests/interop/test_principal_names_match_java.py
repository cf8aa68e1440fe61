"""Certificate names and the principals that mapping rules derive from them, compared with Java and Kafka on generated
cases."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from barnabas.security.distinguished_name import format_name
from barnabas.security.ssl_principal_mapper import InvalidMappingRule, SslPrincipalMapper
from tests.peers.java import run_source

pytestmark = pytest.mark.interop

OIDS = (
    "2.5.4.3", "2.5.4.6", "2.5.4.7", "2.5.4.8", "2.5.4.9", "2.5.4.10", "2.5.4.11", "2.5.4.5", "2.5.4.12", "2.5.4.4",
    "0.9.2342.19200300.100.1.1", "0.9.2342.19200300.100.1.25", "1.2.840.113549.1.9.1", "1.3.6.1.4.1.99999.7",
)  # fmt: skip
UTF8, PRINTABLE, T61, IA5, GENERAL, BMP = 0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E
TEXTS = (
    "alice", "a,b", 'a"b', " leading", "trailing ", "  both  ", "#hash", "a#b", "a+b=c", "back\\slash", "<x>;y", "\r",
    "\ra ", "", " ", "   ", "\0", "a\0b", "dév", "日本", "😀x", "*", "a:b", "tab\there", "new\nline", "ＡＢ", "Straße",
    ", ", "\\ ", "x" * 300, "a b  c", "'", "/", "?", "@example.com", "\u2028", "\u00a0nbsp\u00a0", "\x7f", "!&$%",
)  # fmt: skip
RULES = (
    "DEFAULT",
    "RULE:^CN=(.*?),.*$/$1/,DEFAULT",
    "RULE:^CN=(.*?),OU=(.*?),O=(.*)$/$1@$2.$3/L,RULE:^CN=([^,]*).*$/$1/U,DEFAULT",
    "RULE:^.*CN=([a-zA-Z0-9. ]*).*$/$1/U,RULE:.*/other/",
    "RULE:^(\\w+)=(\\p{Alpha}+).*/$2:$1/,DEFAULT",
    "RULE:(?i)^cn=(?<who>[^,+]+).*$/${who}/,DEFAULT",
    "RULE:.*?=(.)/$1$12$5/,DEFAULT",
    "RULE:^CN=(\\S+)$/\\$$1\\\\/,DEFAULT",
    "RULE:(CN|OU)=([^,]*)(,.*)?/$0-$1-$2-$4-$5/,DEFAULT",
    "RULE:[^\\d\\s]*/x/,DEFAULT",
    "RULE:(?s).*/all/",
    "RULE:^.{1,40}$/short/,RULE:\\Q\\Ex.*/q/,DEFAULT",
    "RULE:^CN=(a|b|)*.*$/[$1]/L,DEFAULT",
    "RULE:^C\\x4e=([\\p{Print}]*)$/p-$1/,DEFAULT",
    "RULE:^CN=(.+)\\z/$1$x/,DEFAULT",
)

ATOMS = (
    "a", "b", "C", "N", "=", ",", ".", " ", "é", "日", "\\d", "\\w", "\\s", "\\D", "\\W", "\\S", "\\b", "\\B", "^", "$",
    "\\z", "\\Z", "\\A", "[a-c]", "[^,]", "[\\w.]", "[\\]x]", "[a\\-z]", "[\\d\\s]", "[-a]", "[a-]", "\\p{Alpha}",
    "\\P{Digit}", "[\\p{Upper}é]", "\\.", "\\\\", "\\$", "\\Qa.\\E", "\\x41", "\\u00e9", "\\t", "\\n", "\\r", "\\h",
    "\\v", "\\e", "[$^]", "[.]", "[ -~]", "#", "-", "}", "]", "&", "~", "\"", "<", ">", "@", ":", "\\,", "\\-", "\\#",
)  # fmt: skip
REPETITIONS = (
    "", "", "", "", "*", "+", "?", "*?", "+?", "??", "{1,3}", "{2}", "{0,}", "*+", "++", "?+", "{1,2}?", "{1}+",
)  # fmt: skip
PIECES = (
    "a", "b", "aa", "CN=a,b", "CN=abc", "a b", "é", "É", "日", "1", "a1b2", "", "\n", "a\n", "a\r\n", "a\u2028", "\t",
    "CN=", "$", "^", "a.", "A", "Aa", "x]", "#", "a-b", "\x85", "\x0b", "_", "ſ", "\u212a", "ß",
)  # fmt: skip


def test_names_of_certificates(tmp_path: Path) -> None:
    generator = random.Random(20261121)
    names = [_name(generator) for _ in range(3000)]
    answers = _ask(tmp_path, [f"name {name.hex()}" for name in names])
    wrong = []
    for name, answer in zip(names, answers, strict=True):
        ours = format_name(name)
        if ours.encode().hex() != answer:
            wrong.append((name.hex(), ours, _shown(answer)))
    assert not wrong, f"{len(wrong)} of {len(names)} differ: {wrong[:5]}"


def test_mapped_names(tmp_path: Path) -> None:
    generator = random.Random(20261122)
    names = [format_name(_name(generator)) for _ in range(120)]
    names += ["", "CN=alice", "CN=alice,OU=ops,O=acme", "cn=bob,dc=x", "CN=a\n", "CN=a\r\n", "CN=Dörte,OU=É"]
    cases = [(rules, name) for rules in RULES for name in names]
    answers = _ask(tmp_path, [f"map {rules.encode().hex()} {name.encode().hex()}" for rules, name in cases])
    wrong = []
    for (rules, name), answer in zip(cases, answers, strict=True):
        try:
            ours = SslPrincipalMapper(rules).name_of(name).encode().hex()
        except ValueError:
            ours = "!"
        if ours != (answer if not answer.startswith("!") else "!"):
            wrong.append((rules, name, _shown(ours), _shown(answer)))
    assert not wrong, f"{len(wrong)} of {len(cases)} differ: {wrong[:5]}"


def test_generated_expressions(tmp_path: Path) -> None:
    """An expression is refused, or does what it does in Java."""
    generator = random.Random(20261123)
    cases = [_rule_and_name(generator) for _ in range(2000)]
    answers = _ask(tmp_path, [f"map {rule.encode().hex()} {name.encode().hex()}" for rule, name in cases])
    wrong, mapped = [], 0
    for (rule, name), answer in zip(cases, answers, strict=True):
        try:
            mapper = SslPrincipalMapper(rule)
        except InvalidMappingRule:
            continue
        try:
            ours = mapper.name_of(name).encode().hex()
        except ValueError as error:
            if "versions of Java" in str(error):
                continue
            ours = "!"
        mapped += ours != "!"
        if ours != (answer if not answer.startswith("!") else "!"):
            wrong.append((rule, name, _shown(ours), _shown(answer)))
    assert not wrong, f"{len(wrong)} of {len(cases)} differ: {wrong[:5]}"
    assert mapped > 100


def _rule_and_name(generator: random.Random) -> tuple[str, str]:
    expression = _expression(generator, 0)
    if generator.random() < 0.7:
        expression = f"(?:.|\\s)*?(?:{expression})(?:.|\\s)*"
    flags = generator.choice(("", "", "", "(?i)", "(?s)", "(?is)"))
    replacement = generator.choice(("[$0]", "$1", "<$1$2>", "x", "$1-$3", "a$12", "\\$1", ""))
    case = generator.choice(("", "", "L", "U"))
    name = "".join(generator.choices(PIECES, k=generator.randint(1, 3)))
    return f"RULE:{flags}{expression}/{replacement}/{case}", name


def _expression(generator: random.Random, depth: int) -> str:
    parts = []
    for _ in range(generator.randint(1, 5)):
        kind = generator.random()
        if kind < 0.25 and depth < 3:
            opening = generator.choice(("(", "(", "(?:", "(?i:", "(?=", "(?!", "(?>"))
            parts.append(f"{opening}{_expression(generator, depth + 1)}){generator.choice(REPETITIONS)}")
        elif kind < 0.3:
            parts.append("|")
        elif kind < 0.33:
            parts.append(generator.choice(("\\1", "\\2")))
        else:
            parts.append(generator.choice(ATOMS) + generator.choice(REPETITIONS))
    return "".join(parts)


def _ask(folder: Path, questions: list[str]) -> list[str]:
    file = folder / "questions"
    file.write_text("".join(f"{question}\n" for question in questions))
    return run_source("PrincipalNames", str(file)).splitlines()


def _shown(answer: str) -> str:
    return answer if answer.startswith("!") else bytes.fromhex(answer).decode()


def _name(generator: random.Random) -> bytes:
    parts = []
    for _ in range(generator.randint(0, 4)):
        pairs = [_pair(generator) for _ in range(1 if generator.random() < 0.8 else 2)]
        parts.append(_der(0x31, b"".join(sorted(pairs))))
    return _der(0x30, b"".join(parts))


def _pair(generator: random.Random) -> bytes:
    text = generator.choice(TEXTS)
    if generator.random() < 0.3:
        text = "".join(generator.choices('ab ,=+<>#;"\\\r\n*éß日', k=generator.randint(0, 9)))
    tag = generator.choice((UTF8, UTF8, UTF8, PRINTABLE, PRINTABLE, IA5, T61, BMP, GENERAL, 0x03, 0x04))
    if tag == BMP:
        value = text.encode("utf-16-be")
    elif tag in (UTF8, 0x04):
        value = text.encode()
    elif tag == T61:
        value = text.encode("latin-1", "replace")
    elif tag == 0x03:
        value = b"\0" + text.encode()
    else:
        value = text.encode("ascii", "replace")
    return _der(0x30, _oid(generator.choice(OIDS)) + _der(tag, value))


def _oid(text: str) -> bytes:
    first, second, *rest = map(int, text.split("."))
    encoded = b""
    for number in (first * 40 + second, *rest):
        digits = [number & 0x7F]
        while number := number >> 7:
            digits.append(number & 0x7F | 0x80)
        encoded += bytes(reversed(digits))
    return _der(0x06, encoded)


def _der(tag: int, content: bytes) -> bytes:
    if len(content) < 128:
        return bytes((tag, len(content))) + content
    size = len(content).to_bytes((len(content).bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(size))) + size + content
