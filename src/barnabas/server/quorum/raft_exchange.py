"""The driver's side of the quorum's messages: requests that wait for an answer, and a snapshot that is fetched."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from functools import partial
from itertools import count

from barnabas.common.errors import InvariantViolated
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages.fetch_snapshot import FetchSnapshotResponse
from barnabas.protocol.schema import Message
from barnabas.raft.inbound import FetchedSnapshot, RaftRequest
from barnabas.raft.ready import LogSlice, OutboundResponse, SnapshotChunk
from barnabas.raft.replica_key import OffsetAndEpoch
from barnabas.storage.damaged_files import DamagedLogError
from barnabas.storage.errors import CorruptFileError
from barnabas.storage.metadata_log import MetadataLog
from barnabas.storage.snapshot_file import RawSnapshotWriter, SnapshotReader

__all__ = ["RaftExchange"]


class RaftExchange:
    def __init__(self, log: MetadataLog, on_damage: Callable[[DamagedLogError], None]) -> None:
        """``on_damage`` is called for records that can no longer be read. It raises if the replica needs them."""
        self._log = log
        self._on_damage = on_damage
        self._correlation_ids = count(1)
        self._callers: dict[int, asyncio.Future[Message]] = {}
        self._fetching: RawSnapshotWriter | None = None

    # --- answers

    def expect(self, body: Message, version: int) -> tuple[RaftRequest, asyncio.Future[Message]]:
        """Return the request for the raft node, and the future of its answer."""
        request = RaftRequest(next(self._correlation_ids), body, version)
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._callers[request.correlation_id] = future
        return request, future

    def refuse(self, request: RaftRequest, error: Exception) -> None:
        future = self._callers.pop(request.correlation_id)
        if not future.done():
            future.set_exception(error)

    def respond(self, response: OutboundResponse) -> None:
        """Fill the answer with the records or snapshot data on disk, and complete its future."""
        future = self._callers.pop(response.correlation_id, None)
        if future is None or future.done():
            return
        body, fill = response.body, response.fill
        if isinstance(fill, LogSlice) and isinstance(body, FetchResponse):
            body.responses[0].partitions[0].records = self._records(fill)
        elif isinstance(fill, SnapshotChunk) and isinstance(body, FetchSnapshotResponse):
            reader = SnapshotReader(self._log.directory, fill.snapshot_id)
            if fill.position == 0:
                reader.verify()
            body.topics[0].partitions[0].unaligned_records = reader.chunk(fill.position, fill.max_bytes)
        future.set_result(body)

    def _records(self, fill: LogSlice) -> bytes | memoryview:
        """Return a fetch answer's records. Return none if they are corrupt, so that the next fetch loads a snapshot."""
        try:
            return self._log.read(fill.start_offset, fill.max_bytes)
        except DamagedLogError as error:
            self._on_damage(error)
            return b""

    def close(self) -> None:
        for future in self._callers.values():
            future.cancel()
        self._callers.clear()
        if self._fetching is not None:
            self._fetching.abandon()
            self._fetching = None

    # --- a snapshot that is fetched

    def write_chunk(self, snapshot_id: OffsetAndEpoch, position: int, data: bytes | memoryview) -> None:
        """Add a chunk. Chunks arrive in order. A chunk at position 0 starts again and discards earlier chunks."""
        if position == 0:
            if self._fetching is not None:
                self._fetching.abandon()
            self._fetching = RawSnapshotWriter(self._log.directory, snapshot_id, secrets.token_hex(8))
        if self._fetching is not None:
            self._fetching.append(data)

    def take_fetched(self) -> Callable[[], FetchedSnapshot]:
        """Return the work for a thread after a snapshot's last chunk: make it durable and read its control records.

        From now on neither ``close`` nor the first chunk of another snapshot changes it.
        """
        writer, self._fetching = self._fetching, None
        if writer is None:
            raise InvariantViolated("a snapshot is complete, but no chunk of it was written")
        return partial(_freeze, writer)


def _freeze(writer: RawSnapshotWriter) -> FetchedSnapshot:
    """Complete a snapshot. Raise CorruptFileError if it is corrupt: then it is not used, and its file is removed."""
    try:
        writer.verify()
    except CorruptFileError:
        writer.abandon()
        raise
    writer.freeze()
    reader = SnapshotReader(writer.directory, writer.snapshot_id)
    return FetchedSnapshot(writer.snapshot_id, reader.size, kraft_version=reader.kraft_version, voters=reader.voters)
