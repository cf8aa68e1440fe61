"""Collects the decisions of one call to the raft node, until they are returned as a ``Ready``."""

from __future__ import annotations

from barnabas.protocol.schema import Message
from barnabas.raft.election_state import ElectionState
from barnabas.raft.ready import LogSlice, OutboundResponse, Ready, SnapshotChunk

__all__ = ["Outbox"]


class Outbox:
    def __init__(self) -> None:
        self.ready = Ready()

    def take(self) -> Ready:
        ready, self.ready = self.ready, Ready()
        return ready

    def persist(self, election: ElectionState) -> None:
        self.ready.election_state = election

    def respond(self, correlation_id: int, body: Message, fill: LogSlice | SnapshotChunk | None = None) -> None:
        self.ready.responses.append(OutboundResponse(correlation_id, body, fill))
