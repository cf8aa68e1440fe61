"""The decoder of pgoutput: messages survive, only ProtocolError escapes, transactions continue anywhere."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.connect_spark.connectors.postgresql.pgoutput import messages as m
from barnabas.connect_spark.connectors.postgresql.pgoutput.decoder import Decoder, ProtocolError, protocol_version
from barnabas.connect_spark.connectors.postgresql.pgoutput.transactions import Place, TransactionReader
from tests.unit.connect_spark.connectors.postgresql.pgoutput_bytes import encoded

NUMBERS = st.integers(0, (1 << 63) - 1)
OIDS = st.integers(0, (1 << 32) - 1)
MOMENTS = st.integers(0, 1 << 55)
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
CELLS = st.none() | st.just(m.UNCHANGED) | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ROWS = st.lists(CELLS, max_size=5).map(tuple)
COLUMNS = st.builds(m.Column, TEXTS, OIDS, st.integers(-1, 1 << 30), st.booleans())
LISTED = st.lists(COLUMNS, max_size=4).map(tuple)
SCHEMAS = TEXTS.filter(bool)
XIDS = st.none()
BY_KIND = {
    m.Begin: st.builds(m.Begin, NUMBERS, MOMENTS, OIDS),
    m.Commit: st.builds(m.Commit, NUMBERS, NUMBERS, MOMENTS),
    m.Origin: st.builds(m.Origin, NUMBERS, TEXTS),
    m.Relation: st.builds(m.Relation, OIDS, SCHEMAS, TEXTS, st.sampled_from("dnfi"), LISTED, XIDS),
    m.TypeName: st.builds(m.TypeName, OIDS, SCHEMAS, TEXTS, XIDS),
    m.Insert: st.builds(m.Insert, OIDS, ROWS, XIDS),
    m.Update: st.builds(m.Update, OIDS, ROWS, st.booleans(), ROWS, XIDS),
    m.Delete: st.builds(m.Delete, OIDS, ROWS, st.booleans(), XIDS),
    m.Truncate: st.builds(m.Truncate, st.lists(OIDS, max_size=3).map(tuple), st.booleans(), st.booleans(), XIDS),
    m.LogicalMessage: st.builds(m.LogicalMessage, st.booleans(), NUMBERS, TEXTS, st.binary(max_size=20), XIDS),
    m.StreamStart: st.builds(m.StreamStart, OIDS, st.booleans()),
    m.StreamStop: st.builds(m.StreamStop),
    m.StreamCommit: st.builds(m.StreamCommit, OIDS, NUMBERS, NUMBERS, MOMENTS),
    m.StreamAbort: st.builds(m.StreamAbort, OIDS, OIDS) | st.builds(m.StreamAbort, OIDS, OIDS, NUMBERS, MOMENTS),
    m.BeginPrepare: st.builds(m.BeginPrepare, NUMBERS, NUMBERS, MOMENTS, OIDS, TEXTS),
    m.Prepare: st.builds(m.Prepare, NUMBERS, NUMBERS, MOMENTS, OIDS, TEXTS),
    m.StreamPrepare: st.builds(m.StreamPrepare, NUMBERS, NUMBERS, MOMENTS, OIDS, TEXTS),
    m.CommitPrepared: st.builds(m.CommitPrepared, NUMBERS, NUMBERS, MOMENTS, OIDS, TEXTS),
    m.RollbackPrepared: st.builds(m.RollbackPrepared, NUMBERS, NUMBERS, MOMENTS, MOMENTS, OIDS, TEXTS),
}  # fmt: skip
MESSAGES = st.one_of(*BY_KIND.values())


def test_every_message_has_a_strategy() -> None:
    assert {*BY_KIND} == {*m.Message.__args__}


@given(MESSAGES)
def test_every_message_survives(message: m.Message) -> None:
    assert Decoder().decode(encoded(message)) == message


@given(MESSAGES, OIDS)
def test_messages_inside_of_a_stream_name_their_transaction(message: Any, xid: int) -> None:
    decoder = Decoder()
    decoder.decode(encoded(m.StreamStart(xid, True)))
    if "xid" in {field.name for field in dataclasses.fields(message)} and hasattr(message, "relation"):
        message = dataclasses.replace(message, xid=xid)
        assert decoder.decode(encoded(message)) == message


@given(MESSAGES, st.data())
def test_a_message_cut_short_or_followed_by_more_is_a_protocol_error(message: m.Message, data: st.DataObject) -> None:
    whole = encoded(message)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    if isinstance(message, m.StreamAbort) and len(cut) == 9:
        return  # That is the form of earlier versions.
    with pytest.raises(ProtocolError):
        Decoder().decode(cut)
    with pytest.raises(ProtocolError):
        Decoder().decode(whole + b"\0")


@given(st.binary(max_size=60))
def test_nothing_else_escapes(content: bytes) -> None:
    try:
        Decoder().decode(content)
    except ProtocolError:
        pass


@pytest.mark.parametrize(("server", "version"), [(100_000, 1), (140_000, 2), (150_007, 3), (160_001, 4), (180_000, 4)])
def test_the_version_is_the_newest_that_the_server_knows(server: int, version: int) -> None:
    assert protocol_version(server) == version


@given(NUMBERS)
def test_positions_in_the_log_survive_as_text(lsn: int) -> None:
    assert m.parse_lsn(m.lsn_text(lsn)) == lsn


# ---- transactions

TABLE = m.Relation(7, "public", "t", "d", (m.Column("id", 23, -1, True),))


def _log(sizes: list[int]) -> list[tuple[int, bytes]]:
    """Return the messages of transactions with these numbers of changes, each with its LSN."""
    found, lsn = [(1, encoded(TABLE))], 100
    for number, size in enumerate(sizes):
        commit = lsn + 10 * (size + 1)
        found.append((lsn, encoded(m.Begin(commit, 1_000_000_000_000_000, number))))
        for row in range(size):
            lsn += 10
            found.append((lsn, encoded(m.Insert(7, (f"{number}-{row}",)))))
        found.append((commit, encoded(m.Commit(commit, commit + 5, 1_000_000_000_000_000))))
        lsn = commit + 5
    return found


def _after(log: list[tuple[int, bytes]], place: Place) -> list[tuple[int, bytes]]:
    """Return what a server sends from a place: whole transactions whose commit is not before it."""
    sent, transaction = [log[0]], []
    for lsn, content in log[1:]:
        transaction.append((lsn, content))
        if content[:1] == b"C":
            sent += transaction if lsn >= place.lsn else []
            transaction = []
    return sent


@given(st.lists(st.integers(0, 5), min_size=1, max_size=5), st.integers(0, 40))
def test_a_reader_that_continues_anywhere_repeats_and_misses_nothing(sizes: list[int], cut: int) -> None:
    log = _log(sizes)
    first = TransactionReader(Place(50))
    seen = [change for lsn, content in log[:cut] for change in first.receive(lsn, content)]
    second = TransactionReader(first.place)
    seen += [change for lsn, content in _after(log, first.place) for change in second.receive(lsn, content)]
    assert [change.new[0] for change in seen] == [f"{n}-{row}" for n, size in enumerate(sizes) for row in range(size)]
    assert second.is_between_transactions


def test_a_keepalive_advances_the_place_only_between_transactions() -> None:
    reader = TransactionReader(Place(50))
    reader.receive(1, encoded(TABLE))
    reader.idle(60)
    assert reader.place == Place(60)
    reader.receive(70, encoded(m.Begin(100, 1_000_000_000_000_000, 1)))
    reader.idle(90)
    assert reader.place == Place(60)
    reader.receive(80, encoded(m.Insert(7, ("a",))))
    assert reader.place == Place(60, 1)
    reader.receive(100, encoded(m.Commit(100, 110, 1_000_000_000_000_000)))
    assert reader.place == Place(110)


@pytest.mark.parametrize("message", [m.Insert(7, ("a",)), m.StreamStart(1, True), m.Truncate((7,), False, False)])
def test_a_change_outside_of_a_transaction_is_a_protocol_error(message: m.Message) -> None:
    with pytest.raises(ProtocolError, match="is not expected here"):
        TransactionReader(Place(0)).receive(1, encoded(message))
