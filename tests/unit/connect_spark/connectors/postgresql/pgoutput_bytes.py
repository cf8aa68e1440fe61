"""Encode messages of pgoutput, as the server does: the inverse of the decoder, written only for its tests."""

from __future__ import annotations

import struct
from typing import Any

from barnabas.connect_spark.connectors.postgresql.pgoutput import messages as m

__all__ = ["encoded"]

_EPOCH_US = 946_684_800_000_000


def encoded(message: m.Message) -> bytes:
    return _FORMS[type(message)](message)


def _long(*numbers: int) -> bytes:
    return b"".join(struct.pack("!q", number) for number in numbers)


def _moment(us: int) -> bytes:
    return _long(us - _EPOCH_US)


def _oid(number: int) -> bytes:
    return struct.pack("!I", number)


def _text(text: str) -> bytes:
    return text.encode() + b"\0"


def _in_stream(message: Any) -> bytes:
    return b"" if message.xid is None else _oid(message.xid)


def _row(row: m.Row) -> bytes:
    return struct.pack("!h", len(row)) + b"".join(_cell(cell) for cell in row)


def _cell(cell: m.Cell) -> bytes:
    if cell is None:
        return b"n"
    if isinstance(cell, str):
        return b"t" + struct.pack("!i", len(cell.encode())) + cell.encode()
    return b"u"


def _relation(message: m.Relation) -> bytes:
    schema = "" if message.schema == "pg_catalog" else message.schema
    columns = b"".join(
        bytes([column.is_identity]) + _text(column.name) + struct.pack("!Ii", column.type_oid, column.type_modifier)
        for column in message.columns
    )
    head = _in_stream(message) + _oid(message.oid) + _text(schema) + _text(message.name)
    return b"R" + head + message.replica_identity.encode() + struct.pack("!h", len(message.columns)) + columns


def _type_name(message: m.TypeName) -> bytes:
    return b"Y" + _in_stream(message) + _oid(message.oid) + _text(message.schema) + _text(message.name)


def _stream_commit(message: m.StreamCommit) -> bytes:
    ends = _long(message.commit_lsn, message.end_lsn)
    return b"c" + _oid(message.xid) + b"\0" + ends + _moment(message.commit_us)


def _update(message: m.Update) -> bytes:
    old = b"" if message.old is None else (b"O" if message.is_old_complete else b"K") + _row(message.old)
    return b"U" + _in_stream(message) + _oid(message.relation) + old + b"N" + _row(message.new)


def _delete(message: m.Delete) -> bytes:
    kind = b"O" if message.is_old_complete else b"K"
    return b"D" + _in_stream(message) + _oid(message.relation) + kind + _row(message.old)


def _truncate(message: m.Truncate) -> bytes:
    options = bytes([message.cascades + 2 * message.restarts_identity])
    count = struct.pack("!i", len(message.relations))
    return b"T" + _in_stream(message) + count + options + b"".join(map(_oid, message.relations))


def _logical(message: m.LogicalMessage) -> bytes:
    head = bytes([message.is_transactional]) + _long(message.lsn) + _text(message.prefix)
    return b"M" + _in_stream(message) + head + struct.pack("!i", len(message.content)) + message.content


def _stream_abort(message: m.StreamAbort) -> bytes:
    more = b"" if message.abort_lsn is None else _long(message.abort_lsn) + _moment(message.abort_us)
    return b"A" + _oid(message.xid) + _oid(message.subtransaction_xid) + more


def _prepared(letter: bytes, flags: bytes, message: Any) -> bytes:
    ends = [
        value
        for name in ("prepare_lsn", "commit_lsn", "end_lsn")
        if (value := getattr(message, name, None)) is not None
    ]
    moment = message.commit_us if isinstance(message, m.CommitPrepared) else message.prepare_us
    return letter + flags + _long(*ends) + _moment(moment) + _oid(message.xid) + _text(message.gid)


def _rollback(message: m.RollbackPrepared) -> bytes:
    moments = _moment(message.prepare_us) + _moment(message.rollback_us)
    ends = _long(message.prepare_end_lsn, message.rollback_end_lsn)
    return b"r\0" + ends + moments + _oid(message.xid) + _text(message.gid)


_FORMS = {
    m.Begin: lambda message: b"B" + _long(message.final_lsn) + _moment(message.commit_us) + _oid(message.xid),
    m.Commit: lambda message: b"C\0" + _long(message.commit_lsn, message.end_lsn) + _moment(message.commit_us),
    m.Origin: lambda message: b"O" + _long(message.lsn) + _text(message.name),
    m.Relation: _relation,
    m.TypeName: _type_name,
    m.Insert: lambda message: b"I" + _in_stream(message) + _oid(message.relation) + b"N" + _row(message.new),
    m.Update: _update,
    m.Delete: _delete,
    m.Truncate: _truncate,
    m.LogicalMessage: _logical,
    m.StreamStart: lambda message: b"S" + _oid(message.xid) + bytes([message.is_first]),
    m.StreamStop: lambda message: b"E",
    m.StreamCommit: _stream_commit,
    m.StreamAbort: _stream_abort,
    m.BeginPrepare: lambda message: _prepared(b"b", b"", message),
    m.Prepare: lambda message: _prepared(b"P", b"\0", message),
    m.StreamPrepare: lambda message: _prepared(b"p", b"\0", message),
    m.CommitPrepared: lambda message: _prepared(b"K", b"\0", message),
    m.RollbackPrepared: _rollback,
}  # fmt: skip
