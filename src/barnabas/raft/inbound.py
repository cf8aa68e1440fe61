"""Messages from other replicas, in the form that the raft node receives."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.protocol.schema import Message
from barnabas.raft.replica_key import OffsetAndEpoch
from barnabas.raft.voter_set import VoterSet

__all__ = ["FetchedSnapshot", "Inbound", "RaftRequest", "RaftResponse", "RequestFailed"]


class RaftRequest(NamedTuple):
    """A request, in the API version of its sender; its response has the same correlation id."""

    correlation_id: int
    body: Message
    version: int


class RaftResponse(NamedTuple):
    """The answer to a request of this node, by the id that the request was sent to."""

    correlation_id: int
    source_id: int
    body: Message


class RequestFailed(NamedTuple):
    """A request of this node that will receive no answer: the connection broke, or the peer is too old for it.

    ``is_refused``: the peer's machine refused the connection.
    """

    correlation_id: int
    source_id: int
    is_unsupported_version: bool = False
    is_refused: bool = False


class FetchedSnapshot(NamedTuple):
    """A snapshot that was fetched and is complete on disk, with what its control records say."""

    snapshot_id: OffsetAndEpoch
    size: int
    kraft_version: int | None
    voters: VoterSet | None


Inbound = RaftRequest | RaftResponse | RequestFailed
