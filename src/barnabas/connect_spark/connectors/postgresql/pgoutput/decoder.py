"""Decode messages of ``pgoutput``: bytes of one message in, a value out. No I/O.

The decoder has one state: between StreamStart and StreamStop (version 2) messages begin with a transaction id. Nothing
but ProtocolError escapes it, whatever the bytes are.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from barnabas.connect_spark.connectors.postgresql.pgoutput.messages import (
    UNCHANGED,
    Begin,
    BeginPrepare,
    Cell,
    Column,
    Commit,
    CommitPrepared,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    Origin,
    Prepare,
    Relation,
    RollbackPrepared,
    Row,
    StreamAbort,
    StreamCommit,
    StreamPrepare,
    StreamStart,
    StreamStop,
    Truncate,
    TypeName,
    Update,
)

__all__ = ["Decoder", "ProtocolError", "protocol_version"]

_EPOCH_US = 946_684_800_000_000
"""PostgreSQL counts microseconds since 2000."""
_SYSTEM_SCHEMA = "pg_catalog"
_VERSIONS = ((160_000, 4), (150_000, 3), (140_000, 2))

_INT16, _INT32, _INT64 = struct.Struct("!h"), struct.Struct("!i"), struct.Struct("!q")
_UINT32 = struct.Struct("!I")


class ProtocolError(Exception):
    """The bytes are not a message of the protocol."""


def protocol_version(server_version: int) -> int:
    """Return the newest protocol version of a server, whose version is a number such as 150004."""
    return next((protocol for server, protocol in _VERSIONS if server_version >= server), 1)


class _Reader:
    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 1

    def byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def int16(self) -> int:
        self._at += 2
        return int(_INT16.unpack_from(self._data, self._at - 2)[0])

    def length(self) -> int:
        self._at += 4
        found = int(_INT32.unpack_from(self._data, self._at - 4)[0])
        if found < 0:
            raise ProtocolError(f"a negative length: {found}")
        return found

    def int32(self) -> int:
        self._at += 4
        return int(_INT32.unpack_from(self._data, self._at - 4)[0])

    def oid(self) -> int:
        self._at += 4
        return int(_UINT32.unpack_from(self._data, self._at - 4)[0])

    def int64(self) -> int:
        self._at += 8
        return int(_INT64.unpack_from(self._data, self._at - 8)[0])

    def moment(self) -> int:
        """Read a time. Return microseconds since 1970."""
        return self.int64() + _EPOCH_US

    def string(self) -> str:
        end = self._data.index(0, self._at)
        text = self._data[self._at : end].decode()
        self._at = end + 1
        return text

    def content(self, length: int) -> bytes:
        end = self._at + length
        if end > len(self._data):
            raise ProtocolError(f"{length} bytes are announced, {len(self._data) - self._at} are left")
        found = self._data[self._at : end]
        self._at = end
        return found

    def row(self) -> Row:
        return tuple([self._cell() for _ in range(self.int16())])

    def _cell(self) -> Cell:
        kind = self.byte()
        if kind == 0x74:  # t: text
            return self.content(self.length()).decode()
        if kind == 0x6E:  # n: null
            return None
        if kind == 0x75:  # u: unchanged
            return UNCHANGED
        raise ProtocolError(f"a value of the kind {chr(kind)!r}, which is not text, null or unchanged")

    def ensure_end(self) -> None:
        if self._at != len(self._data):
            raise ProtocolError(f"{len(self._data) - self._at} bytes follow the message")


class Decoder:
    def __init__(self) -> None:
        self._is_in_stream = False

    def decode(self, data: bytes) -> Message:
        """Decode one message. Raise ProtocolError."""
        read = _MESSAGES.get(data[:1])
        if read is None:
            raise ProtocolError(f"an unknown message of pgoutput: {data[:1]!r}")
        reader = _Reader(data)
        try:
            message = read(reader, self._is_in_stream)
            reader.ensure_end()
        except (IndexError, ValueError, struct.error) as error:
            raise ProtocolError(f"a message {data[:1]!r} of pgoutput can't be read: {error}") from error
        if isinstance(message, StreamStart | StreamStop):
            self._is_in_stream = isinstance(message, StreamStart)
        return message


def _xid(reader: _Reader, is_in_stream: bool) -> int | None:
    return reader.oid() if is_in_stream else None


def _begin(reader: _Reader, is_in_stream: bool) -> Begin:
    return Begin(reader.int64(), reader.moment(), reader.oid())


def _commit(reader: _Reader, is_in_stream: bool) -> Commit:
    reader.byte()
    return Commit(reader.int64(), reader.int64(), reader.moment())


def _origin(reader: _Reader, is_in_stream: bool) -> Origin:
    return Origin(reader.int64(), reader.string())


def _relation(reader: _Reader, is_in_stream: bool) -> Relation:
    xid = _xid(reader, is_in_stream)
    oid, schema, name = reader.oid(), reader.string() or _SYSTEM_SCHEMA, reader.string()
    identity = chr(reader.byte())
    columns = tuple([_column(reader) for _ in range(reader.int16())])
    return Relation(oid, schema, name, identity, columns, xid)


def _column(reader: _Reader) -> Column:
    flags, name = reader.byte(), reader.string()
    return Column(name, reader.oid(), reader.int32(), bool(flags & 1))


def _type(reader: _Reader, is_in_stream: bool) -> TypeName:
    xid = _xid(reader, is_in_stream)
    return TypeName(reader.oid(), reader.string() or _SYSTEM_SCHEMA, reader.string(), xid)


def _insert(reader: _Reader, is_in_stream: bool) -> Insert:
    xid, relation = _xid(reader, is_in_stream), reader.oid()
    _expect(reader.byte(), b"N")
    return Insert(relation, reader.row(), xid)


def _update(reader: _Reader, is_in_stream: bool) -> Update:
    xid, relation = _xid(reader, is_in_stream), reader.oid()
    kind, old = reader.byte(), None
    is_complete = kind == ord("O")
    if kind != ord("N"):
        _expect(kind, b"KO")
        old = reader.row()
        _expect(reader.byte(), b"N")
    return Update(relation, old, is_complete, reader.row(), xid)


def _delete(reader: _Reader, is_in_stream: bool) -> Delete:
    xid, relation, kind = _xid(reader, is_in_stream), reader.oid(), reader.byte()
    _expect(kind, b"KO")
    return Delete(relation, reader.row(), kind == ord("O"), xid)


def _truncate(reader: _Reader, is_in_stream: bool) -> Truncate:
    xid, count, options = _xid(reader, is_in_stream), reader.length(), reader.byte()
    relations = tuple([reader.oid() for _ in range(count)])
    return Truncate(relations, bool(options & 1), bool(options & 2), xid)


def _message(reader: _Reader, is_in_stream: bool) -> LogicalMessage:
    xid, flags, lsn = _xid(reader, is_in_stream), reader.byte(), reader.int64()
    prefix = reader.string()
    return LogicalMessage(bool(flags & 1), lsn, prefix, reader.content(reader.length()), xid)


def _stream_start(reader: _Reader, is_in_stream: bool) -> StreamStart:
    return StreamStart(reader.oid(), reader.byte() == 1)


def _stream_stop(reader: _Reader, is_in_stream: bool) -> StreamStop:
    return StreamStop()


def _stream_commit(reader: _Reader, is_in_stream: bool) -> StreamCommit:
    xid, _ = reader.oid(), reader.byte()
    return StreamCommit(xid, reader.int64(), reader.int64(), reader.moment())


def _stream_abort(reader: _Reader, is_in_stream: bool) -> StreamAbort:
    xid, subtransaction = reader.oid(), reader.oid()
    try:
        reader.ensure_end()
    except ProtocolError:
        return StreamAbort(xid, subtransaction, reader.int64(), reader.moment())
    return StreamAbort(xid, subtransaction)


def _begin_prepare(reader: _Reader, is_in_stream: bool) -> BeginPrepare:
    return BeginPrepare(reader.int64(), reader.int64(), reader.moment(), reader.oid(), reader.string())


def _prepare(reader: _Reader, is_in_stream: bool) -> Prepare:
    reader.byte()
    return Prepare(reader.int64(), reader.int64(), reader.moment(), reader.oid(), reader.string())


def _stream_prepare(reader: _Reader, is_in_stream: bool) -> StreamPrepare:
    reader.byte()
    return StreamPrepare(reader.int64(), reader.int64(), reader.moment(), reader.oid(), reader.string())


def _commit_prepared(reader: _Reader, is_in_stream: bool) -> CommitPrepared:
    reader.byte()
    return CommitPrepared(reader.int64(), reader.int64(), reader.moment(), reader.oid(), reader.string())


def _rollback_prepared(reader: _Reader, is_in_stream: bool) -> RollbackPrepared:
    reader.byte()
    ends = reader.int64(), reader.int64()
    return RollbackPrepared(*ends, reader.moment(), reader.moment(), reader.oid(), reader.string())


def _expect(kind: int, allowed: bytes) -> None:
    if kind not in allowed:
        raise ProtocolError(f"a row of the kind {chr(kind)!r} where one of {allowed.decode()!r} belongs")


_MESSAGES: dict[bytes, Callable[[_Reader, bool], Message]] = {
    b"B": _begin,
    b"C": _commit,
    b"O": _origin,
    b"R": _relation,
    b"Y": _type,
    b"I": _insert,
    b"U": _update,
    b"D": _delete,
    b"T": _truncate,
    b"M": _message,
    b"S": _stream_start,
    b"E": _stream_stop,
    b"c": _stream_commit,
    b"A": _stream_abort,
    b"b": _begin_prepare,
    b"P": _prepare,
    b"p": _stream_prepare,
    b"K": _commit_prepared,
    b"r": _rollback_prepared,
}
"""By first byte. The second argument of a function is whether the message is inside of a streamed part."""
