"""Registrations, heartbeats and departures of brokers and controllers.

A registration is checked in this order: wrong cluster id, another incarnation with a live session,
ZooKeeper migration, invalid directory ids, features whose finalized level the node lacks.
``ReplicationControlManager`` handles the effects on partitions.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.controller.broker_heartbeat_manager import BrokerHeartbeatManager
from barnabas.controller.controller_config import ControllerConfig
from barnabas.controller.controller_result import ControllerResult
from barnabas.controller.controller_state import ControllerState
from barnabas.controller.departing_replicas import DepartingReplicas
from barnabas.controller.feature_control_manager import FeatureControlManager
from barnabas.controller.sensitive_configs import check_can_read_configs
from barnabas.metadata.features import METADATA_VERSION, NO_REPLICATION, VersionRange
from barnabas.metadata.image.cluster import BrokerRegistration
from barnabas.metadata.image.partition_registration import DIRECTORY_LOST, DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature
from barnabas.protocol.messages.controller_registration import ControllerRegistrationRequest
from barnabas.protocol.records.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from barnabas.protocol.records.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)

__all__ = ["ClusterControlManager"]


class ClusterControlManager:
    def __init__(self, state: ControllerState, config: ControllerConfig, features: FeatureControlManager) -> None:
        self._state = state
        self._config = config
        self._features = features
        self.heartbeats = BrokerHeartbeatManager(config.broker_session_timeout_ms)
        self.departing = DepartingReplicas()

    def activate(self, now_ms: int) -> None:
        self.heartbeats = BrokerHeartbeatManager(self._config.broker_session_timeout_ms)
        for broker in self._state.image.cluster.brokers.values():
            if not broker.fenced:
                self.heartbeats.grant_session(broker.id, broker.epoch, now_ms)

    def deactivate(self) -> None:
        self.heartbeats = BrokerHeartbeatManager(self._config.broker_session_timeout_ms)
        self.departing.clear()

    # Queries of placement and elections

    def is_active(self, broker_id: int) -> bool:
        """Return whether the broker may lead and be in sync: registered, unfenced, not shutting down, not departing."""
        broker = self._state.image.cluster.brokers.get(broker_id)
        return broker is not None and broker.is_active and not self.departing.has_broker(broker)

    def is_registered(self, broker_id: int) -> bool:
        return broker_id in self._state.image.cluster.brokers

    def cannot_replicate(self, broker_ids: Iterable[int]) -> list[int]:
        """Return those of the brokers that can only hold a partition as its sole replica."""
        brokers = self._state.image.cluster.brokers
        return [
            broker_id
            for broker_id in broker_ids
            if broker_id in brokers and NO_REPLICATION in brokers[broker_id].features
        ]

    def check_broker_epoch(self, broker_id: int, broker_epoch: int) -> BrokerRegistration:
        broker = self._state.image.cluster.brokers.get(broker_id)
        if broker is None:
            raise ApiException(ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}")
        if broker.epoch != broker_epoch:
            raise ApiException(
                ErrorCode.STALE_BROKER_EPOCH,
                f"Expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}",
            )
        return broker

    def directory_for_new_replica(self, broker_id: int) -> Uuid:
        broker = self._state.image.cluster.brokers.get(broker_id)
        return DIRECTORY_MIGRATING if broker is None else broker.directory_for_new_replica()

    def has_online_directory(self, broker_id: int, directory: Uuid) -> bool:
        """Return whether the broker can serve replicas in the directory; one that was not chosen yet counts as online.

        A directory that the broker is losing counts as offline before the loss is written.
        """
        if directory in (DIRECTORY_UNASSIGNED, DIRECTORY_MIGRATING):
            return True
        broker = self._state.image.cluster.brokers.get(broker_id)
        if directory == DIRECTORY_LOST or broker is None:
            return False
        if self.departing.has_directory(broker, directory):
            return False
        return not broker.directories or directory in broker.directories

    # Brokers

    def validate_registration(self, request: BrokerRegistrationRequest, now_ms: int) -> BrokerRegistration | None:
        """Return the broker's present registration, if any; raise if it may not register."""
        if request.cluster_id != self._config.cluster_id:
            raise ApiException(
                ErrorCode.INCONSISTENT_CLUSTER_ID,
                f"Expected cluster ID {self._config.cluster_id}, but got cluster ID {request.cluster_id}",
            )
        existing = self._state.image.cluster.brokers.get(request.broker_id)
        if (
            existing is not None
            and existing.incarnation_id != request.incarnation_id
            and self.heartbeats.has_valid_session(existing.id, existing.epoch, now_ms)
        ):
            raise ApiException(
                ErrorCode.DUPLICATE_BROKER_REGISTRATION,
                "Another broker is registered with that broker id. If the broker was recently restarted this should "
                "self-resolve once the heartbeat manager expires the broker's session.",
            )
        if request.is_migrating_zk_broker:
            raise ApiException(
                ErrorCode.BROKER_ID_NOT_REGISTERED, "Controller does not support registering ZK brokers."
            )
        if self._features.metadata_version.is_directory_assignment_supported:
            self._validate_directories(request)
        self._validate_features(request)
        check_can_read_configs(self._state.image.configs, "broker", {feature.name for feature in request.features})
        return existing

    def registration_record(
        self, request: BrokerRegistrationRequest, existing: BrokerRegistration | None, new_epoch: int
    ) -> ApiMessageAndVersion:
        """The same incarnation keeps its epoch and state; a new one starts fenced, with ``new_epoch``."""
        version = self._features.metadata_version
        record = RegisterBrokerRecord(
            broker_id=request.broker_id,
            incarnation_id=request.incarnation_id,
            broker_epoch=new_epoch,
            end_points=[
                BrokerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
                for e in request.listeners
            ],
            features=[
                BrokerFeature(
                    name=f.name,
                    min_supported_version=f.min_supported_version,
                    max_supported_version=f.max_supported_version,
                )
                for f in request.features
            ],
            rack=request.rack,
            fenced=True,
        )
        if version.is_directory_assignment_supported:
            record.log_dirs = list(request.log_dirs)
        if existing is not None and existing.incarnation_id == request.incarnation_id:
            record.broker_epoch = existing.epoch
            record.fenced = existing.fenced
            record.in_controlled_shutdown = existing.in_controlled_shutdown
            if version.is_cordoned_log_dirs_supported and existing.cordoned_directories is not None:
                record.cordoned_log_dirs = list(existing.cordoned_directories)
        return ApiMessageAndVersion(record, version.register_broker_record_version)

    def _validate_directories(self, request: BrokerRegistrationRequest) -> None:
        directories = request.log_dirs
        if not directories:
            raise _invalid_registration("No directories specified in request")
        if any(directory.is_reserved for directory in directories):
            raise _invalid_registration("Reserved directory ID in request")
        if len(set(directories)) != len(directories):
            raise _invalid_registration("Duplicate directory ID in request")
        for broker in self._state.image.cluster.brokers.values():
            if broker.id == request.broker_id:
                continue
            for directory in directories:
                if directory in broker.directories:
                    raise _invalid_registration(f"Broker {broker.id} is already registered with directory {directory}")

    def _validate_features(self, request: BrokerRegistrationRequest) -> None:
        finalized = self._features.finalized_levels()
        offered = {feature.name: _range(feature) for feature in request.features}
        for name, levels in offered.items():
            _check_feature(name, finalized.get(name, 0), levels)
        if METADATA_VERSION not in offered:
            raise _invalid_registration(f"Request features do not contain '{METADATA_VERSION}'")
        for name, level in finalized.items():
            if name not in offered and level > 0:
                _check_feature(name, level, VersionRange(0, 0))

    # Controllers

    def register_controller(self, request: ControllerRegistrationRequest) -> ControllerResult[None]:
        """Raise UNSUPPORTED_VERSION if metadata.version is too low or a finalized level is not offered."""
        if not self._features.metadata_version.is_controller_registration_supported:
            raise ApiException(
                ErrorCode.UNSUPPORTED_VERSION,
                "The current MetadataVersion is too old to support controller registrations.",
            )
        finalized = self._features.finalized_levels()
        offered = {f.name: VersionRange(f.min_supported_version, f.max_supported_version) for f in request.features}
        for name, level in finalized.items():
            _check_feature(name, level, offered.get(name, VersionRange(0, 0)), who="controller")
        check_can_read_configs(self._state.image.configs, "controller", offered)
        record = RegisterControllerRecord(
            controller_id=request.controller_id,
            incarnation_id=request.incarnation_id,
            zk_migration_ready=request.zk_migration_ready,
            end_points=[
                ControllerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
                for e in request.listeners
            ],
            features=[
                ControllerFeature(
                    name=f.name,
                    min_supported_version=f.min_supported_version,
                    max_supported_version=f.max_supported_version,
                )
                for f in request.features
            ],
        )
        return ControllerResult([ApiMessageAndVersion(record, 0)], None)

    def usable_brokers(self) -> Iterable[BrokerRegistration]:
        """Return the brokers for new replicas: every registered broker with a directory that is not cordoned."""
        for broker_id in sorted(self._state.image.cluster.brokers):
            broker = self._state.image.cluster.brokers[broker_id]
            cordoned = broker.cordoned_directories
            if not cordoned or not broker.directories or not set(broker.directories) <= set(cordoned):
                yield broker


def _range(feature: Feature) -> VersionRange:
    return VersionRange(feature.min_supported_version, feature.max_supported_version)


def _check_feature(name: str, finalized: int, levels: VersionRange, who: str = "broker") -> None:
    if finalized != 0 and not levels.contains(finalized):
        raise ApiException(
            ErrorCode.UNSUPPORTED_VERSION,
            f"Unable to register because the {who} does not support finalized version {finalized} of {name}. "
            f"The {who} wants a version between {levels.min} and {levels.max}, inclusive.",
        )


def _invalid_registration(message: str) -> ApiException:
    return ApiException(ErrorCode.INVALID_REGISTRATION, message)
