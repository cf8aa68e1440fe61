import pytest

from barnabas.protocol.records.topic_record import TopicRecord
from barnabas.protocol.utf8 import decode_utf8

# Results of a JVM: bytes, and the number of U+FFFD that replace them ("a" for itself).
JAVA = {
    "eda080": "?",
    "edbfbf": "?",
    "eda0": "?",
    "eda161": "?a",
    "eda080edb080": "??",
    "edbf618f61": "?a?a",
    "ed9fbf": "\ud7ff",
    "f0808080": "????",
    "f4908080": "????",
    "c080": "??",
    "e08080": "???",
    "e0a0": "?",
    "f09f98": "?",
    "f09f9861": "?a",
    "f0289f98": "?(??",
    "e28261": "?a",
    "fe": "?",
    "8080": "??",
    "c3": "?",
    "f09f9880": "\U0001f600",
}


@pytest.mark.parametrize("data", JAVA)
def test_malformed_utf_8_is_replaced_as_in_java(data: str) -> None:
    expected = JAVA[data].replace("?", "\ufffd")
    assert decode_utf8(bytes.fromhex(data)) == expected
    encoded = bytes((len(data) // 2 + 1,)) + bytes.fromhex(data) + bytes(17)
    assert TopicRecord.decode(encoded, 0).name == expected


def test_a_malformed_surrogate_may_be_preceded_and_followed_by_text() -> None:
    assert decode_utf8(b"a\xed\xa0\x80b\xed\xb0c") == "a\ufffdb\ufffdc"
