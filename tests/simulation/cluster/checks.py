"""The invariants of a run, checked wherever they could break. A ``Violation`` ends the run.

The committed log is kept here, its bytes and its meaning, as the first node that learned of each batch had it. Every
node is compared with this copy, never with another node.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from barnabas.coordinator.partitioner import coordinator_partition
from barnabas.metadata.image.metadata_image import MetadataProvenance
from barnabas.metadata.snapshot import image_from_records
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.vote import VoteRequest
from barnabas.raft.replica_key import OffsetAndEpoch
from barnabas.raft.states.candidate import CandidateState
from barnabas.security.authorizer.authorizer import AuthorizerNotReady
from barnabas.storage.quorum_state_file import QUORUM_STATE
from barnabas.storage.snapshot_file import SnapshotReader
from tests.simulation.cluster.answers import check_answer
from tests.simulation.cluster.broker_data import OFFSETS_PARTITIONS
from tests.simulation.cluster.consumer_group_checks import ConsumerGroupChecks
from tests.simulation.cluster.data_checks import DataChecks
from tests.simulation.cluster.data_rot import DataRot
from tests.simulation.cluster.data_watch import DataWatch, PartitionName
from tests.simulation.cluster.decisions import is_allowed, right_for
from tests.simulation.cluster.group_checks import GroupChecks
from tests.simulation.cluster.model import Model, flat_parts
from tests.simulation.cluster.rot import RotWatch
from tests.simulation.cluster.share_checks import ShareChecks
from tests.simulation.cluster.streams_group_checks import StreamsGroupChecks
from tests.simulation.cluster.transaction_checks import TransactionChecks
from tests.simulation.cluster.voters import VoterWatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.metadata.image.metadata_image import MetadataImage
    from barnabas.metadata.loader import CommittedBatch
    from barnabas.protocol.schema import Message
    from barnabas.raft.states.epoch_state import EpochState
    from barnabas.security.request_context import RequestContext
    from tests.simulation.cluster.node import SimulatedNode
    from tests.simulation.cluster.world import World

__all__ = ["Checks", "Violation"]


OWN_VALUES = ("call-", "1000")
"""The prefixes of values that belong to one call of a client."""


class Violation(AssertionError):
    """An invariant was violated."""


class _Life:
    """The observations of one life of a node's process."""

    def __init__(self) -> None:
        self.next_offset: int | None = None
        self.epoch = 0
        self.state: EpochState | None = None
        """The state in which ``stepped`` saw the replica last."""
        self.part_seen: dict[tuple[str, str], tuple[object, int]] = {}
        self.acls_seen = -2
        self.first_high_watermark: int | None = None
        """The high watermark in the first response of a leader to this process."""


class Checks:
    def __init__(self, world: World) -> None:
        self.world = world
        self.model = Model()
        self.batches: dict[int, bytes] = {}
        """Base offset to the bytes of each committed batch."""
        self.batch_starts: dict[int, int] = {}
        self.end_offset = 0
        self.leaders: dict[int, int] = {}
        self.voters = VoterWatch(self)
        self.rot = RotWatch(self)
        self.data_rot = DataRot(self)
        self.groups = GroupChecks(self)
        self.consumer_groups = ConsumerGroupChecks(self, world.shape.consumer_groups)
        self.streams_groups = StreamsGroupChecks(self, world.shape.streams_groups)
        self.share_groups = ShareChecks(self)
        self.records = DataChecks(self)
        self.transactions = TransactionChecks(self)
        self.data = DataWatch(self, self.excused)
        self.votes: dict[tuple[str, int], int] = {}
        self.claimed: dict[str, int] = {}
        """The highest epoch in which each disk has voted in a message, over all lives of its node."""
        self.decided_at: dict[int, int] = {}
        """The newest image offset at which each node has decided an access, over all of its lives."""
        self.acknowledged: dict[int, int] = {}
        """The committed offset when each node last acknowledged a change."""
        self.written: set[bytes] = set()
        """Every batch that was ever written to a log. Recovery may find only these on a disk."""
        self.counts: Counter[str] = Counter()
        self.served: Counter[Any] = Counter()
        self.frames: list[bytes] = []
        """The requests to controllers, as received."""
        self._lives: dict[int, _Life] = {}
        self._elected_s: dict[int, float] = {}
        self._newest_epoch = 0
        self._calls = 0
        self._under_way: dict[int, tuple[int, str]] = {}

    def fail(self, text: str) -> None:
        raise self.world.violated(Violation(text))

    # --- a process begins and ends

    def watch(self, node: SimulatedNode) -> None:
        """Check every decision of this node's authorizer."""
        self._lives[node.id] = _Life()
        authorize = node.authorizer.authorize

        def watched(
            context: RequestContext, operation: Any, resource_type: Any, resource_name: str, **options: bool
        ) -> bool:
            allowed: bool = authorize(context, operation, resource_type, resource_name, **options)
            self.decided(node, context, int(operation), int(resource_type), resource_name, allowed)
            return allowed

        node.authorizer.authorize = watched

    def recovered(self, node: SimulatedNode) -> None:
        """Check that recovery finds every durable batch, possibly other written ones, and nothing else."""
        log, disk = node.driver.log, node.disk
        if log.end_offset < disk.durable_end:
            self.fail(f"{node.name} had {disk.durable_end} durably and finds only {log.end_offset}")
        for batch in log.batches(self.rot.first_sound_offset(node)):
            if batch.tobytes() not in self.written:
                self.fail(f"{node.name} finds a batch at {batch.base_offset} that no node has written")
        disk.durable_end = log.end_offset
        self.voters.opened(node)
        self.rot.recovered(node)

    def died(self, node: SimulatedNode) -> None:
        self._lives.pop(node.id, None)
        self._under_way = {number: call for number, call in self._under_way.items() if call[0] != node.id}

    def excused(self, partition: PartitionName) -> None:
        """Stop expecting the acknowledged records of this partition: they may be lost with its disks."""
        self.records.excused(partition)
        self.transactions.excused(partition)
        self.share_groups.excused(partition)
        if partition.topic == "__consumer_offsets":
            shape = self.world.shape
            self.groups.lost(_groups_of(partition, [group for group, _ in shape.groups]))
            for checks in (self.consumer_groups, self.streams_groups):
                checks.lost(_groups_of(partition, checks.groups))

    def fault(self, node: SimulatedNode, fault: BaseException | None) -> None:
        if isinstance(fault, Violation):
            raise fault
        if node.disk.is_full or node.disk.fails_to_flush or node.errors.explains(fault):
            return
        if self.data_rot.explains(node, fault):
            return
        self.world.violated(Violation(f"{node.name} has an internal fault: {type(fault).__name__}: {fault}"), fault)

    def disk_failed(self, node: SimulatedNode, module: str, operation: str, path: str) -> None:
        """Record a disk error, which entitles the process to end or to disable a directory."""
        self.counts[f"disk error: {operation} in {module}"] += 1
        self.world.say(f"{node.name}: {operation} fails in {module}: {path}")
        if operation in ("fsync", "fdatasync"):
            node.disk.sync_failed(path)
        if f"{path}/".startswith(f"{node.data_disk.folder}/"):
            self.data.shaken(node.id)

    # --- raft

    def stepped(self, node: SimulatedNode) -> None:
        life = self._lives.get(node.id)
        if life is None:
            return
        state = node.driver.node._quorum.state
        if state is life.state and (state.name != "Leader" or state.epoch >= self._newest_epoch):
            return  # Nothing has changed: this is called after each event, and a state never changes its epoch.
        epoch = state.epoch
        if epoch < life.epoch:
            self.fail(f"{node.name} returns from epoch {life.epoch} to {epoch}")
        life.epoch, life.state = epoch, state
        if state.name == "Leader":
            self._leads(node, epoch)

    def _leads(self, node: SimulatedNode, epoch: int) -> None:
        known = self.leaders.get(epoch)
        if known is None:
            self.leaders[epoch] = node.id
            self._elected_s[epoch] = self.world.loop.now_s
            self.voters.elected(node)
            self._newest_epoch = max(self._newest_epoch, epoch)
        elif known != node.id:
            self.fail(f"n{known} and {node.name} both lead epoch {epoch}")
        if epoch < self._newest_epoch and node.owner is not None:
            # The majority that elected the other leader has stopped fetching from this one.
            since_s = max(self._elected_s[self._newest_epoch], node.owner.paused_until_s)
            limit_s = self.world.shape.fetch_timeout_ms * 1.5 / 1000 + 1.0
            if self.world.loop.now_s - since_s > limit_s:
                self.fail(
                    f"{node.name} still leads epoch {epoch}, {limit_s:g} s after epoch {self._newest_epoch} began"
                )

    def started(self, node: SimulatedNode) -> None:
        """Check that the node starts in no earlier epoch than the last one in which it voted."""
        claimed = self.claimed.get(node.directory, 0)
        if node.driver.node.epoch < claimed and not self.rot.has_forgotten(node):
            self.fail(f"{node.name} voted in epoch {claimed} and starts in {node.driver.node.epoch}")

    def sent(self, node: SimulatedNode, body: Message) -> None:
        if isinstance(body, VoteRequest):
            partition = body.topics[0].partitions[0]
            # A voter that forgot its vote also sends such a request, for the epoch in the response.
            if not partition.pre_vote and node.driver.node._quorum.in_state(CandidateState) is not None:
                self.rot.votes(node)
                self._vote_sent(node, partition.replica_epoch)
                self._voted(node, partition.replica_epoch, partition.replica_id)
        elif isinstance(body, FetchRequest) and node.is_controller:
            offset = body.topics[0].partitions[0].fetch_offset
            state = body.replica_state
            if state is not None and state.replica_id >= 0:
                self.rot.acknowledges(node, body.topics[0].partitions[0].current_leader_epoch)
            if offset > max(node.disk.durable_end, _newest_snapshot(node)):
                self.fail(f"{node.name} acknowledges {offset}, but only {node.disk.durable_end} is durable")

    def raft_answered(self, node: SimulatedNode, request: Message, response: Any) -> None:
        if isinstance(request, VoteRequest) and response.topics:
            candidacy, answer = request.topics[0].partitions[0], response.topics[0].partitions[0]
            if answer.vote_granted:
                self.rot.votes(node)
            if answer.vote_granted and not candidacy.pre_vote:
                self._vote_sent(node, candidacy.replica_epoch)
                self._voted(node, candidacy.replica_epoch, candidacy.replica_id)

    def raft_response_received(self, node: SimulatedNode, *, was_ready: bool) -> None:
        """Keep the high watermark in a leader's first response: the node must not decide by ACLs from before it."""
        life = self._lives.get(node.id)
        if life is not None and life.first_high_watermark is None and not was_ready:
            life.first_high_watermark = node.driver.node._log.told_high_watermark

    def _vote_sent(self, node: SimulatedNode, epoch: int) -> None:
        """Check that a vote or a candidacy is on disk before a message reports it."""
        self.claimed[node.directory] = max(self.claimed.get(node.directory, 0), epoch)
        stored = _stored_epoch(node)
        if stored < epoch:
            self.fail(f"{node.name} votes in epoch {epoch}, but its disk is in epoch {stored}")

    def _voted(self, voter: SimulatedNode, epoch: int, candidate: int) -> None:
        known = self.votes.setdefault((voter.directory, epoch), candidate)
        if known != candidate:
            self.fail(f"{voter.name} votes for n{known} and for n{candidate} in epoch {epoch}")

    # --- the committed log

    def committed(self, node: SimulatedNode, batches: Sequence[CommittedBatch]) -> None:
        """Check a delivery: each batch once, in order, equal on all nodes, and first on the disks of a majority."""
        life = self._lives[node.id]
        high_watermark = node.driver.high_watermark or 0
        for batch in batches:
            if life.next_offset is not None and batch.base_offset != life.next_offset:
                self.fail(f"{node.name} receives {batch.base_offset} instead of {life.next_offset}")
            if batch.last_offset >= high_watermark:
                self.fail(f"{node.name} receives {batch.last_offset}, but the high watermark is {high_watermark}")
            life.next_offset = batch.last_offset + 1
            data = bytes(next(node.driver.log.batches(batch.base_offset)).tobytes())
            self._check_batch(node, batch, data)

    def _check_batch(self, node: SimulatedNode, batch: CommittedBatch, data: bytes) -> None:
        known = self.batches.get(batch.base_offset)
        if known is not None:
            if known != data:
                self.fail(f"{node.name} has different bytes at {batch.base_offset} than were committed")
            return
        if batch.base_offset != self.end_offset:
            self.fail(f"{node.name} commits {batch.base_offset} instead of {self.end_offset}")
        self.voters.committed_batch(node, batch, data)
        self.batches[batch.base_offset] = data
        self.end_offset = batch.last_offset + 1
        self.counts["committed batches"] += 1
        try:
            self.model.replay(batch.base_offset, list(batch.records))
        except KeyError as error:
            self.fail(f"the log is inconsistent at {batch.base_offset}: {error!r}")
        self.data.follow(self.model)
        problem = self.model.problem() or self._session_problem()
        if problem is not None:
            self.fail(f"at {batch.last_offset}: {problem}")

    def _session_problem(self) -> str | None:
        """Check that a stopped broker is fenced after its session has ended and the log has grown."""
        now_s, session_s = self.world.loop.now_s, self.world.shape.session_ms / 1000
        for node in self.world.nodes.values():
            known = self.model.now["brokers"].get(node.id)
            if node.is_up or known is None or known[2]:
                continue
            since_s = max(node.down_since_s, self._elected_s.get(self._newest_epoch, 0.0))
            if now_s - since_s > session_s + 1.5:
                return (
                    f"broker {node.id} is not fenced {now_s - since_s:.1f} s after it stopped; "
                    f"its session lasts {session_s} s"
                )
        return None

    def snapshot_loaded(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch) -> None:
        self._lives[node.id].next_offset = snapshot_id.offset
        self.counts["snapshots loaded"] += 1

    def snapshot_made(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch) -> None:
        """Check that a snapshot equals the state of the log up to the snapshot's end."""
        reader = SnapshotReader(node.driver.log.directory, snapshot_id)
        provenance = MetadataProvenance(snapshot_id.offset - 1, snapshot_id.epoch)
        self._compare(
            f"the snapshot {snapshot_id} of {node.name}", image_from_records(reader.records(node.serde), provenance)
        )
        self.voters.snapshot_made(node, reader)
        self.counts["snapshots written"] += 1

    def wrote(self, node: SimulatedNode, data: bytes) -> None:
        is_first = data not in self.written
        self.written.add(data)
        self.voters.wrote(node, data, is_first=is_first)

    # --- images

    def published(self, node: SimulatedNode) -> None:
        """Check that images at equal offsets are equal: the loader's, and the controller's own."""
        self._compare_changed(node, "image", node.loader.image)
        if node.controller is not None:
            self._compare_changed(node, "committed image of the controller", node.controller.committed_image)
        self.voters.published(node)
        high_watermark = node.driver.high_watermark or 0
        if node.image_offset >= max(high_watermark, 1):
            self.fail(f"{node.name} publishes {node.image_offset}, but the high watermark is {high_watermark}")

    def _compare_changed(self, node: SimulatedNode, what: str, image: MetadataImage) -> None:
        seen = self._lives[node.id].part_seen
        offset = image.offset
        for name, (part, read) in flat_parts(image).items():
            version = self.model.version_at(name, offset)
            known = seen.get((what, name))
            if known is not None and known[0] is part and known[1] == version:
                continue
            seen[what, name] = (part, version)
            self._compare_part(f"the {what} of {node.name}", name, offset, read())

    def _compare(self, what: str, image: MetadataImage) -> None:
        for name, (_, read) in flat_parts(image).items():
            self._compare_part(what, name, image.offset, read())

    def _compare_part(self, what: str, name: str, offset: int, found: dict[Any, Any]) -> None:
        expected = self.model.at(name, offset)
        if found != expected:
            differences = [
                f"{key}: {found.get(key)} instead of {expected.get(key)}"
                for key in [*expected, *(key for key in found if key not in expected)]
                if found.get(key) != expected.get(key)
            ]
            self.fail(f"{what} has different {name} at {offset} than the log: {'; '.join(differences[:3])}")

    # --- access decisions

    def seen_by_readers(self, node: SimulatedNode, image: MetadataImage) -> None:
        """Check that the ACLs of an image are in force before any reader receives the image."""
        life = self._lives[node.id]
        version = self.model.version_at("acls", image.offset)
        if not node.authorization.ready.is_set() or version == life.acls_seen:
            return
        life.acls_seen = version
        acls = {id_: tuple(binding) for id_, binding in node.authorizer._index.rules_by_id.items()}
        self._compare_part(f"the authorizer of {node.name}", "acls", image.offset, acls)

    def decided(
        self,
        node: SimulatedNode,
        context: RequestContext,
        operation: int,
        resource_type: int,
        name: str,
        allowed: bool,
    ) -> None:
        """Check a decision against the ACLs of the node's image.

        A node must not decide by older ACLs than those that it has decided by or acknowledged before.
        """
        principal = context.principal
        if principal in node.authorizer.super_users:
            return
        offset = node.image_offset
        newest = max(self.decided_at.get(node.id, -1), self.acknowledged.get(node.id, -1))
        what = f"{node.name} decides {principal} {operation} on {resource_type}:{name}"
        if offset < newest:
            self.fail(f"{what} by the ACLs at {offset}, after it has decided by or acknowledged those at {newest}")
        first_high_watermark = self._lives[node.id].first_high_watermark
        if first_high_watermark is not None and offset + 1 < first_high_watermark:
            self.fail(
                f"{what} by the ACLs at {offset}, but its leader first reported the high watermark "
                f"{first_high_watermark}"
            )
        self.decided_at[node.id] = offset
        self.counts["decisions"] += 1
        acls = self.model.at("acls", offset).values()
        expected = is_allowed(acls, str(principal), context.client_host, operation, resource_type, name)
        if allowed is not expected:
            self.fail(f"{what}: {allowed}, but by the ACLs at {offset} it is {expected}")

    def probe(
        self, node: SimulatedNode, context: RequestContext, operation: Any, resource_type: Any, name: str
    ) -> None:
        try:
            node.authorizer.authorize(context, operation, resource_type, name)
        except AuthorizerNotReady:
            self.counts["decisions refused, not ready"] += 1

    def compare_all(self, node: SimulatedNode) -> None:
        """Compare all parts again at the end, also those that were already compared."""
        self._compare(f"the image of {node.name}", node.loader.image)
        if node.controller is not None:
            self._compare(f"the committed image of the controller of {node.name}", node.controller.committed_image)

    # --- answers to calls

    def begun(self, node: SimulatedNode, what: str) -> int:
        """Record a call at a live node; return its number, which the caller passes to ``ended``."""
        self._calls += 1
        self._under_way[self._calls] = (node.id, what)
        return self._calls

    def ended(self, number: int) -> None:
        self._under_way.pop(number, None)

    def unanswered(self) -> list[str]:
        return [f"{what} at n{node_id}" for node_id, what in self._under_way.values()]

    def decision_begun(self, context: RequestContext, request: Message) -> int:
        """Record a request that a controller begins to decide; return the end of the committed log."""
        if context.forwarding_principal is None:
            self.frames.append(bytes(request.encode(context.api_version)))
        return self.end_offset

    def check_applied_once(self) -> None:
        """Check that no change is in the log more often than it was requested. Each call has its own value."""
        applied: Counter[str] = Counter(
            renewer.partition(":")[2] for _, renewers, _ in self.model.tokens_ever for renewer in renewers
        )
        before: dict[Any, Any] = {}
        for part in self.model.history["configs"][1]:
            for key, values in part.items():
                for name, value in values.items():
                    if before.get(key, {}).get(name) != value:
                        applied[value] += 1
            before = part
        for value, count in applied.items():
            requested = sum(value.encode() in frame for frame in self.frames)
            if value.startswith(OWN_VALUES) and count > requested:
                self.fail(f"{value} has more entries in the log than requests: {count} instead of {requested}")

    def answered(
        self, node: SimulatedNode, begun: int, context: RequestContext, request: Message, response: Message
    ) -> None:
        """Check that an acknowledged change is committed, and in force on the node that acknowledges it."""
        controller = node.controller
        if controller is None:
            return
        committed = controller.committed_image.offset
        if node.image_offset < committed:
            self.fail(f"{node.name} answers at offset {committed}, but its image is at {node.image_offset}")
        self.counts["answers"] += 1
        problem, is_acknowledged = check_answer(self.model, self.served, begun, self.end_offset, request, response)
        problem = problem or self.voters.answer_problem(node, begun, request, response)
        if is_acknowledged and problem is None and context.principal not in node.authorizer.super_users:
            problem = self._right_problem(begun, context, request)
        if problem is not None:
            self.fail(f"{node.name} answers {type(request).__name__}: {problem}")
        if is_acknowledged:
            self.acknowledged[node.id] = max(self.acknowledged.get(node.id, -1), committed)
            self.counts["changes acknowledged"] += 1

    def _right_problem(self, begun: int, context: RequestContext, request: Any) -> str | None:
        """Check that the caller had the right to the acknowledged change at some moment during the request."""
        right = right_for(request)
        if right is None:
            return None
        offsets, _ = self.model.history["acls"]
        moments = [begun - 1, *(offset for offset in offsets if begun <= offset < self.end_offset)]
        principal, host = str(context.principal), context.client_host
        if any(is_allowed(self.model.at("acls", at).values(), principal, host, *right) for at in moments):
            return None
        return f"{principal} lacks the right {right}, but the change is acknowledged"


def _groups_of(partition: PartitionName, groups: list[str]) -> list[str]:
    return [group for group in groups if coordinator_partition(group, OFFSETS_PARTITIONS) == partition.partition]


def _newest_snapshot(node: SimulatedNode) -> int:
    latest = node.driver.log.latest_snapshot_id
    return 0 if latest is None else latest.offset


def _stored_epoch(node: SimulatedNode) -> int:
    """Return the epoch that the node would read from its disk if it were started now."""
    try:
        with open(f"{node.disk.log_folder}/{QUORUM_STATE}", encoding="utf-8") as file:
            epoch: int = json.load(file)["leaderEpoch"]
    except FileNotFoundError:
        return -1
    return epoch
