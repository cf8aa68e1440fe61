"""Pieces of an input are split where a transaction ends."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.records.source import Piece
from barnabas.cli.records.transactional_producing import count_of, split
from barnabas.clients.producer.stream_batches import StreamRecord

values = st.lists(st.binary(max_size=2), max_size=5)
records = values.map(lambda found: [StreamRecord(0, None, value) for value in found])
pieces = st.builds(
    Piece,
    values,
    values.map(lambda found: [(value, value) for value in found]),
    st.lists(st.tuples(st.none() | st.integers(0, 3), records), max_size=3),
)


def flat(piece: Piece) -> list[object]:
    by_partition = [(partition, record) for partition, found in piece.records for record in found]
    return [*piece.values, *piece.pairs, *by_partition]


@given(pieces, st.integers(1, 12))
def test_both_parts_are_the_piece(piece: Piece, count: int) -> None:
    first, rest = split(piece, count)
    assert count_of(first) == min(count, count_of(piece))
    assert (rest is None) is (count_of(piece) <= count)
    assert flat(first) + ([] if rest is None else flat(rest)) == flat(piece)


def test_without_a_limit_nothing_is_split() -> None:
    piece = Piece([b"a", b"b"])
    assert split(piece, None) == (piece, None)
