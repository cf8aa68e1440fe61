"""UTF-8 as Kafka's readers decode it: invalid bytes become U+FFFD, and never raise an error.

Java and Python agree on their number, except for encoded surrogates (ED A0..BF and a third byte): there Java
writes one for all of the bytes. Importing this module registers that as the error handler ``java-replace``.
"""

from __future__ import annotations

import codecs

__all__ = ["JAVA_REPLACE", "decode_utf8"]

JAVA_REPLACE = "java-replace"
_REPLACEMENT = "\ufffd"


def decode_utf8(data: bytes) -> str:
    return data.decode("utf-8", JAVA_REPLACE)


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    data, start = error.object, error.start
    if data[start] == 0xED and start + 1 < len(data) and 0xA0 <= data[start + 1] <= 0xBF:
        has_third = start + 2 < len(data) and 0x80 <= data[start + 2] <= 0xBF
        return _REPLACEMENT, start + (3 if has_third else 2)
    return _REPLACEMENT, error.end


codecs.register_error(JAVA_REPLACE, _replace)
