"""The work that the raft node requires from its owner.

The owner works through a ``Ready`` in this order:

1. ``election_state``: write it and fsync. No message of this or a later Ready may be sent before.
2. ``truncate_to`` or ``restart_at``, then ``appends``: change the log, in this order. No fsync yet.
3. ``responses`` and ``requests``: send. Neither ever reports an append that is not durable: where one would
   (a voter's next Fetch, the leader's own vote for the high watermark) the node holds it back until ``log_flushed``.
4. If there were appends: fsync the log and call ``log_flushed(end_offset)``. Several may share one fsync.
5. ``committed``: pass on to the layer above, after an earlier Ready's. ``high_watermark`` is the end of the committed
   log. Records below it that were not passed here were in the log before this process started, or arrived with a
   snapshot, and are read from disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from barnabas.protocol.schema import Message, Request
from barnabas.raft.election_state import ElectionState
from barnabas.raft.replica_key import OffsetAndEpoch
from barnabas.raft.voter_set import Endpoint

__all__ = [
    "AppendedBatch",
    "LeaderAndEpoch",
    "LogSlice",
    "OutboundRequest",
    "OutboundResponse",
    "Ready",
    "SnapshotChunk",
]


class AppendedBatch:
    """One batch to append: its bytes and, if this node created it as leader, its records as objects."""

    __slots__ = ("base_offset", "data", "epoch", "is_control", "last_offset", "records", "timestamp_ms")

    def __init__(
        self,
        *,
        base_offset: int,
        last_offset: int,
        epoch: int,
        timestamp_ms: int,
        data: bytes | memoryview,
        is_control: bool,
        records: Sequence[Any] | None = None,
    ) -> None:
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.epoch = epoch
        self.timestamp_ms = timestamp_ms
        self.data = data
        self.is_control = is_control
        self.records = records

    def __repr__(self) -> str:
        kind = "control" if self.is_control else "data"
        return f"AppendedBatch({self.base_offset}..{self.last_offset} epoch {self.epoch} {kind})"


class LeaderAndEpoch(NamedTuple):
    """The leader of an epoch, or None while it has none that this replica knows."""

    leader_id: int | None
    epoch: int

    def is_leader(self, node_id: int) -> bool:
        return self.leader_id == node_id

    def __repr__(self) -> str:
        return f"LeaderAndEpoch({self.leader_id}, {self.epoch})"


class LogSlice(NamedTuple):
    """Records to add to a response when it is sent: whole batches from an offset, at least one."""

    start_offset: int
    max_bytes: int


class SnapshotChunk(NamedTuple):
    """Bytes of a snapshot file to add to a response when it is sent."""

    snapshot_id: OffsetAndEpoch
    position: int
    max_bytes: int


class OutboundRequest(NamedTuple):
    """A request to another replica; its response has the same correlation id."""

    correlation_id: int
    destination_id: int
    endpoint: Endpoint
    body: Request[Message]
    timeout_ms: int

    def __repr__(self) -> str:
        return f"OutboundRequest({type(self.body).__name__} #{self.correlation_id} -> {self.destination_id})"


class OutboundResponse(NamedTuple):
    """The response to the request with this correlation id."""

    correlation_id: int
    body: Message
    fill: LogSlice | SnapshotChunk | None = None

    def __repr__(self) -> str:
        return f"OutboundResponse({type(self.body).__name__} #{self.correlation_id})"


class Ready:
    """The module's text describes the use and the order of the fields."""

    __slots__ = (
        "appends",
        "committed",
        "election_state",
        "fetch_snapshot",
        "has_recovered",
        "high_watermark",
        "last_offset",
        "leader_and_epoch",
        "requests",
        "responses",
        "restart_at",
        "snapshot_to_freeze",
        "truncate_to",
    )

    def __init__(self) -> None:
        self.election_state: ElectionState | None = None
        self.truncate_to: int | None = None
        self.restart_at: OffsetAndEpoch | None = None
        """Drop the whole log and continue after this snapshot."""
        self.appends: list[AppendedBatch] = []
        self.last_offset: int | None = None
        """The result of ``append``: the offset that the last of its records has or will have."""
        self.requests: list[OutboundRequest] = []
        self.responses: list[OutboundResponse] = []
        self.fetch_snapshot: list[tuple[OffsetAndEpoch, int, bytes | memoryview]] = []
        """Chunks of a snapshot that is being fetched: id, position, bytes. Position 0 starts the file again."""
        self.snapshot_to_freeze: OffsetAndEpoch | None = None
        """All chunks have arrived: make the snapshot durable, then call ``snapshot_fetched``."""
        self.has_recovered = False
        """A voter that lost records has them again: remove the note about the loss."""
        self.high_watermark: int | None = None
        self.committed: list[AppendedBatch] = []
        self.leader_and_epoch: LeaderAndEpoch | None = None
        """Set when the leader or the epoch has changed, as the layers above should see it."""
