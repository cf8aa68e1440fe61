"""What must hold all the time, looked at wherever it could break. A ``Violation`` ends the run.

The log that is committed is kept here, bytes and meaning, as the first node that knew of each batch had it; every node
is compared with it, never with another node.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from barnabas.coordinator.group.partitioner import partition_for_group
from barnabas.metadata.image.metadata_image import MetadataProvenance
from barnabas.metadata.snapshot import image_from_records
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.vote import VoteRequest
from barnabas.raft.replica_key import OffsetAndEpoch
from barnabas.security.authorizer.authorizer import AuthorizerNotReady
from barnabas.storage.quorum_state_file import QUORUM_STATE
from barnabas.storage.snapshot_file import SnapshotReader
from tests.simulation.cluster.answers import check_answer
from tests.simulation.cluster.broker_data import OFFSETS_PARTITIONS
from tests.simulation.cluster.data_checks import DataChecks
from tests.simulation.cluster.data_rot import DataRot
from tests.simulation.cluster.data_watch import DataWatch, PartitionName
from tests.simulation.cluster.decisions import is_allowed, right_for
from tests.simulation.cluster.group_checks import GroupChecks
from tests.simulation.cluster.model import Model, flat_parts
from tests.simulation.cluster.rot import RotWatch
from tests.simulation.cluster.voters import VoterWatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.metadata.image.metadata_image import MetadataImage
    from barnabas.metadata.loader import CommittedBatch
    from barnabas.protocol.schema import Message
    from barnabas.security.request_context import RequestContext
    from tests.simulation.cluster.node import SimulatedNode
    from tests.simulation.cluster.world import World

__all__ = ["Checks", "Violation"]


OWN_VALUES = ("call-", "1000")
"""How the values begin that belong to one call of a client."""


class Violation(AssertionError):
    """Something that must never happen has happened."""


class _Life:
    """What is known of one life of a node's process."""

    def __init__(self) -> None:
        self.next_offset: int | None = None
        self.epoch = 0
        self.part_seen: dict[tuple[str, str], tuple[object, int]] = {}
        self.acls_seen = -2
        self.told_high_watermark: int | None = None
        """How far the log was committed when a leader first told this process."""


class Checks:
    def __init__(self, world: World) -> None:
        self.world = world
        self.model = Model()
        self.batches: dict[int, bytes] = {}
        """The committed batches by their base offset."""
        self.batch_starts: dict[int, int] = {}
        self.end_offset = 0
        self.leaders: dict[int, int] = {}
        self.voters = VoterWatch(self)
        self.rot = RotWatch(self)
        self.data_rot = DataRot(self)
        self.groups = GroupChecks(self)
        self.records = DataChecks(self)
        self.data = DataWatch(self, self.excused)
        self.votes: dict[tuple[str, int], int] = {}
        self.claimed: dict[str, int] = {}
        """The highest epoch that each disk has spoken for in a message, over all lives of its node."""
        self.decided_at: dict[int, int] = {}
        """The newest image that each node has decided an access with, over all of its lives."""
        self.acknowledged: dict[int, int] = {}
        """How far the log was committed when each node last acknowledged a change."""
        self.written: set[bytes] = set()
        """Every batch that ever left or entered a log: nothing else may come back from a disk."""
        self.counts: Counter[str] = Counter()
        self.served: Counter[Any] = Counter()
        self.frames: list[bytes] = []
        """What controllers were asked, as it came."""
        self._lives: dict[int, _Life] = {}
        self._elected_s: dict[int, float] = {}
        self._newest_epoch = 0
        self._calls = 0
        self._under_way: dict[int, tuple[int, str]] = {}

    def fail(self, text: str) -> None:
        raise self.world.violated(Violation(text))

    # --- a process begins and ends

    def watch(self, node: SimulatedNode) -> None:
        """Look at every decision of this node's authorizer."""
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
        """What a log holds after a crash is what was durable, and perhaps more of what was written; nothing else."""
        log, disk = node.driver.log, node.disk
        if log.end_offset < disk.durable_end:
            self.fail(f"{node.name} had {disk.durable_end} durably and finds only {log.end_offset}")
        for batch in log.batches(self.rot.first_sound_offset(node)):
            if batch.tobytes() not in self.written:
                self.fail(f"{node.name} finds a batch at {batch.base_offset} that nobody has written")
        disk.durable_end = log.end_offset
        self.voters.opened(node)
        self.rot.recovered(node)

    def died(self, node: SimulatedNode) -> None:
        self._lives.pop(node.id, None)
        self._under_way = {number: call for number, call in self._under_way.items() if call[0] != node.id}

    def excused(self, partition: PartitionName) -> None:
        """All that was told of it may be gone with its disks."""
        self.records.excused(partition)
        if partition.topic == "__consumer_offsets":
            groups = [group for group, _ in self.world.shape.groups]
            self.groups.lost(
                [one for one in groups if partition_for_group(one, OFFSETS_PARTITIONS) == partition.partition]
            )

    def fault(self, node: SimulatedNode, fault: BaseException | None) -> None:
        if isinstance(fault, Violation):
            raise fault
        if node.disk.is_full or node.disk.fails_to_flush or node.errors.explains(fault):
            return
        if self.data_rot.explains(node, fault):
            return
        self.world.violated(Violation(f"{node.name} has a fault of its own: {type(fault).__name__}: {fault}"), fault)

    def disk_failed(self, node: SimulatedNode, module: str, operation: str, path: str) -> None:
        """A process may end, or give up a directory, for any error of its disk."""
        self.counts[f"disk error: {operation} in {module}"] += 1
        self.world.say(f"{node.name}: {operation} fails in {module}: {path}")
        if operation in ("fsync", "fdatasync"):
            node.disk.sync_failed(path)
        if f"{path}/".startswith(f"{node.data_disk.folder}/"):
            self.data.shaken(node.id)

    # --- raft

    def stepped(self, node: SimulatedNode) -> None:
        raft = node.driver.node
        life = self._lives.get(node.id)
        if life is None:
            return
        epoch = raft.epoch
        if epoch < life.epoch:
            self.fail(f"{node.name} goes back from epoch {life.epoch} to {epoch}")
        life.epoch = epoch
        if raft.state_name == "Leader":
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
            # Nobody of the majority that elected the other one fetches from it any more.
            since_s = max(self._elected_s[self._newest_epoch], node.owner.paused_until_s)
            limit_s = self.world.shape.fetch_timeout_ms * 1.5 / 1000 + 1.0
            if self.world.loop.now_s - since_s > limit_s:
                self.fail(
                    f"{node.name} still leads epoch {epoch}, {limit_s:g} s after epoch {self._newest_epoch} began"
                )

    def started(self, node: SimulatedNode) -> None:
        """Who has spoken for an epoch never forgets it."""
        claimed = self.claimed.get(node.directory, 0)
        if node.driver.node.epoch < claimed and not self.rot.has_forgotten(node):
            self.fail(f"{node.name} spoke for epoch {claimed} and starts in {node.driver.node.epoch}")

    def sent(self, node: SimulatedNode, body: Message) -> None:
        if isinstance(body, VoteRequest):
            partition = body.topics[0].partitions[0]
            if not partition.pre_vote and partition.replica_epoch >= node.driver.node.epoch:
                self.rot.votes(node)
                self._spoke_for(node, partition.replica_epoch)
                self._voted(node, partition.replica_epoch, partition.replica_id)
        elif isinstance(body, FetchRequest) and node.is_controller:
            offset = body.topics[0].partitions[0].fetch_offset
            state = body.replica_state
            if state is not None and state.replica_id >= 0:
                self.rot.acknowledges(node, body.topics[0].partitions[0].current_leader_epoch)
            if offset > max(node.disk.durable_end, _newest_snapshot(node)):
                self.fail(f"{node.name} acknowledges {offset} and only {node.disk.durable_end} is durable")

    def raft_answered(self, node: SimulatedNode, request: Message, response: Any) -> None:
        if isinstance(request, VoteRequest) and response.topics:
            asked, answer = request.topics[0].partitions[0], response.topics[0].partitions[0]
            if answer.vote_granted:
                self.rot.votes(node)
            if answer.vote_granted and not asked.pre_vote:
                self._spoke_for(node, asked.replica_epoch)
                self._voted(node, asked.replica_epoch, asked.replica_id)

    def heard(self, node: SimulatedNode, *, was_ready: bool) -> None:
        """A leader's first answer says up to where the rules must be known before anybody is judged by them."""
        life = self._lives.get(node.id)
        if life is not None and life.told_high_watermark is None and not was_ready:
            life.told_high_watermark = node.driver.node._log.told_high_watermark

    def _spoke_for(self, node: SimulatedNode, epoch: int) -> None:
        """A vote, or a candidacy, is on disk before anybody hears of it."""
        self.claimed[node.directory] = max(self.claimed.get(node.directory, 0), epoch)
        stored = _stored_epoch(node)
        if stored < epoch:
            self.fail(f"{node.name} votes in epoch {epoch}, and its disk is in epoch {stored}")

    def _voted(self, voter: SimulatedNode, epoch: int, candidate: int) -> None:
        known = self.votes.setdefault((voter.directory, epoch), candidate)
        if known != candidate:
            self.fail(f"{voter.name} votes for n{known} and for n{candidate} in epoch {epoch}")

    # --- what is committed

    def committed(self, node: SimulatedNode, batches: Sequence[CommittedBatch]) -> None:
        """Each batch once, in order, the same everywhere, and on the disks of a majority before anybody acts on it."""
        life = self._lives[node.id]
        high_watermark = node.driver.high_watermark or 0
        for batch in batches:
            if life.next_offset is not None and batch.base_offset != life.next_offset:
                self.fail(f"{node.name} is handed {batch.base_offset} where {life.next_offset} follows")
            if batch.last_offset >= high_watermark:
                self.fail(f"{node.name} is handed {batch.last_offset}, committed is up to {high_watermark}")
            life.next_offset = batch.last_offset + 1
            data = bytes(next(node.driver.log.batches(batch.base_offset)).tobytes())
            self._check_batch(node, batch, data)

    def _check_batch(self, node: SimulatedNode, batch: CommittedBatch, data: bytes) -> None:
        known = self.batches.get(batch.base_offset)
        if known is not None:
            if known != data:
                self.fail(f"{node.name} has other bytes at {batch.base_offset} than were committed")
            return
        if batch.base_offset != self.end_offset:
            self.fail(f"{node.name} commits {batch.base_offset}, and {self.end_offset} is to be next")
        self.voters.committed_batch(node, batch, data)
        self.batches[batch.base_offset] = data
        self.end_offset = batch.last_offset + 1
        self.counts["committed batches"] += 1
        try:
            self.model.replay(batch.base_offset, list(batch.records))
        except KeyError as error:
            self.fail(f"the log makes no sense at {batch.base_offset}: {error!r}")
        self.data.follow(self.model)
        problem = self.model.problem() or self._session_problem()
        if problem is not None:
            self.fail(f"at {batch.last_offset}: {problem}")

    def _session_problem(self) -> str | None:
        """A broker whose process is gone is fenced when its session is over and the log moves on."""
        now_s, session_s = self.world.loop.now_s, self.world.shape.session_ms / 1000
        for node in self.world.nodes.values():
            known = self.model.now["brokers"].get(node.id)
            if node.is_up or known is None or known[2]:
                continue
            since_s = max(node.down_since_s, self._elected_s.get(self._newest_epoch, 0.0))
            if now_s - since_s > session_s + 1.5:
                return (
                    f"broker {node.id} is not fenced {now_s - since_s:.1f} s after it went, its session has {session_s}"
                )
        return None

    def snapshot_loaded(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch) -> None:
        self._lives[node.id].next_offset = snapshot_id.offset
        self.counts["snapshots loaded"] += 1

    def snapshot_made(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch) -> None:
        """What a snapshot says is what the log before its end says."""
        reader = SnapshotReader(node.driver.log.directory, snapshot_id)
        provenance = MetadataProvenance(snapshot_id.offset - 1, snapshot_id.epoch)
        self._compare(
            f"the snapshot {snapshot_id} of {node.name}", image_from_records(reader.records(node.serde), provenance)
        )
        self.voters.snapshot_made(node, reader)
        self.counts["snapshots made"] += 1

    def wrote(self, node: SimulatedNode, data: bytes) -> None:
        is_first = data not in self.written
        self.written.add(data)
        self.voters.wrote(node, data, is_first=is_first)

    # --- images

    def published(self, node: SimulatedNode) -> None:
        """Equal images at equal offsets: the loader's, and the controller's own."""
        self._compare_changed(node, "image", node.loader.image)
        if node.controller is not None:
            self._compare_changed(node, "committed image of the controller", node.controller.committed_image)
        self.voters.published(node)
        high_watermark = node.driver.high_watermark or 0
        if node.image_offset >= max(high_watermark, 1):
            self.fail(f"{node.name} acts on {node.image_offset}, committed is up to {high_watermark}")

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
            self.fail(f"{what} has other {name} at {offset} than the log: {'; '.join(differences[:3])}")

    # --- decisions about access

    def seen_by_readers(self, node: SimulatedNode, image: MetadataImage) -> None:
        """Nobody sees an image before the rules that are in it are in force."""
        life = self._lives[node.id]
        version = self.model.version_at("acls", image.offset)
        if not node.authorization.ready.is_set() or version == life.acls_seen:
            return
        life.acls_seen = version
        rules = {id_: tuple(binding) for id_, binding in node.authorizer._index.rules_by_id.items()}
        self._compare_part(f"the authorizer of {node.name}", "acls", image.offset, rules)

    def decided(
        self,
        node: SimulatedNode,
        context: RequestContext,
        operation: int,
        resource_type: int,
        name: str,
        allowed: bool,
    ) -> None:
        """By the rules of the node's image, and never by older ones than it has acknowledged or decided by before."""
        principal = context.principal
        if principal in node.authorizer.super_users:
            return
        offset = node.image_offset
        newest = max(self.decided_at.get(node.id, -1), self.acknowledged.get(node.id, -1))
        what = f"{node.name} decides {principal} {operation} on {resource_type}:{name}"
        if offset < newest:
            self.fail(f"{what} by the rules at {offset}, and has shown those at {newest} before")
        told = self._lives[node.id].told_high_watermark
        if told is not None and offset + 1 < told:
            self.fail(f"{what} by the rules at {offset}, and {told} was committed when it came")
        self.decided_at[node.id] = offset
        self.counts["decisions"] += 1
        rules = self.model.at("acls", offset).values()
        expected = is_allowed(rules, str(principal), context.client_host, operation, resource_type, name)
        if allowed is not expected:
            self.fail(f"{what}: {allowed}, and by the rules at {offset} it is {expected}")

    def probe(
        self, node: SimulatedNode, context: RequestContext, operation: Any, resource_type: Any, name: str
    ) -> None:
        try:
            node.authorizer.authorize(context, operation, resource_type, name)
        except AuthorizerNotReady:
            self.counts["decisions refused, not ready"] += 1

    def compare_all(self, node: SimulatedNode) -> None:
        """At the end, everything once more, whatever was seen before."""
        self._compare(f"the image of {node.name}", node.loader.image)
        if node.controller is not None:
            self._compare(f"the committed image of the controller of {node.name}", node.controller.committed_image)

    # --- answers to calls

    def begun(self, node: SimulatedNode, what: str) -> int:
        """A call is under way at a node that lives; ``ended`` is told its number."""
        self._calls += 1
        self._under_way[self._calls] = (node.id, what)
        return self._calls

    def ended(self, number: int) -> None:
        self._under_way.pop(number, None)

    def unanswered(self) -> list[str]:
        return [f"{what} at n{node_id}" for node_id, what in self._under_way.values()]

    def asked(self, context: RequestContext, request: Message) -> int:
        """A controller begins to decide; gives the end of what is committed."""
        if context.forwarding_principal is None:
            self.frames.append(bytes(request.encode(context.api_version)))
        return self.end_offset

    def check_applied_once(self) -> None:
        """What was asked for so many times is in the log no more often. Each call has a value of its own."""
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
            asked = sum(value.encode() in frame for frame in self.frames)
            if value.startswith(OWN_VALUES) and count > asked:
                self.fail(f"{value} was asked for {asked} times and is in the log {count} times")

    def answered(
        self, node: SimulatedNode, begun: int, context: RequestContext, request: Message, response: Message
    ) -> None:
        """What is acknowledged is committed, and in force on the node that says so."""
        controller = node.controller
        if controller is None:
            return
        committed = controller.committed_image.offset
        if node.image_offset < committed:
            self.fail(f"{node.name} answers by {committed} and its image is at {node.image_offset}")
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
        """Whoever's change is acknowledged had the right to it at some moment meanwhile."""
        right = right_for(request)
        if right is None:
            return None
        offsets, _ = self.model.history["acls"]
        moments = [begun - 1, *(offset for offset in offsets if begun <= offset < self.end_offset)]
        whom, host = str(context.principal), context.client_host
        if any(is_allowed(self.model.at("acls", at).values(), whom, host, *right) for at in moments):
            return None
        return f"{whom} has no right {right}, and the change is acknowledged"


def _newest_snapshot(node: SimulatedNode) -> int:
    latest = node.driver.log.latest_snapshot_id
    return 0 if latest is None else latest.offset


def _stored_epoch(node: SimulatedNode) -> int:
    """The epoch that the node would find if it were started now."""
    try:
        with open(f"{node.disk.log_folder}/{QUORUM_STATE}", encoding="utf-8") as file:
            epoch: int = json.load(file)["leaderEpoch"]
    except FileNotFoundError:
        return -1
    return epoch
