"""The messages of PostgreSQL's plugin ``pgoutput``, protocol versions 1 to 4, as values.

Source: PostgreSQL's documentation, "Logical Replication Message Formats". Values of columns are text, as the database's
output functions write them. LSNs are numbers: positions in the write-ahead log in bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = [
    "UNCHANGED",
    "Begin",
    "BeginPrepare",
    "Cell",
    "Column",
    "Commit",
    "CommitPrepared",
    "Delete",
    "Insert",
    "LogicalMessage",
    "Message",
    "Origin",
    "Prepare",
    "Relation",
    "RollbackPrepared",
    "Row",
    "StreamAbort",
    "StreamCommit",
    "StreamPrepare",
    "StreamStart",
    "StreamStop",
    "Truncate",
    "TypeName",
    "Update",
    "lsn_text",
    "parse_lsn",
]


class Unchanged(Enum):
    """The mark of a value that the log does not have: it is stored outside of its row (TOAST) and was not changed."""

    UNCHANGED = "unchanged"


UNCHANGED = Unchanged.UNCHANGED
Cell = str | None | Unchanged
Row = tuple[Cell, ...]


def lsn_text(lsn: int) -> str:
    """Return the LSN as PostgreSQL writes it, such as ``0/16B3748``."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> int:
    """Parse ``0/16B3748``. Raise ValueError."""
    high, separator, low = text.partition("/")
    if not separator:
        raise ValueError(f"{text!r} is not an LSN, such as 0/16B3748")
    return (int(high, 16) << 32) + int(low, 16)


@dataclass(frozen=True, slots=True)
class Begin:
    final_lsn: int
    """The LSN of the commit."""
    commit_us: int
    """Microseconds since 1970."""
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    commit_lsn: int
    end_lsn: int
    """The position after the transaction."""
    commit_us: int


@dataclass(frozen=True, slots=True)
class Origin:
    lsn: int
    name: str


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type_oid: int
    type_modifier: int
    is_identity: bool
    """Whether the column is a part of the table's replica identity."""


@dataclass(frozen=True, slots=True)
class Relation:
    oid: int
    schema: str
    name: str
    replica_identity: str
    """``d``: the primary key, ``i``: an index, ``f``: all columns, ``n``: nothing."""
    columns: tuple[Column, ...]
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class TypeName:
    """The name of a data type that is not built in."""

    oid: int
    schema: str
    name: str
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class Insert:
    relation: int
    new: Row
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class Update:
    relation: int
    old: Row | None
    """The row before, if the log has it: by the replica identity all of it, or its identity if that was changed."""
    is_old_complete: bool
    new: Row
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    relation: int
    old: Row
    is_old_complete: bool
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class Truncate:
    relations: tuple[int, ...]
    cascades: bool
    restarts_identity: bool
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class LogicalMessage:
    is_transactional: bool
    lsn: int
    prefix: str
    content: bytes
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class StreamStart:
    """Version 2: a part of a transaction that has not ended begins."""

    xid: int
    is_first: bool


@dataclass(frozen=True, slots=True)
class StreamStop:
    pass


@dataclass(frozen=True, slots=True)
class StreamCommit:
    xid: int
    commit_lsn: int
    end_lsn: int
    commit_us: int


@dataclass(frozen=True, slots=True)
class StreamAbort:
    xid: int
    subtransaction_xid: int
    abort_lsn: int | None = None
    """Version 4, with parallel streaming."""
    abort_us: int | None = None


@dataclass(frozen=True, slots=True)
class BeginPrepare:
    """Version 3: a transaction of two phases."""

    prepare_lsn: int
    end_lsn: int
    prepare_us: int
    xid: int
    gid: str


@dataclass(frozen=True, slots=True)
class Prepare:
    prepare_lsn: int
    end_lsn: int
    prepare_us: int
    xid: int
    gid: str


@dataclass(frozen=True, slots=True)
class StreamPrepare:
    prepare_lsn: int
    end_lsn: int
    prepare_us: int
    xid: int
    gid: str


@dataclass(frozen=True, slots=True)
class CommitPrepared:
    commit_lsn: int
    end_lsn: int
    commit_us: int
    xid: int
    gid: str


@dataclass(frozen=True, slots=True)
class RollbackPrepared:
    prepare_end_lsn: int
    rollback_end_lsn: int
    prepare_us: int
    rollback_us: int
    xid: int
    gid: str


Message = (
    Begin
    | Commit
    | Origin
    | Relation
    | TypeName
    | Insert
    | Update
    | Delete
    | Truncate
    | LogicalMessage
    | StreamStart
    | StreamStop
    | StreamCommit
    | StreamAbort
    | BeginPrepare
    | Prepare
    | StreamPrepare
    | CommitPrepared
    | RollbackPrepared
)
