"""The common part of all nodes: identity, the metadata log and its publishers, authorizer, settings.

``NodeCore`` is built first. The controller's and the broker's part are built on it and name their publishers of the
metadata. ``follow_metadata`` installs all of them in the order of ``metadata_log.publisher_order``.
"""

from __future__ import annotations

import asyncio
import logging
from time import monotonic
from typing import TYPE_CHECKING

from barnabas.broker.metadata_cache import MetadataCache
from barnabas.common.system_clock import SystemClock
from barnabas.metadata.loader import MetadataLoader
from barnabas.network.connection_quotas import ConnectionQuotas
from barnabas.network.long_work_scheduler import LongWork
from barnabas.raft.inbound import RequestFailed
from barnabas.security.credential_publisher import CredentialPublisher
from barnabas.security.delegation_tokens import token_hmacs_of
from barnabas.server.component_configs import metadata_log_config, raft_config, request_limits
from barnabas.server.listeners.connection_caps import ConnectionEffect, IpRatePublisher, connection_caps
from barnabas.server.metadata_log.applied_offset import AppliedOffset
from barnabas.server.metadata_log.commit_listener import MetadataListener
from barnabas.server.metadata_log.publisher_order import install_followers
from barnabas.server.metadata_log.record_serde import MetadataRecordSerde
from barnabas.server.metadata_log.snapshots import MetadataSnapshots, SnapshotGenerator
from barnabas.server.node_authorizer import NodeAuthorizer
from barnabas.server.node_identity import read_identity
from barnabas.server.process.event_loop_turns import TurnTimes, turns_of
from barnabas.server.process.file_descriptors import descriptor_budget, raise_descriptor_limit
from barnabas.server.quorum.raft_driver import RaftDriver
from barnabas.server.settings.dynamic_broker_config import DynamicSettings
from barnabas.server.settings.encryption_keys import EncryptedConfigsCheck, config_cipher
from barnabas.server.start_errors import NodeStartError
from barnabas.storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.metadata.publisher import MetadataPublisher
    from barnabas.raft.ready import OutboundRequest
    from barnabas.server.quorum.raft_channel import RaftChannel
    from barnabas.server.settings.endpoints import Endpoint
    from barnabas.server.settings.node_config import NodeConfig

__all__ = ["NodeCore"]

log = logging.getLogger("barnabas.server.node")

_LEAVE_TIMEOUT_S = 2.0
_APPLY_TIMEOUT_S = 1.0


class NodeCore:
    """``stopping`` is set when the node can't continue; ``failure`` is the reason."""

    def __init__(self, config: NodeConfig) -> None:
        self.config = config
        self.clock = SystemClock()
        self.failure: BaseException | None = None
        self.stopping = asyncio.Event()
        self.identity = read_identity(config)
        self.serde = MetadataRecordSerde()
        self.authorization = NodeAuthorizer(config, high_watermark=lambda: self.driver.node.known_high_watermark)
        self.authorizer = self.authorization.authorizer
        self.config_cipher = config_cipher(config)
        self.encrypted_configs = EncryptedConfigsCheck(self.config_cipher)
        self.request_limits = request_limits(config)
        self.long_work = LongWork()
        self.descriptors = descriptor_budget(raise_descriptor_limit(), config.barnabas_max_open_files)
        self.token_hmacs = token_hmacs_of(config.delegation_token_secret_key)
        self.metadata = MetadataCache()
        self.credentials = CredentialPublisher(
            clock=self.clock, hmacs=self.token_hmacs, cluster_id=self.identity.cluster_id
        )
        self.dynamic_settings = DynamicSettings(
            config, configs=lambda: self.metadata.image.configs, cipher=self.config_cipher
        )
        self.loader = MetadataLoader()
        self.applied = AppliedOffset()
        self.turn_times = TurnTimes()
        self.loop_turns = turns_of(asyncio.get_running_loop())
        self.on_leader_change: list[Callable[[], None]] = []
        """Functions to call whenever the metadata quorum has another leader, or none."""
        self._connection_quotas: list[ConnectionQuotas] = []
        self.driver = RaftDriver(
            config=raft_config(config, self.identity),
            log_config=metadata_log_config(config),
            clock=self.clock,
            serde=self.serde,
            fault_handler=self._fail,
            send=self._send_to_replica,
            turn_times=self.turn_times,
        )
        self._raft_channel: RaftChannel | None = None
        if not self.driver.node.is_only_voter:
            self._raft_channel = self._make_raft_channel()
        self.snapshots = MetadataSnapshots(self.driver)
        self.snapshot_generator = SnapshotGenerator(
            self.snapshots,
            self.driver,
            max_bytes=config.metadata_log_max_record_bytes_between_snapshots,
            max_interval_ms=config.metadata_log_max_snapshot_interval_ms,
        )

    @property
    def kraft_version(self) -> int:
        return self.driver.control_records.last_kraft_version

    def connection_quotas(self, endpoints: Sequence[Endpoint], protected: str | None = None) -> ConnectionQuotas:
        """Return the connection limits for the listeners of one part. Raise NodeStartError for malformed limits."""
        config, names = self.config, [endpoint.listener for endpoint in endpoints]
        try:
            caps = connection_caps(config, names, protected=protected)
        except ValueError as error:
            raise NodeStartError(str(error)) from error
        quotas = ConnectionQuotas(
            caps,
            now_s=monotonic,
            window_count=config.quota_window_num,
            window_s=config.quota_window_size_seconds,
        )
        self.dynamic_settings.add_effect(ConnectionEffect(quotas, names, protected))
        self._connection_quotas.append(quotas)
        return quotas

    def follow_metadata(
        self, *, first: Iterable[MetadataPublisher] = (), last: Iterable[MetadataPublisher] = ()
    ) -> None:
        """Install the publishers of new images in this order; ``first`` and ``last`` are the broker's."""
        install_followers(
            self.loader,
            self.authorization,
            checks=(self.encrypted_configs,),
            metadata=self.metadata,
            first=(self.credentials, *first),
            snapshots=self.snapshot_generator,
            last=(self.dynamic_settings, *last, IpRatePublisher(tuple(self._connection_quotas))),
            applied=self.applied,
        )

    async def catch_up(self) -> bool:
        """Apply the metadata log up to the offset that is committed now. Return False on a time-out."""
        return await self.applied.reach(await self.driver.read_index() - 1, _APPLY_TIMEOUT_S)

    def start_log(self, controller: QuorumController | None) -> None:
        """Enter the quorum. From now on the node follows the log."""
        self.driver.register(
            MetadataListener(
                node_id=self.config.node_id,
                loader=self.loader,
                controller=controller,
                serde=self.serde,
                next_offset=lambda: self.driver.next_offset,
                kraft_version=lambda: self.kraft_version,
                on_leader_change=self.on_leader_change,
            )
        )
        self.driver.start()

    async def leave_quorum(self) -> None:
        """Leave the quorum. Call it while the controller listener still answers: others may request our vote."""
        await self.driver.leave(_LEAVE_TIMEOUT_S)

    async def close_log(self) -> None:
        """Close the log, after everything else. Afterwards all appended records are durable."""
        if self._raft_channel is not None:
            await self._raft_channel.close()
        await self.driver.close()
        self.long_work.close()
        self.authorization.close()

    def _send_to_replica(self, request: OutboundRequest) -> None:
        if self._raft_channel is None:
            try:
                self._raft_channel = self._make_raft_channel()
            except NodeStartError as error:
                # The node started as the only voter, without a channel to others, and now needs one.
                log.error("%s", error)
                failure = RequestFailed(request.correlation_id, request.destination_id)
                asyncio.get_running_loop().call_soon(self.driver.handle_outcome, failure)
                return
        self._raft_channel.send(request)

    def _make_raft_channel(self) -> RaftChannel:
        from barnabas.server.quorum.raft_channel import RaftChannel  # The only voter sends no requests.

        return RaftChannel(self.config, self.driver.handle_outcome)

    def give_up(self, fault: BaseException) -> None:
        """Stop the node, and log the reason."""
        log.critical("the node stops: %s", fault)
        self.failure = fault
        self.stopping.set()

    def _fail(self, fault: BaseException) -> None:
        """Stop the node, because the metadata log has failed."""
        if isinstance(fault, StorageError | OSError):
            log.critical("the metadata log failed; the node stops: %s", fault)
        else:
            log.critical("the metadata log failed; the node stops", exc_info=fault)
        self.failure = fault
        self.stopping.set()
