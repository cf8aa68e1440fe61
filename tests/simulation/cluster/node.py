"""One node of the simulated cluster: the product's parts, connected as in a process, on a simulated world.

Real parts: raft, the driver that runs it, the metadata log and its recovery, delivery of committed records, loader,
image, authorizer and its readiness, controller with all its decisions, snapshots, a broker's registration and
heartbeats. Simulated parts: the network, the clock, threads, the durability of the disk, and clients.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from barnabas.broker.lifecycle import BrokerLifecycle, BrokerState, to_listener
from barnabas.broker.metadata_cache import MetadataCache
from barnabas.common.config_value import Password
from barnabas.common.errors import ApiException
from barnabas.common.uuid import Uuid
from barnabas.controller.controller_config import ControllerConfig
from barnabas.controller.quorum_controller import QuorumController
from barnabas.metadata.features import METADATA_VERSION
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.metadata.loader import MetadataLoader
from barnabas.metadata.metadata_version import LATEST_PRODUCTION
from barnabas.network import stepped_responses
from barnabas.network.api_handler import Access, ApiHandler
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.envelope_tags import CALL_ID_SIZE
from barnabas.raft.errors import NotLeaderException
from barnabas.raft.raft_config import RaftConfig
from barnabas.raft.replica_key import OffsetAndEpoch, ReplicaKey
from barnabas.raft.voter_set import Endpoint, VoterNode, VoterSet
from barnabas.security.principal import Principal
from barnabas.security.principal_serde import serialize_principal
from barnabas.security.request_context import RequestContext
from barnabas.server.broker import replica_fetcher_manager as replica_fetchers
from barnabas.server.controller.dispatcher import ControllerDispatcher
from barnabas.server.controller.quorum_handlers import SERVED_BY_CONTROLLER, SERVED_IN_PROCESS, QuorumHandlers
from barnabas.server.controller.service import ControllerService
from barnabas.server.controller_channel import network as network_channel
from barnabas.server.controller_channel.combined import CombinedChannel
from barnabas.server.controller_channel.in_process import InProcessChannel
from barnabas.server.controller_channel.network import NetworkChannel
from barnabas.server.metadata_log.applied_offset import AppliedOffset
from barnabas.server.metadata_log.commit_listener import MetadataListener
from barnabas.server.metadata_log.publisher_order import broker_followers, install_followers
from barnabas.server.metadata_log.record_serde import MetadataRecordSerde
from barnabas.server.metadata_log.snapshots import MetadataSnapshots, SnapshotGenerator
from barnabas.server.node_authorizer import NodeAuthorizer
from barnabas.server.quorum import raft_recovery
from barnabas.server.quorum.raft_driver import RaftDriver
from barnabas.server.quorum.raft_recovery import MetadataLogConfig
from barnabas.storage import metadata_log, segment
from barnabas.storage.errors import StorageError
from barnabas.storage.metadata_log import METADATA_LOG_DIRECTORY
from barnabas.storage.snapshot_file import RawSnapshotWriter, SnapshotReader, SnapshotWriter
from tests.simulation.cluster.broker_data import BrokerData
from tests.simulation.cluster.channel import SimulatedClient, deliver_raft_request, peer_of
from tests.simulation.cluster.client_process import BrokerClient
from tests.simulation.cluster.data_disk import DataDisk, install_data_disks
from tests.simulation.cluster.disk import Disk, Kept, SimulatedLog
from tests.simulation.cluster.disk_errors import DiskErrors
from tests.simulation.cluster.log_directories import data_directories, format_directories, identity, open_logs
from tests.simulation.cluster.software import NEWEST, SOFTWARE
from tests.simulation.cluster.virtual_loop import OWNER, Owner
from tests.simulation.cluster.voters import VoterLog

if TYPE_CHECKING:
    from barnabas.storage.log_manager import LogManager
    from tests.simulation.cluster.consumer_group_shape import ConsumerGroupShape
    from tests.simulation.cluster.share_shape import ShareShape
    from tests.simulation.cluster.streams_group_shape import StreamsShape
    from tests.simulation.cluster.transaction_shape import TransactionShape
    from tests.simulation.cluster.world import World

__all__ = ["BROKER_PRINCIPAL", "CLUSTER_ID", "LISTENER", "ClusterShape", "SimulatedNode", "voter_node"]

LISTENER = "CONTROLLER"
CLUSTER_ID = "simulated-cluster-id00"
BROKER_PRINCIPAL = Principal("User", "broker")
WALL_CLOCK_MS = 1_700_000_000_000
SECRET = Password("a secret that the nodes of the simulated cluster share")


@dataclass(frozen=True, slots=True)
class ClusterShape:
    """The settings that all nodes of a run share, drawn from its seed."""

    controller_ids: tuple[int, ...]
    broker_ids: tuple[int, ...]
    is_static: bool
    metadata_version: int
    segment_bytes: int
    retention_bytes: int
    bytes_between_snapshots: int
    election_timeout_ms: int
    fetch_timeout_ms: int
    fetch_max_bytes: int
    max_idle_ms: int
    flush_ms: tuple[float, float]
    session_ms: int
    heartbeat_ms: int
    bootstrap: tuple[ApiMessageAndVersion, ...]
    spare_ids: tuple[int, ...] = ()
    """Controllers that are not voters at first."""
    joins_by_itself: bool = False
    """``controller.quorum.auto.join.enable``"""
    groups: tuple[tuple[str, int], ...] = ()
    """Consumer groups with their numbers of members. Brokers hold data only in runs with groups."""
    producers: tuple[bool, ...] = ()
    """For each producer, whether it is idempotent."""
    data_partitions: int = 3
    data_replicas: int = 1
    min_in_sync: int = 1
    replica_lag_ms: int = 1000
    data_segment_bytes: int = 1 << 20
    data_directories: int = 1
    """The number of log directories of each broker."""
    changes_quorum: bool = False
    changes_software: bool = False
    rots: bool = False
    """Whether files of metadata logs become corrupt."""
    rots_data: bool = False
    """Whether files of partitions become corrupt."""
    disk_errors: bool = False
    """Whether system calls on files fail."""
    transactions: TransactionShape | None = None
    """Brokers hold data in every run with transactions."""
    consumer_groups: ConsumerGroupShape | None = None
    """Brokers hold data in every run with such groups, too."""
    share_groups: ShareShape | None = None
    """The same holds for these."""
    streams_groups: StreamsShape | None = None
    """And for these."""
    software: tuple[tuple[int, str], ...] = ()
    """The initial software of the nodes that do not begin with the newest."""

    @property
    def replicates(self) -> bool:
        """Return whether producers write to partitions with more than one replica."""
        return bool(self.producers) and self.data_replicas > 1

    @property
    def remembers_eligible(self) -> bool:
        """Return whether a replica that left the ISR may lead when the ISR is empty (KIP-966)."""
        return self.replicates and self.min_in_sync > 1 and self.metadata_version == LATEST_PRODUCTION

    @property
    def voters(self) -> VoterSet:
        return VoterSet(
            voter_node(id_, is_static=self.is_static) for id_ in self.controller_ids if id_ not in self.spare_ids
        )


def directory_of(node_id: int, generation: int = 0) -> Uuid:
    """Return the directory id of a node's disk; each replacement has another id."""
    return Uuid.from_int(1000 + node_id + 100_000 * generation)


def endpoint_of(node_id: int, port: int = 9093) -> Endpoint:
    return Endpoint(f"n{node_id}", port)


def voter_node(node_id: int, *, is_static: bool) -> VoterNode:
    key = ReplicaKey(node_id) if is_static else ReplicaKey(node_id, directory_of(node_id))
    return VoterNode(key, {LISTENER: endpoint_of(node_id)}, kraft_version_max=0 if is_static else 1)


class SimulatedClock:
    """The clocks of a node: the wall clock may jump, the monotonic one never does."""

    def __init__(self, node: SimulatedNode) -> None:
        self._node = node

    def now_ms(self) -> int:
        return WALL_CLOCK_MS + self._node.wall_offset_ms + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return int(self._node.world.loop.now_s * 1000)


class _Listener(MetadataListener):
    """The product's listener with checks of each delivery."""

    node: SimulatedNode

    def handle_commit(self, batches: Any) -> Iterator[None] | None:
        self.node.world.checks.committed(self.node, batches)
        steps = super().handle_commit(batches)
        if steps is not None:
            return self._watched(steps)
        self.node.world.checks.published(self.node)
        return None

    def handle_load_snapshot(self, reader: SnapshotReader) -> Iterator[None]:
        self.node.world.checks.snapshot_loaded(self.node, reader.snapshot_id)
        return self._watched(super().handle_load_snapshot(reader))

    def _watched(self, steps: Iterator[None]) -> Iterator[None]:
        yield from steps
        self.node.world.checks.published(self.node)


class _Handlers(QuorumHandlers):
    """The product's handlers with a check of each answer before it is sent."""

    def __init__(self, node: SimulatedNode, served: Any) -> None:
        super().__init__(node.driver, served=served)
        self._node = node

    def handler(self, api_key: ApiKey) -> ApiHandler:
        is_new = api_key not in self._handlers
        handler = super().handler(api_key)
        if is_new:
            decide, checks = handler.function, self._node.world.checks

            def function(controller: Any, request: Any, access: Access) -> Any:
                begun = checks.decision_begun(access.context, request)
                answer = decide(controller, request, access)
                if not isinstance(answer, Awaitable):
                    checks.answered(self._node, begun, access.context, request, answer)
                    return answer
                return later(begun, access.context, request, answer)

            async def later(begun: int, context: RequestContext, request: Any, answer: Awaitable[Any]) -> Any:
                response = await answer
                checks.answered(self._node, begun, context, request, response)
                return response

            handler.function = function
        return handler


class _WitnessOfImages:
    """A publisher after the authorizer's: the ACLs of an image must be in force before a reader receives the image."""

    def __init__(self, node: SimulatedNode) -> None:
        self._node = node

    def publish(self, delta: object, new_image: Any, manifest: object) -> None:
        self._node.world.checks.seen_by_readers(self._node, new_image)


class _Snapshots(MetadataSnapshots):
    """The product's snapshots, read again and checked as soon as they are written."""

    node: SimulatedNode

    async def save(self, image: Any) -> OffsetAndEpoch | None:
        try:
            snapshot_id = await super().save(image)
        except (OSError, StorageError) as error:
            self.node.handled.append(error)
            raise
        if snapshot_id is not None:
            with self.node.errors.watched():
                self.node.world.checks.snapshot_made(self.node, snapshot_id)
        return snapshot_id


class SimulatedNode:
    def __init__(self, world: World, node_id: int, *, is_controller: bool, is_broker: bool) -> None:
        self.world = world
        self.id = node_id
        self.is_controller = is_controller
        self.is_broker = is_broker
        self.wall_offset_ms = 0
        self.lives = 0
        self.port = 9093
        """The port of the controller listener."""
        self.directory_ids = [directory_of(node_id)]
        """The directory ids of its disks, in the order of their use."""
        self.lost_disks: list[Kept] = []
        self.software = SOFTWARE[dict(world.shape.software).get(node_id, NEWEST.name)]
        self.voters = VoterLog(frozenset())
        self.down_since_s = 0.0
        self.epochs: list[int] = []
        """The broker epochs of this broker's lives, in their order."""
        self.flush_ms = world.shape.flush_ms
        seed = world.seed * 1000 + node_id
        self.draw = random.Random(f"node {seed}")
        self.disk = Disk(f"{world.folder}/n{node_id}", random.Random(f"disk {seed}"))
        self.disk.now_s = lambda: world.loop.now_s
        self.disk.on_write = lambda data: world.checks.wrote(self, data)
        self.disk.on_truncate = lambda end_offset: self.voters.truncate(end_offset)
        self.disk.on_restart = lambda snapshot_id: world.checks.voters.restarted(self, snapshot_id)
        self.errors = DiskErrors(self.disk.folder)
        self.errors.on_error = lambda module, operation, path: world.checks.disk_failed(self, module, operation, path)
        self.data_disk = DataDisk(self.disk, self.errors)
        self.data_disk.on_commit = self._committed
        self.data_disk.on_truncate = self._truncated
        self.data_disk.on_append = lambda log, batch: world.checks.transactions.appended(log, batch)
        self.data_directory_ids: dict[str, Uuid] = {}
        if is_broker and world.shape.groups:
            self.data_directory_ids = data_directories(self.data_disk.folder, node_id, world.shape.data_directories)
        self.logs: LogManager | None = None
        self.data: BrokerData | None = None
        self.handled: list[BaseException] = []
        """Errors of tasks that the product itself handles."""
        self.owner: Owner | None = None
        self._format(knows_voters=node_id not in world.shape.spare_ids)

    # --- state

    @property
    def is_up(self) -> bool:
        return self.owner is not None

    @property
    def is_leader(self) -> bool:
        return self.is_up and self.driver.node.state_name == "Leader"

    @property
    def image_offset(self) -> int:
        return self.loader.image.offset

    @property
    def name(self) -> str:
        return f"n{self.id}"

    @property
    def endpoint(self) -> Endpoint:
        return endpoint_of(self.id, self.port)

    @property
    def directory_id(self) -> Uuid:
        return self.directory_ids[-1]

    @property
    def directory(self) -> str:
        return str(self.directory_id)

    def directories_with(self, data: bytes, last_offset: int) -> set[str]:
        """Return the directories of the disks, current or replaced, that have this batch durably.

        A replaced disk counts, because the leader may receive an acknowledgement from before its loss later.
        """
        disks = (*self.lost_disks, self.disk.kept(self.directory))
        return {disk.directory for disk in disks if disk.has(data, last_offset)}

    # --- life

    def start(self) -> None:
        self.lives += 1
        for disk in (self.errors, self.disk, self.data_disk):
            disk.begins_life()
        owner = Owner(f"{self.name}.{self.lives}")
        owner.thread_s = lambda: self.draw.uniform(*self.flush_ms) / 1000
        owner.on_error = self._task_failed
        owner.on_step = partial(self.world.checks.stepped, self)
        self.owner = owner
        self.world.loop.start_as(owner, self._start)

    def give_up(self) -> None:
        """Clean up after a process that could not start."""
        if self.owner is not None:
            self.owner.die()
            self.owner = None
        self._release_logs()

    def crash(self, *, is_power_loss: bool, garbage: bool = False) -> list[str]:
        """Kill the process, and decide what its disk has kept; return a description of each loss."""
        owner, self.owner = self.owner, None
        if owner is None:
            return []
        owner.die()
        self.down_since_s = self.world.loop.now_s
        log = self.driver.log
        if isinstance(log, SimulatedLog):
            log.release()
        self._release_logs()
        self.world.checks.died(self)
        self.disk.is_full = self.disk.fails_to_flush = False
        self.disk.dies_at_next_write = self.data_disk.dies_at_next_append = None
        losses = self.disk.lose(is_power_loss=is_power_loss, garbage=garbage)
        lost = self.data_disk.lose(garbage=garbage) if is_power_loss and self.world.shape.groups else set()
        self.world.checks.data.died(self.id, lost)
        return losses + [f"{topic}-{index} has lost unsynced data" for topic, index in sorted(lost)]

    def _release_logs(self) -> None:
        """Close the files and unlock the directories, as the end of the process does."""
        self.data = None
        logs, self.logs = self.logs, None
        if logs is not None:
            logs.pool.close_all()
            for directory in logs.directories.all:
                directory.unlock()

    async def stop(self) -> None:
        """Stop as after SIGTERM: leave the cluster, then close the log."""
        owner = self.owner
        try:
            if self.is_broker and self.lifecycle is not None:
                await self.lifecycle.shut_down(5.0)
            if self.service is not None:
                self.service.close()
            if self.data is not None:
                await self.data.stop()
            await self.driver.close()
        except OSError as error:
            self.world.say(f"{self.name}: stops with {error}")
        if owner is self.owner and owner is not None:
            self.crash(is_power_loss=False)

    def replace_disk(self) -> None:
        """Replace the disk with an empty one while the process is down."""
        self.lost_disks.append(self.disk.kept(self.directory))
        self.directory_ids.append(directory_of(self.id, len(self.directory_ids)))
        self.disk.replace()
        self.data_disk.replaced()
        self.errors.heal()
        self._format(knows_voters=False)

    def act(self, action: Callable[[], object]) -> None:
        """Run an action in this process if it lives; while it is suspended, run it when it resumes."""
        owner = self.owner
        if owner is None:
            return
        loop = self.world.loop
        if owner.paused_until_s > loop.now_s:
            # A suspended process that dies never handles what it received meanwhile.
            loop.call_later(
                owner.paused_until_s - loop.now_s, lambda: self.act(action) if self.owner is owner else None
            )
            return
        loop.start_as(owner, action)
        self.world.checks.stepped(self)

    # --- building

    def _format(self, *, knows_voters: bool) -> None:
        """Format the directories: with ``--initial-controllers`` if ``knows_voters``, else the log names the voters."""
        folder = f"{self.disk.folder}/{METADATA_LOG_DIRECTORY}"
        shutil.rmtree(self.disk.folder, ignore_errors=True)
        os.makedirs(folder)
        shape = self.world.shape
        if self.is_controller and knows_voters and not shape.is_static:
            writer = SnapshotWriter(
                RawSnapshotWriter(folder, OffsetAndEpoch(0, 0), token="format"),
                last_contained_log_timestamp=0,
                now_ms=0,
                serde=MetadataRecordSerde(),
                kraft_version=1,
                voters=shape.voters,
            )
            writer.freeze()
        format_directories(self, CLUSTER_ID)

    def _start(self) -> None:
        world, shape = self.world, self.world.shape
        self.clock = SimulatedClock(self)
        self.serde = MetadataRecordSerde()
        self.authorization = NodeAuthorizer(
            _authorizer_settings(),  # type: ignore[arg-type]
            high_watermark=lambda: self.driver.node.known_high_watermark,
        )
        self.authorizer: Any = self.authorization.authorizer
        world.checks.watch(self)
        found = identity(self)
        self.driver = RaftDriver(
            config=self._raft_config(),
            log_config=MetadataLogConfig(
                directory=self.disk.folder,
                segment_bytes=shape.segment_bytes,
                retention_bytes=shape.retention_bytes,
            ),
            clock=self.clock,
            serde=self.serde,
            fault_handler=self._failed,
            send=lambda request: deliver_raft_request(self, request),
            random_below=self.draw.randrange,
        )
        world.checks.recovered(self)
        self.service: ControllerService | None = None
        self.controller: QuorumController | None = None
        self.in_process: InProcessChannel | None = None
        self.dispatcher: ControllerDispatcher | None = None
        self.peer = peer_of(BROKER_PRINCIPAL)
        self.lifecycle: BrokerLifecycle | None = None
        if self.is_controller:
            self._build_controller()
        self.on_leader_change: list[Callable[[], None]] = []
        self.channel = self._channel()
        if self.data_directory_ids:
            open_logs(self, found)
            world.checks.transactions.loaded(self)
        if self.is_broker:
            self.lifecycle = self._lifecycle()
        self._follow_metadata()
        if self.service is not None and self.controller is not None:
            self.service.connect(self.driver, self.controller)
        listener = _Listener(
            node_id=self.id,
            loader=self.loader,
            controller=self.controller,
            serde=self.serde,
            next_offset=lambda: self.driver.next_offset,
            kraft_version=lambda: self.driver.control_records.last_kraft_version,
            on_leader_change=self.on_leader_change,
        )
        listener.node = self
        self.driver.register(listener)
        self.driver.start()
        self.world.checks.started(self)
        if self.lifecycle is not None:
            self.world.loop.create_task(self._join(self.lifecycle))

    def _raft_config(self) -> RaftConfig:
        shape = self.world.shape
        return RaftConfig(
            node_id=self.id,
            directory_id=self.directory_id,
            cluster_id=CLUSTER_ID,
            can_be_voter=self.is_controller,
            listener_name=LISTENER,
            listeners={LISTENER: self.endpoint} if self.is_controller else {},
            static_voters=shape.voters if shape.is_static else VoterSet(),
            bootstrap_servers=tuple(other.endpoint for other in self.world.controllers),
            joins_by_itself=shape.joins_by_itself and self.is_controller,
            election_timeout_ms=shape.election_timeout_ms,
            fetch_timeout_ms=shape.fetch_timeout_ms,
            election_backoff_max_ms=shape.election_timeout_ms,
            request_timeout_ms=shape.fetch_timeout_ms,
            fetch_max_wait_ms=shape.fetch_timeout_ms // 4,
            fetch_max_bytes=shape.fetch_max_bytes,
            fetch_snapshot_max_bytes=shape.fetch_max_bytes,
        )

    def _build_controller(self) -> None:
        shape = self.world.shape
        self.service = ControllerService(clock=self.clock)
        self.controller = QuorumController(
            ControllerConfig(
                node_id=self.id,
                cluster_id=CLUSTER_ID,
                delegation_token_secret_key=SECRET,
                delegation_token_expiry_check_interval_ms=3000,
                broker_session_timeout_ms=shape.session_ms,
                metadata_max_idle_interval_ms=shape.max_idle_ms,
                static_configs={},
                supported_features=self.software.features,
            ),
            clock=self.clock,
            new_uuid=lambda: Uuid(self.draw.randbytes(16)),
            random_int=self.draw.randrange,
            bootstrap=shape.bootstrap,
            on_appends=self.service.wake,
            on_fault=lambda fault: self.world.checks.fault(self, fault),
            describe_quorum=self.driver.describe_quorum,
            upgrade_quorum=self.driver.upgrade_kraft_version,
        )
        self.in_process = InProcessChannel(
            controller=self.controller,
            handlers=_Handlers(self, SERVED_IN_PROCESS),
            authorizer=self.authorizer,
            own_context=own_context,
            notice_time=self.driver.notice_time,
        )
        self.dispatcher = ControllerDispatcher(
            server=self.controller,
            handlers=_Handlers(self, SERVED_BY_CONTROLLER),
            authorizer=self.authorizer,
            stats={},
            ready=self.authorization.ready,
            notice_time=self.driver.notice_time,
        )

    def _channel(self) -> Any:
        """Create the channel as ``ControllerPart`` and ``BrokerPart`` do, within the process if it has a controller."""
        if not self.is_broker:
            return self.in_process
        if self.in_process is None or self.controller is None:
            return self._network_channel()
        return CombinedChannel(
            self.in_process,
            self.controller,
            is_alone=lambda: self.driver.node.is_only_voter,
            make_remote=self._network_channel,
        )

    def _network_channel(self) -> NetworkChannel:
        channel = NetworkChannel(
            self,  # type: ignore[arg-type]
            leader=lambda: self.driver.node.leader_endpoint,
            clock=self.clock,
            serialize_principal=lambda context: serialize_principal(context.principal),
            lifecycle_limit_ms=self.world.shape.session_ms,
            heartbeat_interval_ms=self.world.shape.heartbeat_ms,
            reach_offset=lambda offset, timeout_s: self.applied.reach(offset, timeout_s),
            new_call_id=lambda: self.draw.randbytes(CALL_ID_SIZE),
        )
        self.on_leader_change.append(channel.leader_changed)
        return channel

    def _follow_metadata(self) -> None:
        shape = self.world.shape
        self.loader = MetadataLoader()
        self.applied = AppliedOffset()
        self.cache = MetadataCache()
        self.snapshots = _Snapshots(self.driver)
        self.snapshots.node = self
        self.generator = SnapshotGenerator(
            self.snapshots, self.driver, max_bytes=shape.bytes_between_snapshots, max_interval_ms=0
        )
        if self.logs is not None:
            self.data = BrokerData(self, self.logs)
        install_followers(
            self.loader,
            self.authorization,
            metadata=self.cache,
            first=(_WitnessOfImages(self), *self._broker_followers()),
            snapshots=self.generator,
            applied=self.applied,
        )

    def _broker_followers(self) -> tuple[Any, ...]:
        if self.lifecycle is None:
            return ()
        if self.data is None:
            return (self.lifecycle,)
        data = self.data
        return broker_followers(
            lifecycle=self.lifecycle,
            replicas=data.replicas,
            groups=data.groups,
            transactions=data.transactions,
            share_state=data.share_state,
            share_partitions=data.share_partitions,
            log_dirs=data.log_dirs,
        )

    def _lifecycle(self) -> BrokerLifecycle:
        shape = self.world.shape
        return BrokerLifecycle(
            broker_id=self.id,
            cluster_id=CLUSTER_ID,
            incarnation_id=Uuid(self.draw.randbytes(16)),
            rack=None,
            directory_ids=self._online_directories(),
            features=self.software.features,
            heartbeat_interval_ms=shape.heartbeat_ms,
            session_timeout_ms=shape.session_ms,
            registration_timeout_ms=60_000,
            metadata_offset=lambda: self.applied.offset,
            catch_up=self._catch_up,
            controller=self.channel,
        )

    def _online_directories(self) -> list[Uuid]:
        if self.logs is None:
            return [Uuid.from_int(5000 + self.id)]
        return [directory.id for directory in self.logs.directories.online]

    async def _catch_up(self) -> bool:
        return await self.applied.reach(await self.driver.read_index() - 1, 1.0)

    async def _join(self, lifecycle: BrokerLifecycle) -> None:
        try:
            previous_epoch = -1 if self.data is None else self.data.logs.previous_broker_epoch
            await lifecycle.register([to_listener("PLAINTEXT", self.name, 9092, 0)], previous_epoch)
        except ApiException as error:
            if self.software.metadata_version >= self.world.checks.model.now["features"][METADATA_VERSION]:
                self.world.checks.fail(f"{self.name} gives up at its start: {error}")
            self._restart_with_newest_software()
            return
        self.epochs.append(lifecycle.broker_epoch)
        if self.data is not None:
            self.data.start()
        self.world.say(f"{self.name}: serves as broker, epoch {lifecycle.broker_epoch}")

    def _restart_with_newest_software(self) -> None:
        """Restart with the newest software, as an operator does if the cluster requires newer software."""
        self.world.say(f"{self.name}: its software {self.software.name} is too old, so it stops")
        self.software = NEWEST
        self.world.loop.call_soon(lambda: self.crash(is_power_loss=False))

    @property
    def is_serving(self) -> bool:
        return self.lifecycle is not None and self.lifecycle.state is BrokerState.RUNNING

    # --- faults

    def _failed(self, fault: BaseException) -> None:
        """Stop the process after a fault that the product reported."""
        self.world.checks.fault(self, fault)
        self.world.say(f"{self.name}: stops: {fault}")
        self.world.loop.call_soon(lambda: self.crash(is_power_loss=False))

    def _committed(self, log: Any, before: int) -> None:
        with self.errors.watched():
            self.world.checks.records.committed(self, log, before)
            self.world.checks.transactions.high_watermark_moved(self, log)

    def _truncated(self, log: Any) -> None:
        self.world.checks.records.truncated(self, log)
        self.world.checks.transactions.truncated(self, log)

    def stop_on_fault(self, fault: BaseException) -> None:
        """Stop the process of a broker that cannot continue."""
        self._failed(fault)

    @property
    def misses_directories(self) -> bool:
        """Return whether a log directory is disabled until the next start."""
        return self.logs is not None and any(not directory.is_online for directory in self.logs.directories.all)

    def _task_failed(self, error: BaseException) -> None:
        """Check the error of a task that no code awaits: a disk error must not end such a task."""
        if any(error is known for known in self.handled):
            return
        if self.errors.met and not isinstance(error, ApiException | NotLeaderException):
            self.world.checks.fail(f"a task of {self.name} ends with {type(error).__name__}: {error}")
        if not isinstance(error, ApiException | NotLeaderException):
            self.world.checks.fault(self, error)


def own_context(key: ApiKey, version: int) -> RequestContext:
    return RequestContext(api_key=key, api_version=version, principal=BROKER_PRINCIPAL)


def _authorizer_settings() -> SimpleNamespace:
    return SimpleNamespace(
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        static={},
        super_users=f"User:admin;{BROKER_PRINCIPAL}",
        allow_everyone_if_no_acl_found=False,
        early_start_listeners=(),
    )


class _QueuesOfProcesses:
    """The queues of long responses: the nodes share an event loop, but a process that dies must not block another."""

    def __init__(self) -> None:
        self._queues: WeakKeyDictionary[Owner, asyncio.Lock] = WeakKeyDictionary()

    def setdefault(self, loop: object, queue: asyncio.Lock) -> asyncio.Lock:
        owner = OWNER.get()
        return queue if owner is None else self._queues.setdefault(owner, queue)


def install_simulated_world(disks: Callable[[str], Disk], data_disks: Callable[[str], DataDisk]) -> Callable[[], None]:
    """Make drivers use simulated disks and channels simulated connections; return a function to undo it."""
    real, client = raft_recovery.MetadataLog, network_channel.NetworkClient  # type: ignore[attr-defined]
    interval, metadata_log.INDEX_INTERVAL_BYTES = metadata_log.INDEX_INTERVAL_BYTES, 150
    # Segments are small, but are read like large ones: from an index entry on.
    chunk, segment._WALK_CHUNK = segment._WALK_CHUNK, 150

    def open_log(directory: str, *, segment_bytes: int, segment_ms: int, now_ms: int) -> SimulatedLog:
        return SimulatedLog(disks(directory), segment_bytes=segment_bytes, segment_ms=segment_ms, now_ms=now_ms)

    raft_recovery.MetadataLog = open_log  # type: ignore[assignment, attr-defined]
    network_channel.NetworkClient = SimulatedClient  # type: ignore[assignment, attr-defined]

    fetch_client, replica_fetchers.NetworkClient = replica_fetchers.NetworkClient, BrokerClient  # type: ignore
    queues, stepped_responses._queues = stepped_responses._queues, _QueuesOfProcesses()  # type: ignore[assignment]
    undo_data = install_data_disks(data_disks)

    def undo() -> None:
        undo_data()
        stepped_responses._queues = queues
        replica_fetchers.NetworkClient = fetch_client  # type: ignore[attr-defined]
        raft_recovery.MetadataLog = real  # type: ignore[attr-defined]
        network_channel.NetworkClient = client  # type: ignore[attr-defined]
        metadata_log.INDEX_INTERVAL_BYTES = interval
        segment._WALK_CHUNK = chunk

    return undo
