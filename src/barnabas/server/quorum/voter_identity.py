"""Checks that the files of a replica of the metadata log belong to one node and one quorum.

With mixed-up files (a log of another cluster, a ``meta.properties`` with another directory id) a node would wait for a
quorum that does not exist. It refuses to start, and names the file.
"""

from __future__ import annotations

import logging
from itertools import islice

from barnabas.protocol.errors import DecodeError
from barnabas.protocol.record_batch import iter_batches
from barnabas.protocol.records.voters_record import VotersRecord
from barnabas.raft.control_records import read_control_records, voter_set_of
from barnabas.raft.raft_config import RaftConfig
from barnabas.raft.replica_key import OffsetAndEpoch
from barnabas.raft.voter_set import VoterSet
from barnabas.storage.errors import StorageError
from barnabas.storage.file_pool import FilePool
from barnabas.storage.meta_properties import META_PROPERTIES
from barnabas.storage.metadata_log import METADATA_LOG_DIRECTORY
from barnabas.storage.metadata_log_opening import segment_sizes
from barnabas.storage.segment import Segment
from barnabas.storage.snapshot_file import SnapshotReader, list_snapshots, snapshot_path

__all__ = ["MixedUpFiles", "check_directory_id", "check_first_voters", "is_other_directory"]

_log = logging.getLogger(__name__)

_FORMATTED = OffsetAndEpoch(0, 0)
_BATCHES = 100
"""The first leader writes the voters of the formatting into its first batches."""


class MixedUpFiles(StorageError):
    """A file belongs to another node or another cluster. The message names it and advises the operator."""


def check_first_voters(log_dir: str) -> None:
    """Check that the log continues the quorum of the formatting: voters change one by one, so at least one stays."""
    directory = f"{log_dir}/{METADATA_LOG_DIRECTORY}"
    formatted, begun = _formatted_voters(directory), _first_voters(directory)
    if formatted is None or begun is None:
        return
    path, first = begun
    if set(formatted.ids).isdisjoint(first.ids):
        raise MixedUpFiles(
            f"{path}: the log belongs to another quorum: it begins with the voters {_text(first)}, and "
            f"{snapshot_path(directory, _FORMATTED)} names {_text(formatted)}. Restore the directory {directory} from "
            "a backup of this node"
        )


def check_directory_id(log_dir: str, raft: RaftConfig, voters: VoterSet) -> None:
    """Refuse a node if its log names as the only voter this node in another directory.

    With other bootstrap servers the log may end too early: a node with a new disk fetches it from its beginning, when
    it was the only voter, and later voters follow. Such a node starts, with a warning that advises what to do if it
    waits.
    """
    if not raft.can_be_voter or not is_other_directory(raft, voters):
        return
    path = f"{log_dir}/{META_PROPERTIES}"
    problem = f"this node is {raft.key}, but the only voter in {log_dir}/{METADATA_LOG_DIRECTORY} is {_text(voters)}"
    if not raft.has_other_bootstrap_servers:
        raise MixedUpFiles(f"{path}: {problem}. Restore meta.properties with that directory.id")
    _log.warning(
        "%s: %s. This node fetches the rest of the log from the bootstrap servers; if they do not lead this quorum, "
        "restore meta.properties with that directory.id",
        path, problem,
    )  # fmt: skip


def is_other_directory(raft: RaftConfig, voters: VoterSet) -> bool:
    """Return whether the only voter is this node in another directory."""
    return voters.ids == [raft.node_id] and not voters.is_voter(raft.key)


def _formatted_voters(directory: str) -> VoterSet | None:
    try:
        if _FORMATTED not in list_snapshots(directory):
            return None
        return SnapshotReader(directory, _FORMATTED).voters
    except (StorageError, OSError):
        return None  # Opening the log decides whether that matters.


def _first_voters(directory: str) -> tuple[str, VoterSet] | None:
    """Return the path of the segment with offset 0, and the first voters that it names."""
    try:
        size = segment_sizes(directory).get(0, 0)
        segment = Segment(directory, 0, FilePool(1), size=size)
        for batch in islice(iter_batches(segment.map()), _BATCHES):
            for _, record in read_control_records(batch) if batch.is_control else ():
                if isinstance(record, VotersRecord):
                    return segment.path, voter_set_of(record)
    except (StorageError, OSError, DecodeError):
        pass
    return None


def _text(voters: VoterSet) -> str:
    return ", ".join(map(str, voters.keys))
