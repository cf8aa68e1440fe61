from __future__ import annotations

from barnabas.connect.decide.tasks.dead_letter_records import LatestLetters, dead_letter
from barnabas.protocol.record_batch import Record

OWNER = "__connect.errors.connector.name"


def record(offset: int, *, at: int = 0, owner: str | None = "c", value: bytes | None = b"v") -> Record:
    headers = () if owner is None else ((OWNER, owner.encode()),)
    return Record(offset, at, b"k", value, headers)


def test_a_letter_has_its_error_apart_from_its_own_headers() -> None:
    headers = (
        ("trace-id", b"x"),
        ("none", None),
        ("__connect.errors.stage", b"VALUE_CONVERTER"),
        ("__connect.errors.exception.stacktrace", b"at x"),
    )
    letter = dead_letter(3, Record(17, 5, None, b"{", headers))
    assert (letter.partition, letter.offset, letter.time, letter.key, letter.value) == (3, 17, 5, None, "{")
    assert letter.error == {"stage": "VALUE_CONVERTER"}
    assert letter.headers == {"trace-id": "x", "none": None}


def test_long_and_binary_values_are_shown_within_bounds() -> None:
    letter = dead_letter(0, record(0, value=b"\xff" + b"a" * 5000))
    assert letter.value is not None
    assert letter.value.startswith("\\xffaaa")
    assert letter.value.endswith("…")
    assert len(letter.value) < 1100
    assert letter.value_bytes == 5001


def test_the_latest_letters_of_one_connector_are_kept_the_last_first() -> None:
    letters = LatestLetters("c", 3)
    for offset in range(10):
        letters.add(0, record(offset, at=offset))
        letters.add(1, record(offset, at=offset, owner="another"))
    letters.add(1, record(7, at=100, owner=None))
    assert [(letter.partition, letter.offset) for letter in letters.latest_first()] == [(1, 7), (0, 9), (0, 8)]
