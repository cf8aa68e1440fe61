"""The name in a certificate and what mapping rules make of it, against Java and Kafka on generated ones."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from barnabas.security.distinguished_name import format_name
from barnabas.security.ssl_principal_mapper import SslPrincipalMapper
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
