"""The stream of a replication slot: START_REPLICATION, and the copy in both directions that follows, over libpq.

psycopg has no class for it, but its ``pq`` layer has the calls. A thread reads into a bounded buffer, and reports
positions to the server while a task writes a batch, however long that takes: a silent client would be disconnected
after ``wal_sender_timeout``. Only ``confirm`` moves the position that the server may forget; it is called when records
are safe in Kafka.

Source: PostgreSQL's documentation, "Streaming Replication Protocol".
"""

from __future__ import annotations

import logging
import select
import struct
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from barnabas.connect_spark.connectors.postgresql.connection import DatabaseLogin, connect
from barnabas.connect_spark.connectors.postgresql.pgoutput.messages import lsn_text

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ReplicationStream", "SlotInUse", "StreamEnded", "Streamed"]

log = logging.getLogger(__name__)

_DATA, _KEEPALIVE = ord("w"), ord("k")
_DATA_HEAD = struct.Struct("!cqqq")
_KEEPALIVE_FORM = struct.Struct("!cqqb")
_STATUS = struct.Struct("!cqqqqb")
_EPOCH_US = 946_684_800_000_000
_STATUS_EVERY_S = 10
_WAIT_S = 0.2
_BYTES_MAX = 64 << 20
"""How much is buffered: two batches of usual rows."""
_COPY_BOTH = 8
"""The status of a result, as libpq numbers it."""
_IN_USE = "55006"
_JOIN_S = 10


class SlotInUse(Exception):
    """Another connection streams from the slot, or the server has not noticed yet that it ended."""


class StreamEnded(Exception):
    """The server or the network ended the stream."""


@dataclass(frozen=True, slots=True)
class Streamed:
    lsn: int
    data: bytes | None
    """A message of the plugin; None: the server has sent everything up to the LSN."""


class ReplicationStream:
    def __init__(
        self, login: DatabaseLogin, slot: str, publications: Sequence[str], from_lsn: int, protocol: int
    ) -> None:
        """Begin to stream. Raise psycopg.Error, SlotInUse or StreamEnded."""
        self._connection = connect(login, replication="database")
        self._pg: Any = self._connection.pgconn
        self._confirmed = from_lsn
        self._sent_at_s = 0.0
        self._changed = threading.Condition()
        self._buffer: deque[Streamed] = deque()
        self._bytes = 0
        self._error: Exception | None = None
        self._is_closing = False
        try:
            self._start(slot, publications, from_lsn, protocol)
        except BaseException:
            self._connection.close()
            raise
        self._thread = threading.Thread(target=self._run, name=f"connect-slot-{slot}", daemon=True)
        self._thread.start()

    def take(self, bytes_max: int, wait_s: float) -> list[Streamed]:
        """Return what has arrived, in order; wait if that is nothing. Raise the error that ended the stream."""
        with self._changed:
            self._changed.wait_for(lambda: self._buffer or self._error, wait_s)
            if not self._buffer and self._error is not None:
                raise self._error
            found: list[Streamed] = []
            size = 0
            while self._buffer and size < bytes_max:
                streamed = self._buffer.popleft()
                found.append(streamed)
                size += len(streamed.data or b"")
            self._bytes -= size
            self._changed.notify_all()
            return found

    def confirm(self, lsn: int) -> None:
        """Tell the server, soon, that it may forget everything before the LSN."""
        with self._changed:
            if lsn > self._confirmed:
                self._confirmed, self._sent_at_s = lsn, 0.0

    def close(self) -> None:
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join(_JOIN_S)
        self._connection.close()

    # ---- the beginning

    def _start(self, slot: str, publications: Sequence[str], from_lsn: int, protocol: int) -> None:
        names = ",".join('"' + name.replace('"', '""') + '"' for name in publications).replace("'", "''")
        command = (
            f'START_REPLICATION SLOT "{slot}" LOGICAL {lsn_text(from_lsn)} '
            f"(proto_version '{protocol}', publication_names '{names}')"
        )
        result = self._pg.exec_(command.encode())
        if result.status == _COPY_BOTH:
            return
        message = result.error_message.decode(errors="replace").strip()
        state = (result.error_field(ord("C")) or b"").decode()
        if state == _IN_USE:
            raise SlotInUse(message)
        raise StreamEnded(f"the stream of the slot {slot} did not begin: {message}")

    # ---- the thread

    def _run(self) -> None:
        try:
            while not self._is_closing:
                self._report()
                self._receive()
            self._report(force=True)
        except Exception as error:
            with self._changed:
                self._error = error if isinstance(error, StreamEnded) else StreamEnded(str(error).strip())
                self._changed.notify_all()

    def _receive(self) -> None:
        with self._changed:
            if self._bytes > _BYTES_MAX:
                self._changed.wait(_WAIT_S)
                return
        size, content = self._pg.get_copy_data(1)
        if size > 0:
            self._note(bytes(content))
        elif size == 0:
            select.select([self._pg.socket], [], [], _WAIT_S)
            self._pg.consume_input()
        else:
            result = self._pg.get_result()
            text = "" if result is None else result.error_message.decode(errors="replace").strip()
            raise StreamEnded(text or "the server has ended the stream")

    def _note(self, message: bytes) -> None:
        if message[0] == _DATA:
            _, lsn, _, _ = _DATA_HEAD.unpack_from(message)
            self._add(Streamed(lsn, message[_DATA_HEAD.size :]))
        elif message[0] == _KEEPALIVE:
            _, end_lsn, _, wants_reply = _KEEPALIVE_FORM.unpack(message)
            self._add(Streamed(end_lsn, None))
            if wants_reply:
                self._sent_at_s = 0.0

    def _add(self, streamed: Streamed) -> None:
        with self._changed:
            if streamed.data is None and self._buffer and self._buffer[-1].data is None:
                self._buffer.pop()  # A later one says more.
            self._buffer.append(streamed)
            self._bytes += len(streamed.data or b"")
            self._changed.notify_all()

    def _report(self, *, force: bool = False) -> None:
        now_s = time.monotonic()
        if not force and now_s - self._sent_at_s < _STATUS_EVERY_S and self._sent_at_s:
            return
        self._sent_at_s = now_s
        lsn = self._confirmed
        now_us = time.time_ns() // 1000 - _EPOCH_US
        self._pg.put_copy_data(_STATUS.pack(b"r", lsn, lsn, lsn, now_us, 0))
        while self._pg.flush():
            select.select([], [self._pg.socket], [], _WAIT_S)
