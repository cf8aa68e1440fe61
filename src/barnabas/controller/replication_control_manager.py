"""Topics, partitions and the effects of arriving and leaving brokers on them.

Each concept has its module; this class combines them and decides changes of both a broker's registration and its
partitions. The order of records matters: a leaving broker's partitions move before the record that fences it, and an
arriving broker is unfenced before it may lead. Those records need not be atomic: a broker may hold more partitions than
fit into a batch, and every prefix of the records leads to a valid state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from barnabas.common.errors import ApiError, ApiException, ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.controller.broker_arrivals import BrokerArrivals
from barnabas.controller.broker_departures import BrokerDepartures
from barnabas.controller.broker_heartbeat_manager import BrokerControlState
from barnabas.controller.cluster_control_manager import ClusterControlManager
from barnabas.controller.configuration_control_manager import ConfigurationControlManager
from barnabas.controller.controller_config import ControllerConfig
from barnabas.controller.controller_result import ControllerResult
from barnabas.controller.controller_state import ControllerState
from barnabas.controller.decision_steps import Steps
from barnabas.controller.decision_turns import DecisionTurns, Turns
from barnabas.controller.leader_election import LeaderElection
from barnabas.controller.mutation_quotas import UNLIMITED, MutationAllowance
from barnabas.controller.partition_alteration import PartitionAlteration
from barnabas.controller.partition_creation import PartitionCreation
from barnabas.controller.partition_election import PartitionElection
from barnabas.controller.partition_reassignment import PartitionReassignment
from barnabas.controller.periodic_elections import PeriodicElections
from barnabas.controller.topic_creation import TopicCreation
from barnabas.controller.topic_deletion import delete_topics
from barnabas.metadata.image.cluster import BrokerRegistration
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest
from barnabas.protocol.messages.create_partitions import CreatePartitionsTopic, CreatePartitionsTopicResult
from barnabas.protocol.messages.create_topics import CreatableTopic, CreatableTopicResult
from barnabas.protocol.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from barnabas.protocol.records.register_broker_record import RegisterBrokerRecord
from barnabas.protocol.records.unregister_broker_record import UnregisterBrokerRecord

__all__ = ["BrokerHeartbeatReply", "ReplicationControlManager"]


class BrokerHeartbeatReply(NamedTuple):
    is_caught_up: bool
    is_fenced: bool
    in_controlled_shutdown: bool
    should_shut_down: bool


class ReplicationControlManager:
    def __init__(
        self,
        state: ControllerState,
        config: ControllerConfig,
        cluster: ClusterControlManager,
        configs: ConfigurationControlManager,
        *,
        new_uuid: Callable[[], Uuid],
        random_int: Callable[[int], int],
    ) -> None:
        self._state = state
        self._config = config
        self._cluster = cluster
        self.election = PartitionElection(state, cluster, configs)
        self.turns = DecisionTurns()
        self.departures = BrokerDepartures(state, cluster.departing, self.turns)
        self.arrivals = BrokerArrivals(state, cluster, self.election, self.turns)
        self._has_left: set[int] = set()
        """Brokers that shut down, and have been removed from all their partitions since their last heartbeat."""
        self.alteration = PartitionAlteration(state, cluster, self.election)
        self.periodic_elections = PeriodicElections(state, config, cluster, configs, self.election, self.turns)
        self.leader_election = LeaderElection(state, cluster, self.election)
        self.reassignment = PartitionReassignment(state, cluster, configs, self.election)
        self._creation = TopicCreation(state, config, cluster, configs, new_uuid=new_uuid, random_int=random_int)
        self._growth = PartitionCreation(state, cluster, random_int=random_int)

    def activate(self, now_ms: int) -> None:
        self.periodic_elections.activate(now_ms)
        self.arrivals.activate()

    def deactivate(self) -> None:
        self.periodic_elections.deactivate()
        self.turns.clear()
        self.departures.deactivate()
        self._has_left.clear()

    # Topics

    def create_topics(
        self,
        topics: Sequence[CreatableTopic],
        describable: Collection[str] | None,
        *,
        validate_only: bool,
        allowance: MutationAllowance = UNLIMITED,
    ) -> Steps[ControllerResult[list[CreatableTopicResult]]]:
        return self._creation.create_topics(topics, describable, validate_only=validate_only, allowance=allowance)

    def delete_topics(
        self, topic_ids: Iterable[Uuid], allowance: MutationAllowance = UNLIMITED
    ) -> Steps[ControllerResult[dict[Uuid, ApiError]]]:
        return delete_topics(self._state, topic_ids, allowance)

    def create_partitions(
        self,
        topics: Sequence[CreatePartitionsTopic],
        *,
        validate_only: bool,
        allowance: MutationAllowance = UNLIMITED,
    ) -> Steps[ControllerResult[list[CreatePartitionsTopicResult]]]:
        return self._growth.create_partitions(topics, validate_only=validate_only, allowance=allowance)

    # Brokers

    def register_broker(
        self, request: BrokerRegistrationRequest, *, new_epoch: Callable[[], int], now_ms: Callable[[], int]
    ) -> Turns[int]:
        """Register a broker; the answer is its epoch. ``new_epoch`` returns the offset of the last turn's batch.

        The partitions of the broker's previous process move first. Whether this one may register is decided again in
        each turn: another process may have registered first.
        """
        existing = self._cluster.validate_registration(request, now_ms())
        records: list[ApiMessageAndVersion] = []
        if existing is None or existing.incarnation_id != request.incarnation_id:
            # An unregistered broker may still be named in ISR and ELR, and it is unknown whether it stopped cleanly.
            is_clean = existing is not None and existing.epoch == request.previous_broker_epoch
            may_count_on_it = is_clean or not self._state.image.features.is_elr_enabled
            decide = self.election.broker_leaves if may_count_on_it else self.election.broker_was_killed
            for turn in self.departures.turns(
                request.broker_id, partial(decide, request.broker_id), counts_eligible=not may_count_on_it
            ):
                if turn.is_last:
                    records = turn.records
                    break
                yield ControllerResult(turn.records, None, is_atomic=False)
                existing = self._cluster.validate_registration(request, now_ms())
        registration = self._cluster.registration_record(request, existing, new_epoch())
        records.append(registration)
        message: RegisterBrokerRecord = registration.message
        if message.fenced:
            self._cluster.heartbeats.forget(request.broker_id)
        is_atomic = len(records) <= self._config.max_records_per_batch
        return ControllerResult(records, message.broker_epoch, is_atomic=is_atomic)

    def unregister_broker(self, broker_id: int) -> Turns[None]:
        broker = self._broker_to_unregister(broker_id)
        records: list[ApiMessageAndVersion] = []
        for turn in self.departures.turns(
            broker_id, partial(self.election.broker_leaves, broker_id), counts_eligible=True
        ):
            if turn.is_last:
                records = turn.records
                break
            yield ControllerResult(turn.records, None, is_atomic=False)
            broker = self._broker_to_unregister(broker_id)
        removal = UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch)
        records.append(ApiMessageAndVersion(removal, 0))
        self._cluster.heartbeats.forget(broker_id)
        return ControllerResult(records, None, is_atomic=False)

    def _broker_to_unregister(self, broker_id: int) -> BrokerRegistration:
        broker = self._state.image.cluster.brokers.get(broker_id)
        if broker is None:
            raise ApiException(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered")
        return broker

    def process_broker_heartbeat(
        self, request: BrokerHeartbeatRequest, *, now_ms: int, next_write_offset: int
    ) -> ControllerResult[BrokerHeartbeatReply]:
        broker = self._cluster.check_broker_epoch(request.broker_id, request.broker_epoch)
        registered_at = self._state.registration_offsets.get(broker.id)
        is_caught_up = registered_at is not None and request.current_metadata_offset >= registered_at
        heartbeats = self._cluster.heartbeats
        if broker.id in self._has_left:
            self._has_left.discard(broker.id)
            heartbeats.begin_controlled_shutdown(broker.id, next_write_offset - 1)
        current, following = heartbeats.next_state(
            broker,
            want_fence=request.want_fence,
            want_shut_down=request.want_shut_down,
            is_caught_up=is_caught_up,
            has_leaderships=lambda: self.departures.is_under_way(broker.id) or self.election.has_leaderships(broker.id),
        )
        records = self._records_of_transition(broker, current, following)
        if following == BrokerControlState.SHUTDOWN_NOW:
            # It shut down: its next incarnation need not wait until this session expires, as it must with Kafka.
            heartbeats.forget(broker.id)
        else:
            heartbeats.touch(
                broker.id,
                broker.epoch,
                request.current_metadata_offset,
                now_ms,
                is_active=following == BrokerControlState.UNFENCED,
            )
        if following == BrokerControlState.CONTROLLED_SHUTDOWN and (records or current != following):
            heartbeats.begin_controlled_shutdown(broker.id, next_write_offset + len(records) - 1)
        records.extend(self._directory_records(broker, request))
        reply = BrokerHeartbeatReply(
            is_caught_up=is_caught_up,
            is_fenced=following.is_fenced,
            in_controlled_shutdown=following == BrokerControlState.CONTROLLED_SHUTDOWN,
            should_shut_down=following == BrokerControlState.SHUTDOWN_NOW,
        )
        return ControllerResult(records, reply, is_atomic=False)

    def changes_nothing(self, request: BrokerHeartbeatRequest) -> bool:
        """Return whether the heartbeat changes nothing, or is from a process that was replaced."""
        broker = self._state.image.cluster.brokers.get(request.broker_id)
        if broker is None or broker.epoch != request.broker_epoch:
            return True
        if broker.fenced or broker.in_controlled_shutdown or request.want_fence or request.want_shut_down:
            return False
        if broker.id in self._has_left or set(request.offline_log_dirs or ()) & set(broker.directories):
            return False
        cordoned, before = request.cordoned_log_dirs, broker.cordoned_directories
        return cordoned is None or (before is not None and sorted(cordoned) == sorted(before))

    def fence_stale_broker(self, broker_id: int) -> ControllerResult[None]:
        """Fence a broker whose session has expired without a later heartbeat. A fenced broker needs no change."""
        broker = self._state.image.cluster.brokers.get(broker_id)
        if broker is None or broker.fenced or self._cluster.heartbeats.is_in_touch(broker_id):
            return ControllerResult((), None)
        return self._fence(broker)

    def _fence(self, broker: BrokerRegistration) -> ControllerResult[None]:
        """Remove the broker from its partitions, in turns if they are many, and fence it with the last turn."""
        leaves = partial(self.election.broker_leaves, broker.id)
        return self.departures.begin(broker, leaves, partial(self._fenced_after, broker.id))

    def _fenced_after(self, broker_id: int, records: list[ApiMessageAndVersion]) -> ControllerResult[None]:
        broker = self._state.image.cluster.brokers[broker_id]
        if not broker.fenced:
            records.append(_change(broker, fenced=1))
        return ControllerResult(records, None, is_atomic=False)

    def _moves_of_shutdown(self, broker: BrokerRegistration) -> Sequence[ApiMessageAndVersion]:
        """Move its leaderships, and remove it from every ISR: in one step, or in turns of which this is the first."""

        def moved(records: list[ApiMessageAndVersion]) -> ControllerResult[None]:
            self._has_left.add(broker.id)
            return ControllerResult(records, None, is_atomic=False)

        return self.departures.begin(broker, partial(self.election.broker_leaves, broker.id), moved).records

    def _records_of_transition(
        self, broker: BrokerRegistration, current: BrokerControlState, following: BrokerControlState
    ) -> list[ApiMessageAndVersion]:
        if current == following:
            # The previous controller may have moved only some of its partitions.
            is_left_over = current == BrokerControlState.CONTROLLED_SHUTDOWN
            if (
                is_left_over
                and not self.departures.is_under_way(broker.id)
                and self.election.has_leaderships(broker.id)
            ):
                return list(self._moves_of_shutdown(broker))
            return []
        if following.is_fenced:
            return [] if current == BrokerControlState.FENCED else list(self._fence(broker).records)
        if following == BrokerControlState.UNFENCED:
            return [_change(broker, fenced=-1), *self.arrivals.begin(broker)]
        return [_change(broker, in_controlled_shutdown=1), *self._moves_of_shutdown(broker)]

    def _directory_records(
        self, broker: BrokerRegistration, request: BrokerHeartbeatRequest
    ) -> list[ApiMessageAndVersion]:
        """Return the broker's directories, if they differ from the registered ones."""
        version = self._state.image.features.metadata_version_or_throw()
        records: list[ApiMessageAndVersion] = []
        if version.is_directory_assignment_supported and request.offline_log_dirs:
            lost = set(request.offline_log_dirs) & set(broker.directories)
            online = [directory for directory in broker.directories if directory not in lost]
            if online and lost and not self.departures.is_under_way(broker.id):
                records.extend(self._directories_lost(broker, lost, online).records)
        cordoned = request.cordoned_log_dirs
        if version.is_cordoned_log_dirs_supported and cordoned is not None:
            before = broker.cordoned_directories
            if before is None or sorted(before) != sorted(cordoned):
                records.append(_change(broker, cordoned_log_dirs=list(cordoned)))
        return records

    def _directories_lost(
        self, broker: BrokerRegistration, lost: Collection[Uuid], online: list[Uuid]
    ) -> ControllerResult[None]:
        """Remove the replicas in these directories, in turns if they are many, and the directories with the last."""

        def concluded(records: list[ApiMessageAndVersion]) -> ControllerResult[None]:
            return ControllerResult([*records, _change(broker, log_dirs=online)], None, is_atomic=False)

        decide = partial(self.election.directories_are_lost, broker.id, lost)
        return self.departures.begin(broker, decide, concluded, directories=lost)


def _change(
    broker: BrokerRegistration,
    *,
    fenced: int = 0,
    in_controlled_shutdown: int = 0,
    log_dirs: list[Uuid] | None = None,
    cordoned_log_dirs: list[Uuid] | None = None,
) -> ApiMessageAndVersion:
    """Build the record at the lowest version that can carry the change."""
    record = BrokerRegistrationChangeRecord(
        broker_id=broker.id,
        broker_epoch=broker.epoch,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
        cordoned_log_dirs=cordoned_log_dirs,
    )
    version = 1 if in_controlled_shutdown else 0
    if log_dirs is not None:
        record.log_dirs = log_dirs
        version = 2
    if cordoned_log_dirs is not None:
        version = 3
    return ApiMessageAndVersion(record, version)
