"""The sets of voters in the logs, read from the batches on every disk, independently of the product's own state.

A set is in force as soon as its record is in a log, and a majority is always one of the newest set. A leader
checks two conditions when it writes the record, so that this is safe: one voter is added or removed at a time, and the
previous set and a record of the leader's own epoch are committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from barnabas.common.errors import ErrorCode
from barnabas.protocol.record_batch import BatchView
from barnabas.protocol.records.voters_record import VotersRecord
from barnabas.raft.control_records import read_control_records
from barnabas.storage.snapshot_file import SnapshotReader

if TYPE_CHECKING:
    from barnabas.raft.replica_key import OffsetAndEpoch
    from barnabas.raft.voter_set import VoterSet
    from tests.simulation.cluster.checks import Checks
    from tests.simulation.cluster.node import SimulatedNode

__all__ = ["VoterLog", "VoterWatch", "Voters"]

Voters = frozenset[tuple[int, str]]
"""The (id, directory) of each voter; the directory is empty if the voters are configured statically."""

CONTROL_FLAG = 0x20


def _voters_of(record: VotersRecord) -> Voters:
    return frozenset((voter.voter_id, str(voter.voter_directory_id)) for voter in record.voters)


def _voters_in(voters: VoterSet) -> Voters:
    return frozenset((voter.key.id, str(voter.key.directory_id) if voter.key.has_directory else "") for voter in voters)


def _ports_of(record: VotersRecord) -> dict[int, int]:
    return {voter.voter_id: voter.endpoints[0].port for voter in record.voters}


def _records(batch: BatchView) -> Iterator[tuple[int, VotersRecord]]:
    if batch.is_control:
        for offset, record in read_control_records(batch):
            if isinstance(record, VotersRecord):
                yield offset, record


class VoterLog:
    """The voter sets of one log by the offset of their record, after the set of the configuration or of formatting."""

    def __init__(self, configured: Voters) -> None:
        self._configured = configured
        self.entries: list[tuple[int, Voters]] = [(-1, configured)]

    @property
    def newest(self) -> Voters:
        return self.entries[-1][1]

    @property
    def before_newest(self) -> Voters:
        return self.entries[-2][1] if len(self.entries) > 1 else frozenset()

    def at(self, offset: int) -> Voters:
        return next((voters for start, voters in reversed(self.entries) if start <= offset), self._configured)

    def after(self, offset: int) -> list[Voters]:
        return [voters for start, voters in self.entries if start > offset]

    def add(self, offset: int, voters: Voters) -> None:
        self.entries.append((offset, voters))

    def truncate(self, end_offset: int) -> None:
        self.entries = [entry for entry in self.entries if entry[0] < end_offset]

    def restart(self, offset: int, voters: Voters | None) -> None:
        self.entries = [(-1, self._configured)]
        if voters is not None:
            self.add(offset, voters)


class VoterWatch:
    def __init__(self, checks: Checks) -> None:
        self._checks = checks
        self._world = checks.world
        shape = checks.world.shape
        self.committed = VoterLog(_voters_in(shape.voters))
        self.ports: dict[int, int] = {voter.key.id: 9093 for voter in shape.voters}
        """The port of each voter in the newest committed set."""
        self._committed_epochs: set[int] = set()

    # --- the voters in each log

    def opened(self, node: SimulatedNode) -> None:
        configured = _voters_in(self._world.shape.voters) if self._world.shape.is_static else frozenset()
        node.voters = VoterLog(configured)
        log = node.driver.log
        if log.latest_snapshot_id is not None:
            self.restarted(node, log.latest_snapshot_id)
        for batch in log.batches(self._checks.rot.first_sound_offset(node)):
            for offset, record in _records(batch):
                if offset > node.voters.entries[-1][0]:
                    node.voters.add(offset, _voters_of(record))

    def restarted(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch) -> None:
        """Follow a log that restarts after a snapshot."""
        found = SnapshotReader(node.disk.log_folder, snapshot_id).voters
        node.voters.restart(snapshot_id.offset - 1, None if found is None else _voters_in(found))

    def wrote(self, node: SimulatedNode, data: bytes, *, is_first: bool) -> None:
        """Follow a written batch. ``is_first`` means that it is in its first log, so its leader has just created it."""
        if not data[22] & CONTROL_FLAG:
            return
        batch = BatchView(data)
        for offset, record in _records(batch):
            voters = _voters_of(record)
            if is_first:
                self._check_new(node, batch.leader_epoch, offset, voters)
            node.voters.add(offset, voters)

    def _check_new(self, node: SimulatedNode, epoch: int, offset: int, voters: Voters) -> None:
        before_offset, before = node.voters.entries[-1]
        if voters == before:
            return  # The first leader writes the voters of formatting into the log.
        what = f"{node.name} writes the voters {_shown(voters)} at {offset}"
        if epoch not in self._committed_epochs:
            self._checks.fail(f"{what} before a record of its epoch {epoch} is committed")
        if before_offset >= self._checks.end_offset:
            self._checks.fail(f"{what} before the voters at {before_offset} are committed")
        is_upgrade = all(directory == "" for _, directory in before)
        changed = {id_ for id_, _ in voters} ^ {id_ for id_, _ in before} if is_upgrade else voters ^ before
        if len(changed) > (0 if is_upgrade else 1):
            self._checks.fail(f"{what} after {_shown(before)}: {len(changed)} voters change in one step")
        for id_, directory in voters - before:
            self._check_joins(what, id_, directory)

    def _check_joins(self, what: str, id_: int, directory: str) -> None:
        """Check that a new voter can vote: a controller with that directory, and software that supports it."""
        node = self._world.nodes.get(id_)
        if node is None or not node.is_controller or directory not in map(str, node.directory_ids):
            self._checks.fail(f"{what}: a controller {id_} with directory {directory} does not exist")
        elif node.software.kraft_version < 1:
            self._checks.fail(f"{what}: the software {node.software.name} of {id_} does not support voters in the log")

    # --- committed batches

    def committed_batch(self, node: SimulatedNode, batch: Any, data: bytes) -> None:
        """Check that a majority has a batch when a node first reports it as committed."""
        sets = self._sets_in_force(node, batch.last_offset)
        holders: set[tuple[int, str]] = set()
        for other in self._world.controllers:
            found = other.directories_with(data, batch.last_offset)
            holders |= {(other.id, directory) for directory in found}
            if other.directory in found:
                holders.add((other.id, ""))
        if not any(len(voters & holders) * 2 > len(voters) for voters in sets):
            names = sorted({id_ for id_, _ in holders})
            self._checks.fail(f"{node.name} commits {batch.base_offset}, which is durable only on {names}")
        self._committed_epochs.add(int.from_bytes(data[12:16], "big", signed=True))
        if data[22] & CONTROL_FLAG:
            for offset, record in _records(BatchView(data)):
                self.committed.add(offset, _voters_of(record))
                self.ports = _ports_of(record)
                self._checks.counts["changes of the voters"] += 1

    def _sets_in_force(self, node: SimulatedNode, offset: int) -> list[Voters]:
        """Return the set at this offset and those that leaders have written since: a leader uses the newest one."""
        logs = [node, *(other for other in self._world.controllers if other.is_leader)]
        return [node.voters.at(offset), *(voters for other in logs for voters in other.voters.after(offset))]

    def published(self, node: SimulatedNode) -> None:
        """Compare the product's own voters with the committed log, at the offset that the node has applied."""
        offset = node.image_offset
        known = node.driver.control_records.voter_set_at(offset)
        expected = self.committed.at(offset)
        if known is not None and _voters_in(known) != expected:
            found = _shown(_voters_in(known))
            self._checks.fail(f"{node.name} has the voters {found} at {offset} instead of {_shown(expected)}")

    def snapshot_made(self, node: SimulatedNode, reader: SnapshotReader) -> None:
        expected = self.committed.at(reader.snapshot_id.offset - 1)
        found = None if reader.voters is None else _voters_in(reader.voters)
        if found is None and all(directory == "" for _, directory in expected):
            return
        if found != expected:
            text = "empty" if found is None else _shown(found)
            self._checks.fail(
                f"the voters in the snapshot {reader.snapshot_id} of {node.name} are {text} instead of "
                f"{_shown(expected)}"
            )

    # --- leaders and answers

    def elected(self, node: SimulatedNode) -> None:
        """Check that a new leader is a voter.

        A voter that the last change in its log removed may lead: the others may need its log to commit that change.
        """
        is_voter = bool(node.voters.newest & {(node.id, ""), (node.id, node.directory)})
        if not is_voter and (node.id, node.directory) not in node.voters.before_newest:
            self._checks.fail(f"{node.name} leads, but the voters of its log are {_shown(node.voters.newest)}")
        waiting, self._world.at_next_leader = self._world.at_next_leader, []
        for action in waiting:
            self._world.loop.call_soon(action, node, context=self._world.no_process)

    def answer_problem(self, node: SimulatedNode, begun: int, request: Any, response: Any) -> str | None:
        """Return a problem if an acknowledged change of the voters is not in the log.

        The replica answers when its high watermark passes the change, before the batch is delivered.
        """
        kind = type(request).__name__
        if kind not in ("AddRaftVoterRequest", "RemoveRaftVoterRequest") or response.error_code != ErrorCode.NONE:
            return None
        key = (request.voter_id, str(request.voter_directory_id))
        since = [self.committed.at(begun - 1), *self.committed.after(begun - 1)]
        high_watermark = node.driver.high_watermark or 0
        since += [
            voters for offset, voters in node.voters.entries if self._checks.end_offset <= offset < high_watermark
        ]
        is_added = kind == "AddRaftVoterRequest"
        if is_added and not request.ack_when_committed:
            return None
        if any((key in voters) is is_added for voters in since):
            return None
        return f"{key} is reported as {'added' if is_added else 'removed'}, but the log has {_shown(since[-1])}"


def _shown(voters: Voters) -> list[int]:
    return sorted(id_ for id_, _ in voters)
