"""Messages from other replicas, in the form that the raft node takes."""

from __future__ import annotations

from barnabas.protocol.schema import Message
from barnabas.raft.replica_key import OffsetAndEpoch
from barnabas.raft.voter_set import VoterSet

__all__ = ["FetchedSnapshot", "Inbound", "RaftRequest", "RaftResponse", "RequestFailed"]


class RaftRequest:
    """A request, in the API version of its sender; the answer goes out under the same correlation id."""

    __slots__ = ("body", "correlation_id", "version")

    def __init__(self, correlation_id: int, body: Message, version: int) -> None:
        self.correlation_id = correlation_id
        self.body = body
        self.version = version


class RaftResponse:
    """The answer to a request of this node, by the id that the request was sent to."""

    __slots__ = ("body", "correlation_id", "source_id")

    def __init__(self, correlation_id: int, source_id: int, body: Message) -> None:
        self.correlation_id = correlation_id
        self.source_id = source_id
        self.body = body


class RequestFailed:
    """A request of this node that will get no answer: the connection broke, or the peer is too old for it."""

    __slots__ = ("correlation_id", "is_refused", "is_unsupported_version", "source_id")

    def __init__(
        self, correlation_id: int, source_id: int, *, is_unsupported_version: bool = False, is_refused: bool = False
    ) -> None:
        """``is_refused``: the peer's machine refused the connection."""
        self.correlation_id = correlation_id
        self.source_id = source_id
        self.is_unsupported_version = is_unsupported_version
        self.is_refused = is_refused


class FetchedSnapshot:
    """A snapshot that was fetched and is complete on disk, with what its control records say."""

    __slots__ = ("kraft_version", "size", "snapshot_id", "voters")

    def __init__(
        self, snapshot_id: OffsetAndEpoch, size: int, *, kraft_version: int | None, voters: VoterSet | None
    ) -> None:
        self.snapshot_id = snapshot_id
        self.size = size
        self.kraft_version = kraft_version
        self.voters = voters


Inbound = RaftRequest | RaftResponse | RequestFailed
