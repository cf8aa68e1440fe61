"""Defects in the handling of records that a disk has lost after they were durable."""

from __future__ import annotations

from typing import Any

from tests.simulation.cluster.defects import defect, replace_in


@defect(
    "damaged-voter-votes",
    "a voter grants votes before it has recovered the records that it had acknowledged",
    needs="rots",
)
def _() -> None:
    def make(original: Any) -> Any:
        def decide(replica: Any, *arguments: Any) -> Any:
            recovery, replica.quorum.recovery = replica.quorum.recovery, None
            try:
                return original(replica, *arguments)
            finally:
                replica.quorum.recovery = recovery

        return decide

    replace_in("raft.vote_protocol", "_decide", make)


@defect(
    "damaged-voter-becomes-a-candidate", "a voter becomes a candidate with the remainder of a damaged log", needs="rots"
)
def _() -> None:
    replace_in("raft.quorum_state", "QuorumState.may_vote", lambda original: property(lambda self: self.is_voter))


@defect(
    "recovery-cuts-in-the-middle", "recovery truncates a log at its first bad batch, whatever follows it", needs="rots"
)
def _() -> None:
    replace_in("storage.metadata_log_opening", "judge", lambda original: lambda *arguments, **options: None)


@defect("loss-is-forgotten", "a voter forgets at a restart which records it had lost", needs="rots")
def _() -> None:
    replace_in("storage.lost_promises_file", "LostPromisesFile.read", lambda original: lambda self: None)


@defect(
    "damaged-voter-claims-its-former-end",
    "a voter acknowledges its former log while it fetches the lost records",
    needs="rots",
)
def _() -> None:
    def make(original: Any) -> Any:
        def fetch_request(replica: Any) -> Any:
            request = original(replica)
            recovery = replica.quorum.recovery
            if recovery is not None and request.topics[0].partitions[0].fetch_offset > 0:
                request.topics[0].partitions[0].fetch_offset = max(
                    recovery.lost.end_offset, request.topics[0].partitions[0].fetch_offset
                )
            return request

        return fetch_request

    replace_in("raft.replication", "_fetch_request", make)


@defect("damaged-log-is-started-alone", "a node without peers truncates its damaged log, and starts", needs="rots")
def _() -> None:
    replace_in("server.quorum.raft_recovery", "_has_peers", lambda original: lambda log_dir, raft: True)
    replace_in("storage.lost_promises_file", "LostPromisesFile.read", lambda original: lambda self: None)


@defect("damaged-snapshot-is-loaded", "a snapshot is used without verification", needs="rots")
def _() -> None:
    replace_in("storage.snapshot_file", "SnapshotReader.verify", lambda original: lambda self: None)


@defect("forgotten-epochs-are-not-requested", "a voter that lost its quorum-state counts in any epoch", needs="rots")
def _() -> None:
    replace_in(
        "server.quorum.raft_recovery", "_stored_election", lambda original: lambda file, last: (None, None, False)
    )
