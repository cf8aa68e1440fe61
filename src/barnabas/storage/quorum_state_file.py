"""``quorum-state``: the election of this replica's current epoch, as one line of JSON.

Version 1 belongs to kraft.version 1, version 0 to a quorum whose voters are configured. Both are read; the written
version follows the current kraft.version. The file is replaced atomically and durable when ``write`` returns.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress

from barnabas.common.uuid import Uuid
from barnabas.raft.election_state import ElectionState
from barnabas.raft.replica_key import ReplicaKey
from barnabas.storage.checkpoint_file import write_atomically
from barnabas.storage.errors import CorruptFileError, StorageError
from barnabas.storage.file_io import naming

__all__ = ["QUORUM_STATE", "QuorumStateFile"]

QUORUM_STATE = "quorum-state"
NO_REPLICA = -1
_VERSION_MAX = 1


class QuorumStateFile:
    def __init__(self, directory: str) -> None:
        self.path = f"{directory}/{QUORUM_STATE}"

    def read(self) -> ElectionState | None:
        """Read the file; None if the replica has never taken part in an election."""
        try:
            with naming(self.path), open(self.path, "rb") as file:
                text = file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"{self.path}: {error.strerror}") from error
        try:
            fields = json.loads(text)
            version = int(fields["data_version"])
            if not 0 <= version <= _VERSION_MAX:
                raise CorruptFileError(self.path, f"data_version {version} is not 0 or 1")
            leader_id, voted_id = int(fields["leaderId"]), int(fields["votedId"])
            directory_id = Uuid.from_string(fields["votedDirectoryId"]) if version >= 1 else Uuid.ZERO
            epoch = int(fields["leaderEpoch"])
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFileError(self.path, f"not a quorum state: {error}") from error
        return ElectionState(
            epoch=epoch,
            leader_id=None if leader_id == NO_REPLICA else leader_id,
            voted_key=None if voted_id == NO_REPLICA else ReplicaKey(voted_id, directory_id),
        )

    def write(self, election: ElectionState, kraft_version: int, voter_ids: Iterable[int] = ()) -> None:
        """Replace the file durably; only version 0 names the voters."""
        leader_id = NO_REPLICA if election.leader_id is None else election.leader_id
        voted = election.voted_key or ReplicaKey(NO_REPLICA)
        fields: dict[str, object]
        if kraft_version >= 1:
            fields = {
                "leaderId": leader_id,
                "leaderEpoch": election.epoch,
                "votedId": voted.id,
                "votedDirectoryId": str(voted.directory_id),
                "data_version": 1,
            }
        else:
            # The three extra fields are no longer used by readers; Kafka still writes them.
            fields = {
                "clusterId": "",
                "leaderId": leader_id,
                "leaderEpoch": election.epoch,
                "votedId": voted.id,
                "appliedOffset": 0,
                "currentVoters": [{"voterId": voter_id} for voter_id in sorted(voter_ids)],
                "data_version": 0,
            }
        write_atomically(self.path, json.dumps(fields, separators=(",", ":")).encode())

    def clear(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self.path)
