"""The registrations of brokers and controllers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, NamedTuple, TypeVar

from barnabas.common.errors import InvariantViolated, invariant
from barnabas.common.uuid import Uuid
from barnabas.metadata.features import VersionRange
from barnabas.metadata.image.partition_registration import DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED
from barnabas.metadata.image.record_writer import RecordWriter
from barnabas.protocol.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from barnabas.protocol.records.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from barnabas.protocol.records.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)
from barnabas.protocol.records.unregister_broker_record import UnregisterBrokerRecord

__all__ = ["BrokerRegistration", "ClusterDelta", "ClusterImage", "ControllerRegistration", "Endpoint"]

V = TypeVar("V")


class Endpoint(NamedTuple):
    listener_name: str
    host: str
    port: int
    security_protocol: int


class BrokerRegistration:
    """A broker as the log describes it. A fenced broker stays registered and listed."""

    __slots__ = (
        "cordoned_directories",
        "directories",
        "epoch",
        "features",
        "fenced",
        "id",
        "in_controlled_shutdown",
        "incarnation_id",
        "is_migrating_zk_broker",
        "listeners",
        "rack",
    )

    def __init__(
        self,
        *,
        id: int,
        epoch: int,
        incarnation_id: Uuid,
        listeners: Mapping[str, Endpoint],
        features: Mapping[str, VersionRange],
        rack: str | None = None,
        fenced: bool = True,
        in_controlled_shutdown: bool = False,
        is_migrating_zk_broker: bool = False,
        directories: tuple[Uuid, ...] = (),
        cordoned_directories: tuple[Uuid, ...] | None = None,
    ) -> None:
        self.id = id
        self.epoch = epoch
        self.incarnation_id = incarnation_id
        self.listeners = listeners
        self.features = features
        self.rack = rack
        self.fenced = fenced
        self.in_controlled_shutdown = in_controlled_shutdown
        self.is_migrating_zk_broker = is_migrating_zk_broker
        self.directories = directories
        self.cordoned_directories = cordoned_directories

    @classmethod
    def from_record(cls, record: RegisterBrokerRecord) -> BrokerRegistration:
        cordoned = record.cordoned_log_dirs
        return cls(
            id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            listeners=_endpoints(record.end_points),
            features=_features(record.features),
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            is_migrating_zk_broker=record.is_migrating_zk_broker,
            directories=tuple(sorted(record.log_dirs)),
            cordoned_directories=None if cordoned is None else tuple(cordoned),
        )

    def merge(self, record: BrokerRegistrationChangeRecord) -> BrokerRegistration:
        """``fenced`` and ``in_controlled_shutdown``: 0 no change, 1 yes, -1 no. Absent directories: no change."""
        changed = self.copy()
        changed.fenced = _changed(record.fenced, self.fenced)
        changed.in_controlled_shutdown = _changed(record.in_controlled_shutdown, self.in_controlled_shutdown)
        if record.log_dirs:
            changed.directories = tuple(sorted(record.log_dirs))
        if record.cordoned_log_dirs is not None:
            changed.cordoned_directories = tuple(record.cordoned_log_dirs)
        return changed

    def copy(self) -> BrokerRegistration:
        return BrokerRegistration(**{name: getattr(self, name) for name in self.__slots__})

    @property
    def is_active(self) -> bool:
        """Whether it may lead partitions and enter an ISR."""
        return not self.fenced and not self.in_controlled_shutdown

    def directory_for_new_replica(self) -> Uuid:
        """Its only directory, or UNASSIGNED where the broker itself will choose among several."""
        if not self.directories:
            return DIRECTORY_MIGRATING
        return self.directories[0] if len(self.directories) == 1 else DIRECTORY_UNASSIGNED

    def has_online_directory(self, directory: Uuid) -> bool:
        """Return whether it can serve replicas in the directory; one that was not chosen yet counts as online."""
        if not self.directories or directory in self.directories:
            return True
        return directory in (DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED)

    def to_record(self, writer: RecordWriter) -> RegisterBrokerRecord:
        version = writer.metadata_version
        record = RegisterBrokerRecord(
            broker_id=self.id,
            incarnation_id=self.incarnation_id,
            broker_epoch=self.epoch,
            end_points=[
                BrokerEndpoint(name=e.listener_name, host=e.host, port=e.port, security_protocol=e.security_protocol)
                for e in self.listeners.values()
            ],
            features=[
                BrokerFeature(name=name, min_supported_version=levels.min, max_supported_version=levels.max)
                for name, levels in self.features.items()
            ],
            rack=self.rack,
            fenced=self.fenced,
        )
        record.in_controlled_shutdown = self.in_controlled_shutdown
        if version.register_broker_record_version >= 2:
            record.is_migrating_zk_broker = self.is_migrating_zk_broker
        if version.is_directory_assignment_supported:
            record.log_dirs = list(self.directories)
        elif self.directories:
            writer.lose("the log directories of one or more brokers")
        if version.is_cordoned_log_dirs_supported:
            cordoned = self.cordoned_directories
            record.cordoned_log_dirs = None if cordoned is None else list(cordoned)
        elif self.cordoned_directories:
            writer.lose("the cordoned log directories of one or more brokers")
        return record

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, BrokerRegistration)
            and all(getattr(self, name) == getattr(other, name) for name in self.__slots__)
        )

    def __hash__(self) -> int:
        return hash((self.id, self.epoch))

    def __repr__(self) -> str:
        return f"BrokerRegistration({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"


class ControllerRegistration(NamedTuple):
    id: int
    incarnation_id: Uuid
    zk_migration_ready: bool
    listeners: Mapping[str, Endpoint]
    features: Mapping[str, VersionRange]

    @classmethod
    def from_record(cls, record: RegisterControllerRecord) -> ControllerRegistration:
        return cls(
            record.controller_id,
            record.incarnation_id,
            record.zk_migration_ready,
            _endpoints(record.end_points),
            _features(record.features),
        )

    def to_record(self) -> RegisterControllerRecord:
        return RegisterControllerRecord(
            controller_id=self.id,
            incarnation_id=self.incarnation_id,
            zk_migration_ready=self.zk_migration_ready,
            end_points=[
                ControllerEndpoint(
                    name=e.listener_name, host=e.host, port=e.port, security_protocol=e.security_protocol
                )
                for e in self.listeners.values()
            ],
            features=[
                ControllerFeature(name=name, min_supported_version=levels.min, max_supported_version=levels.max)
                for name, levels in self.features.items()
            ],
        )


class ClusterImage:
    __slots__ = ("brokers", "controllers")

    EMPTY: ClassVar[ClusterImage]

    def __init__(
        self, brokers: Mapping[int, BrokerRegistration], controllers: Mapping[int, ControllerRegistration]
    ) -> None:
        self.brokers = brokers
        self.controllers = controllers

    def broker(self, broker_id: int) -> BrokerRegistration | None:
        return self.brokers.get(broker_id)

    def is_alive(self, broker_id: int) -> bool:
        """Registered and unfenced; a broker in controlled shutdown is still alive."""
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.fenced

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, ClusterImage)
            and (dict(self.brokers), dict(self.controllers)) == (dict(other.brokers), dict(other.controllers))
        )

    __hash__ = None  # type: ignore[assignment]

    def write(self, writer: RecordWriter) -> None:
        for broker_id in sorted(self.brokers):
            version = writer.metadata_version.register_broker_record_version
            writer.write(self.brokers[broker_id].to_record(writer), version)
        if not writer.metadata_version.is_controller_registration_supported:
            if self.controllers:
                writer.lose("the registrations of controllers")
            return
        for controller_id in sorted(self.controllers):
            writer.write(self.controllers[controller_id].to_record(), 0)


ClusterImage.EMPTY = ClusterImage({}, {})


class ClusterDelta:
    """``changed_brokers`` maps an id to its new registration, or to None when it was removed."""

    __slots__ = ("changed_brokers", "changed_controllers", "image")

    def __init__(self, image: ClusterImage) -> None:
        self.image = image
        self.changed_brokers: dict[int, BrokerRegistration | None] = {}
        self.changed_controllers: dict[int, ControllerRegistration | None] = {}

    def broker(self, broker_id: int) -> BrokerRegistration | None:
        if broker_id in self.changed_brokers:
            return self.changed_brokers[broker_id]
        return self.image.brokers.get(broker_id)

    def replay_register_broker(self, record: RegisterBrokerRecord) -> None:
        self.changed_brokers[record.broker_id] = BrokerRegistration.from_record(record)

    def replay_unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self._known(record.broker_id, record.broker_epoch)
        self.changed_brokers[record.broker_id] = None

    def replay_fenced(self, broker_id: int, epoch: int, fenced: bool) -> None:
        """The old records FenceBroker and UnfenceBroker."""
        changed = self._known(broker_id, epoch).copy()
        changed.fenced = fenced
        self.changed_brokers[broker_id] = changed

    def replay_broker_registration_change(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._known(record.broker_id, record.broker_epoch)
        self.changed_brokers[record.broker_id] = broker.merge(record)

    def replay_register_controller(self, record: RegisterControllerRecord) -> None:
        self.changed_controllers[record.controller_id] = ControllerRegistration.from_record(record)

    def finish_snapshot(self) -> None:
        for broker_id in self.image.brokers:
            self.changed_brokers.setdefault(broker_id, None)
        for controller_id in self.image.controllers:
            self.changed_controllers.setdefault(controller_id, None)

    def apply(self) -> ClusterImage:
        return ClusterImage(
            _applied(self.image.brokers, self.changed_brokers),
            _applied(self.image.controllers, self.changed_controllers),
        )

    def _known(self, broker_id: int, epoch: int) -> BrokerRegistration:
        broker = self.broker(broker_id)
        if broker is None:
            raise InvariantViolated(f"broker {broker_id} is not registered")
        if broker.epoch != epoch:
            raise InvariantViolated(f"broker {broker_id} has epoch {broker.epoch}, the record says {epoch}")
        return broker


def _applied(before: Mapping[int, V], changes: Mapping[int, V | None]) -> Mapping[int, V]:
    if not changes:
        return before
    after = dict(before)
    for key, value in changes.items():
        if value is None:
            after.pop(key, None)
        else:
            after[key] = value
    return after


def _changed(code: int, current: bool) -> bool:
    invariant(code in (-1, 0, 1), f"{code} is not a change of a registration")
    return current if code == 0 else code == 1


def _endpoints(endpoints: Iterable[Any]) -> Mapping[str, Endpoint]:
    return {e.name: Endpoint(e.name, e.host, e.port, e.security_protocol) for e in endpoints}


def _features(features: Iterable[Any]) -> Mapping[str, VersionRange]:
    return {f.name: VersionRange(f.min_supported_version, f.max_supported_version) for f in features}
