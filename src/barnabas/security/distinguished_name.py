"""The subject of a certificate as text, letter by letter as Java's ``X500Principal.getName()`` writes it (RFC 2253).

Rules and ACLs match that text, so it is built from the bytes of the certificate. The last part of the name is the
first of the text. Only nine attributes have names (CN, OU, ...; an e-mail address has none). A value of another
attribute, or of a type that isn't text, is ``#`` and its bytes in hexadecimal.
"""

from __future__ import annotations

__all__ = ["MalformedCertificate", "format_name", "subject_name"]

_SEQUENCE, _SET, _OID, _VERSION_TAG = 0x30, 0x31, 0x06, 0xA0
_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_UTF8, _PRINTABLE, _T61, _IA5, _GENERAL, _BMP = 0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E
_TEXT_TAGS = frozenset((_UTF8, _PRINTABLE, _T61, _IA5, _GENERAL, _BMP))
_ESCAPED = frozenset(',=+<>#;"\\')


class MalformedCertificate(ValueError):
    """The bytes are not a certificate; TLS libraries never return such bytes."""


def subject_name(certificate_der: bytes) -> str:
    """The text of a certificate's subject; empty when the subject is."""
    data = memoryview(certificate_der)
    certificate = _content(data, _SEQUENCE)
    rest = _content(certificate, _SEQUENCE)
    if rest and rest[0] == _VERSION_TAG:
        rest = _after(rest)
    for _ in range(4):  # serial number, signature algorithm, issuer, validity
        rest = _after(rest)
    return format_name(bytes(rest[: _length(rest)[1]]))


def format_name(name_der: bytes) -> str:
    """The text of a name: a sequence of sets of pairs."""
    parts = []
    for relative in _elements(_content(memoryview(name_der), _SEQUENCE)):
        pairs = [_pair(element) for element in _elements(_content(relative, _SET))]
        parts.append("+".join(pairs))
    return ",".join(reversed(parts))


def _pair(element: memoryview) -> str:
    content = _content(element, _SEQUENCE)
    oid = _oid(_content(content, _OID))
    value = _after(content)
    tag = value[0] if value else 0
    start, end = _length(value)
    if oid in _KEYWORDS and tag in _TEXT_TAGS:
        return f"{_KEYWORDS[oid]}={_escaped(_text(bytes(value[start:end])))}"
    return f"{_KEYWORDS.get(oid, oid)}=#{value[:end].hex()}"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _escaped(text: str) -> str:
    escaped = "".join("\\00" if char == "\0" else f"\\{char}" if char in _ESCAPED else char for char in text)
    inner = escaped.strip(" \r")
    if len(inner) == len(escaped):
        return escaped
    lead = len(escaped) - len(escaped.lstrip(" \r")) if inner else len(escaped)
    trail = len(escaped) - lead - len(inner)
    return (
        "".join(f"\\{char}" for char in escaped[:lead])
        + inner
        + "".join(f"\\{char}" for char in escaped[len(escaped) - trail :] if trail)
    )


# --- DER, as far as names need it


def _length(data: memoryview) -> tuple[int, int]:
    """Return where the content of the first element begins and ends."""
    if len(data) < 2:
        raise MalformedCertificate("an element ends inside its tag or length")
    size = data[1]
    start = 2
    if size & 0x80:
        count = size & 0x7F
        start += count
        if not 1 <= count <= 4 or len(data) < start:
            raise MalformedCertificate("an element has an unreadable length")
        size = int.from_bytes(data[2:start], "big")
    if start + size > len(data):
        raise MalformedCertificate("an element is longer than its container")
    return start, start + size


def _content(data: memoryview, tag: int) -> memoryview:
    if not data or data[0] != tag:
        raise MalformedCertificate(f"an element of type {tag} is missing")
    start, end = _length(data)
    return data[start:end]


def _after(data: memoryview) -> memoryview:
    return data[_length(data)[1] :]


def _elements(data: memoryview) -> list[memoryview]:
    found = []
    while data:
        end = _length(data)[1]
        found.append(data[:end])
        data = data[end:]
    return found


def _oid(data: memoryview) -> str:
    numbers: list[int] = []
    value = 0
    for byte in data:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    if not numbers:
        raise MalformedCertificate("an attribute has no type")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
