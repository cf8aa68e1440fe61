"""A quorum of raft nodes in one process: a simulated network, disks that lose unflushed data, one clock.

Every message travels as bytes. Invariants are checked at each step: an epoch has one leader, every replica has the same
record at each committed offset, epochs never decrease, and committed records are never lost.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import replace

from barnabas.common.uuid import Uuid
from barnabas.protocol.record_batch import BatchView
from barnabas.protocol.schema import Message
from barnabas.raft.control_record_state_machine import BOOTSTRAP_OFFSET, ControlRecordStateMachine
from barnabas.raft.election_state import ElectionState
from barnabas.raft.inbound import FetchedSnapshot, RaftRequest, RaftResponse, RequestFailed
from barnabas.raft.leader_epochs import LeaderEpochs
from barnabas.raft.log_state import LogState
from barnabas.raft.raft_config import RaftConfig
from barnabas.raft.raft_node import RaftNode
from barnabas.raft.ready import AppendedBatch, OutboundRequest, OutboundResponse, Ready, SnapshotChunk
from barnabas.raft.replica_key import OffsetAndEpoch, ReplicaKey
from barnabas.raft.voter_set import Endpoint, VoterNode, VoterSet

__all__ = ["Cluster", "Replica", "TextSerde"]

Trace = Callable[[str], None]


class TextSerde:
    """A serializer of records that are strings."""

    def encode(self, record: str) -> bytes:
        return record.encode()

    def decode(self, value: bytes | memoryview) -> str:
        return bytes(value).decode()


def directory_of(node_id: int) -> Uuid:
    return Uuid.from_int(1000 + node_id)


def voter(node_id: int) -> VoterNode:
    return VoterNode(
        key=ReplicaKey(node_id, directory_of(node_id)),
        listeners={"CONTROLLER": Endpoint(f"host{node_id}", 9093)},
        kraft_version_max=1,
    )


class Snapshot:
    """The content of a snapshot file."""

    def __init__(self, data: bytes, voters: VoterSet, kraft_version: int) -> None:
        self.data = data
        self.voters = voters
        self.kraft_version = kraft_version


class Disk:
    """The durable state of a replica; ``flushed`` batches survive a crash."""

    def __init__(self) -> None:
        self.election: ElectionState | None = None
        self.start_offset = 0
        self.batches: list[AppendedBatch] = []
        self.flushed = 0
        self.snapshots: dict[OffsetAndEpoch, Snapshot] = {}
        self.partial: dict[OffsetAndEpoch, bytes] = {}

    @property
    def end_offset(self) -> int:
        return self.batches[-1].last_offset + 1 if self.batches else self.start_offset

    def lose_unflushed(self) -> None:
        del self.batches[self.flushed :]
        self.partial.clear()

    def truncate_to(self, end_offset: int) -> None:
        while self.batches and self.batches[-1].last_offset >= end_offset:
            self.batches.pop()
        self.flushed = min(self.flushed, len(self.batches))

    def restart_at(self, snapshot_id: OffsetAndEpoch) -> None:
        self.batches.clear()
        self.flushed = 0
        self.start_offset = snapshot_id.offset

    def read(self, offset: int, max_bytes: int) -> bytes:
        data = b""
        for batch in self.batches:
            if batch.last_offset >= offset and (not data or len(data) + len(batch.data) <= max_bytes):
                data += bytes(batch.data)
            elif data:
                break
        return data


class Replica:
    def __init__(self, cluster: Cluster, node_id: int, *, can_be_voter: bool) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.can_be_voter = can_be_voter
        self.disk = Disk()
        self.node: RaftNode | None = None
        self.applied: dict[int, str] = {}
        self.applied_to = 0
        self.callers: dict[int, tuple[Replica, OutboundRequest]] = {}
        self.incarnation = 0
        self.last_epoch = 0

    @property
    def is_up(self) -> bool:
        return self.node is not None

    def start(self) -> None:
        cluster, disk = self.cluster, self.disk
        self.incarnation += 1
        self.callers.clear()
        self.applied.clear()
        self.applied_to = 0
        control_records = ControlRecordStateMachine(cluster.static_voters)
        latest = max(disk.snapshots, default=None)
        if latest is not None:
            snapshot = disk.snapshots[latest]
            control_records.replay_kraft_version(latest.offset - 1, snapshot.kraft_version)
            control_records.replay_voters(latest.offset - 1, snapshot.voters)
            if latest.offset > disk.end_offset:
                disk.restart_at(latest)
        elif self.can_be_voter and cluster.static_voters is None:
            control_records.replay_kraft_version(BOOTSTRAP_OFFSET, 1)
            control_records.replay_voters(BOOTSTRAP_OFFSET, VoterSet(voter(id_) for id_ in cluster.voter_ids))
        epochs = LeaderEpochs()
        for batch in disk.batches:
            epochs.assign(batch.epoch, batch.base_offset)
            if batch.is_control and (latest is None or batch.base_offset >= latest.offset):
                control_records.replay_batch(BatchView(batch.data, 0))
        log = LogState(
            start_offset=disk.start_offset,
            end_offset=disk.end_offset,
            epochs=epochs,
            snapshots={id_: len(snapshot.data) for id_, snapshot in disk.snapshots.items()},
        )
        config = replace(
            cluster.config,
            node_id=self.node_id,
            directory_id=directory_of(self.node_id),
            can_be_voter=self.can_be_voter,
            listeners=voter(self.node_id).listeners,
        )
        self.control_records = control_records
        self.node = RaftNode(
            config=config,
            log=log,
            control_records=control_records,
            serde=TextSerde(),
            random_below=cluster.random.randrange,
        )
        self.carry_out(self.node.start(disk.election, cluster.now_ms))

    def crash(self) -> None:
        self.node = None
        self.disk.lose_unflushed()

    # --- executing the node's outputs

    def carry_out(self, ready: Ready) -> None:
        cluster, disk = self.cluster, self.disk
        if ready.election_state is not None:
            disk.election = ready.election_state
        if ready.truncate_to is not None:
            disk.truncate_to(ready.truncate_to)
        if ready.restart_at is not None:
            disk.restart_at(ready.restart_at)
        disk.batches.extend(ready.appends)
        for response in ready.responses:
            self._respond(response)
        for request in ready.requests:
            cluster.send_request(self, request)
        for snapshot_id, position, data in ready.fetch_snapshot:
            before = b"" if position == 0 else disk.partial[snapshot_id]
            assert position == len(before)
            disk.partial[snapshot_id] = before + bytes(data)
        cluster.check_replica(self)
        if ready.snapshot_to_freeze is not None:
            self._install(ready.snapshot_to_freeze)
        if ready.high_watermark is not None:
            self._apply(ready.high_watermark)
        if len(disk.batches) > disk.flushed:
            cluster.schedule_flush(self)

    def flush(self) -> None:
        if self.node is not None:
            self.disk.flushed = len(self.disk.batches)
            self.carry_out(self.node.log_flushed(self.disk.end_offset, self.cluster.now_ms))

    def _respond(self, response: OutboundResponse) -> None:
        caller, request = self.callers.pop(response.correlation_id)
        body = response.body
        if isinstance(response.fill, SnapshotChunk):
            fill = response.fill
            data = self.disk.snapshots[fill.snapshot_id].data[fill.position : fill.position + fill.max_bytes]
            body.topics[0].partitions[0].unaligned_records = data  # type: ignore[attr-defined]
        elif response.fill is not None:
            data = self.disk.read(response.fill.start_offset, response.fill.max_bytes)
            body.responses[0].partitions[0].records = data  # type: ignore[attr-defined]
        self.cluster.send_response(self, caller, request, body)

    def _install(self, snapshot_id: OffsetAndEpoch) -> None:
        assert self.node is not None
        data = self.disk.partial.pop(snapshot_id)
        source = self.cluster.snapshot_of(snapshot_id)
        self.disk.snapshots[snapshot_id] = Snapshot(data, source.voters, source.kraft_version)
        self.applied = self.cluster.decode_snapshot(data)
        self.applied_to = snapshot_id.offset
        fetched = FetchedSnapshot(snapshot_id, len(data), kraft_version=source.kraft_version, voters=source.voters)
        self.carry_out(self.node.snapshot_fetched(fetched, self.cluster.now_ms))

    def _apply(self, high_watermark: int) -> None:
        latest = max(self.disk.snapshots, default=None)
        if latest is not None and self.applied_to < latest.offset <= high_watermark:
            self.applied = self.cluster.decode_snapshot(self.disk.snapshots[latest].data)
            self.applied_to = latest.offset
        for batch in self.disk.batches:
            if batch.base_offset < self.applied_to or batch.last_offset >= high_watermark:
                continue
            if not batch.is_control:
                for record in BatchView(batch.data, 0).records():
                    self.applied[record.offset] = (record.value or b"").decode()
            self.applied_to = batch.last_offset + 1
        self.cluster.check_committed(self)

    def snapshot(self) -> OffsetAndEpoch | None:
        """Write a snapshot of everything applied, and drop the log before it."""
        if self.node is None or self.applied_to == 0:
            return None
        last = [batch for batch in self.disk.batches if batch.last_offset < self.applied_to]
        if not last:
            return None
        snapshot_id = OffsetAndEpoch(self.applied_to, last[-1].epoch)
        if snapshot_id in self.disk.snapshots:
            return None
        voters = self.control_records.voter_set_at(self.applied_to - 1)
        assert voters is not None
        data = self.cluster.encode_snapshot(self.applied)
        self.disk.snapshots[snapshot_id] = Snapshot(
            data, voters, self.control_records.kraft_version_at(self.applied_to - 1)
        )
        self.cluster.all_snapshots[snapshot_id] = self.disk.snapshots[snapshot_id]
        self.node.snapshot_created(snapshot_id, len(data))
        self.node.log_start_moved(snapshot_id)
        dropped = len(last)
        del self.disk.batches[:dropped]
        self.disk.flushed = max(0, self.disk.flushed - dropped)
        self.disk.start_offset = snapshot_id.offset
        self.disk.snapshots = {id_: kept for id_, kept in self.disk.snapshots.items() if id_ >= snapshot_id}
        return snapshot_id


class Cluster:
    """``voter_ids`` vote and hold the voters in their 0-0 checkpoint; ``observer_ids`` only follow."""

    def __init__(
        self,
        voter_ids: list[int],
        *,
        observer_ids: list[int] | None = None,
        seed: int = 0,
        trace: Trace | None = None,
        is_static: bool = False,
    ) -> None:
        self.random = random.Random(seed)
        self.voter_ids = voter_ids
        self.static_voters = (
            VoterSet(replace(voter(id_), key=ReplicaKey(id_)) for id_ in voter_ids) if is_static else None
        )
        self.now_ms = 0
        self.config = RaftConfig(
            node_id=0,
            directory_id=Uuid.ZERO,
            cluster_id="cluster",
            bootstrap_servers=tuple(Endpoint(f"host{id_}", 9093) for id_ in voter_ids),
            fetch_snapshot_max_bytes=64,
        )
        self.replicas = {id_: Replica(self, id_, can_be_voter=True) for id_ in voter_ids}
        self.replicas |= {id_: Replica(self, id_, can_be_voter=False) for id_ in observer_ids or []}
        self.trace = trace
        self.latency_ms = (1, 5)
        self.flush_ms = (0, 3)
        self.loss = 0.0
        self.cut: set[frozenset[int]] = set()
        self.all_snapshots: dict[OffsetAndEpoch, Snapshot] = {}
        self.leaders: dict[int, int] = {}
        self.committed: dict[int, str] = {}
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = itertools.count()
        self._correlation = itertools.count(1)
        self._flushing: set[tuple[int, int]] = set()

    # --- time

    def at(self, time_ms: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (time_ms, next(self._sequence), action))

    def run_for(self, duration_ms: int) -> None:
        """Run messages, flushes and timers in the order of their times."""
        end_ms = self.now_ms + duration_ms
        while True:
            due = min((self._next_timer(replica), id_) for id_, replica in self.replicas.items())
            next_event = self._queue[0][0] if self._queue else end_ms + 1
            if min(due[0], next_event) > end_ms:
                break
            if next_event <= due[0]:
                self.now_ms, _, action = heapq.heappop(self._queue)
                action()
            else:
                assert due[0] >= self.now_ms, f"the timer of {due[1]} lies in the past"
                self.now_ms = due[0]
                replica = self.replicas[due[1]]
                assert replica.node is not None
                replica.carry_out(replica.node.tick(self.now_ms))
        self.now_ms = end_ms

    def _next_timer(self, replica: Replica) -> int:
        return replica.node.deadline_ms if replica.node is not None else 1 << 62

    # --- network

    def send_request(self, source: Replica, request: OutboundRequest) -> None:
        target_id = int(request.endpoint.host.removeprefix("host"))
        data = request.body.encode(type(request.body).MAX_VERSION)
        self._say(f"{source.node_id} -> {target_id}: {_describe(request.body)}")
        incarnation = source.incarnation
        if self._is_lost(source.node_id, target_id):
            self.at(self.now_ms + 50, lambda: self._fail(source, incarnation, request))
            return
        self.at(self._arrival(), lambda: self._receive_request(source, target_id, request, data))

    def _receive_request(self, source: Replica, target_id: int, request: OutboundRequest, data: bytes) -> None:
        target = self.replicas[target_id]
        if target.node is None:
            return
        cls = type(request.body)
        correlation_id = next(self._correlation)
        target.callers[correlation_id] = (source, request)
        body = cls.decode(data, cls.MAX_VERSION)
        target.carry_out(target.node.receive(RaftRequest(correlation_id, body, cls.MAX_VERSION), self.now_ms))

    def send_response(self, source: Replica, target: Replica, request: OutboundRequest, body: Message) -> None:
        data = body.encode(type(body).MAX_VERSION)
        self._say(f"{source.node_id} -> {target.node_id}: {_describe(body)}")
        if self._is_lost(source.node_id, target.node_id):
            return
        incarnation = target.incarnation
        self.at(self._arrival(), lambda: self._receive_response(target, incarnation, request, type(body), data))

    def _receive_response(
        self, target: Replica, incarnation: int, request: OutboundRequest, cls: type[Message], data: bytes
    ) -> None:
        if target.node is None or target.incarnation != incarnation:
            return
        body = cls.decode(data, cls.MAX_VERSION)
        response = RaftResponse(request.correlation_id, request.destination_id, body)
        target.carry_out(target.node.receive(response, self.now_ms))

    def _fail(self, source: Replica, incarnation: int, request: OutboundRequest) -> None:
        if source.node is not None and source.incarnation == incarnation:
            failure = RequestFailed(request.correlation_id, request.destination_id)
            source.carry_out(source.node.receive(failure, self.now_ms))

    def _is_lost(self, source_id: int, target_id: int) -> bool:
        return frozenset((source_id, target_id)) in self.cut or self.random.random() < self.loss

    def _arrival(self) -> int:
        return self.now_ms + self.random.randint(*self.latency_ms)

    def schedule_flush(self, replica: Replica) -> None:
        key = (replica.node_id, replica.incarnation)
        if key in self._flushing:
            return
        self._flushing.add(key)

        def flush() -> None:
            self._flushing.discard(key)
            if replica.incarnation == key[1]:
                replica.flush()

        self.at(self.now_ms + self.random.randint(*self.flush_ms), flush)

    # --- for tests

    def start(self, *node_ids: int) -> None:
        for node_id in node_ids or self.replicas:
            self.replicas[node_id].start()

    def partition(self, *groups: list[int]) -> None:
        group_of = {node_id: index for index, group in enumerate(groups) for node_id in group}
        self.cut = {
            frozenset((a, b)) for a, b in itertools.combinations(self.replicas, 2) if group_of.get(a) != group_of.get(b)
        }

    def heal(self) -> None:
        self.cut = set()

    @property
    def leader(self) -> Replica | None:
        """Return the leader of the highest epoch among the live replicas in the leader state."""
        leading = [
            replica for replica in self.replicas.values() if replica.node and replica.node.state_name == "Leader"
        ]
        return max(leading, key=lambda replica: replica.node.epoch if replica.node else 0, default=None)

    def append(self, replica: Replica, *records: str) -> None:
        assert replica.node is not None
        self._say(f"{replica.node_id}: append {' '.join(records)}")
        replica.carry_out(replica.node.append(list(records), self.now_ms))

    # --- invariants

    def check_replica(self, replica: Replica) -> None:
        node = replica.node
        assert node is not None
        assert node.epoch >= replica.last_epoch, f"{replica.node_id} returned to epoch {node.epoch}"
        replica.last_epoch = node.epoch
        assert node.log_end_offset == replica.disk.end_offset, f"the log end of {replica.node_id} differs from its disk"
        if node.state_name == "Leader":
            known = self.leaders.setdefault(node.epoch, replica.node_id)
            assert known == replica.node_id, f"{known} and {replica.node_id} both lead epoch {node.epoch}"

    def check_committed(self, replica: Replica) -> None:
        for offset, value in replica.applied.items():
            known = self.committed.setdefault(offset, value)
            assert known == value, f"{replica.node_id} has {value!r} at {offset}, committed was {known!r}"

    # --- snapshots

    def snapshot_of(self, snapshot_id: OffsetAndEpoch) -> Snapshot:
        return self.all_snapshots[snapshot_id]

    @staticmethod
    def encode_snapshot(applied: dict[int, str]) -> bytes:
        return "\n".join(f"{offset}={value}" for offset, value in sorted(applied.items())).encode() or b"-"

    @staticmethod
    def decode_snapshot(data: bytes) -> dict[int, str]:
        lines = [line.partition("=") for line in data.decode().splitlines() if "=" in line]
        return {int(offset): value for offset, _, value in lines}

    def _say(self, line: str) -> None:
        if self.trace is not None:
            self.trace(f"{self.now_ms} ms  {line}")


def _describe(body: Message) -> str:
    """Describe a message by the fields of its partition that are not at their defaults."""
    name = type(body).__name__
    topics = getattr(body, "topics", None) or getattr(body, "responses", None) or []
    if not topics:
        return f"{name} error={getattr(body, 'error_code', 0)}"
    partition = topics[0].partitions[0]
    shown = []
    for field in partition.FIELDS:
        value = getattr(partition, field.name)
        if isinstance(value, Uuid) or field.name in ("partition", "partition_index", "log_start_offset", "index"):
            continue
        if isinstance(value, bytes | memoryview):
            if len(value):
                shown.append(f"{field.name}=[{len(value)} bytes]")
        elif value is not None and value not in ([], False, 0, -1) and not isinstance(value, list):
            shown.append(f"{field.name}={_brief(value)}")
    return f"{name} {' '.join(shown)}".rstrip()


def _brief(value: object) -> str:
    fields = getattr(value, "FIELDS", None)
    return "/".join(str(getattr(value, field.name)) for field in fields) if fields else str(value)
