"""One partition as the metadata log describes it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from enum import IntEnum
from typing import Any, TypeVar

from barnabas.common.uuid import Uuid
from barnabas.metadata.metadata_version import MetadataVersion
from barnabas.protocol.records.partition_change_record import PartitionChangeRecord
from barnabas.protocol.records.partition_record import PartitionRecord

__all__ = [
    "DIRECTORY_LOST",
    "DIRECTORY_MIGRATING",
    "DIRECTORY_UNASSIGNED",
    "NO_LEADER",
    "NO_LEADER_CHANGE",
    "LeaderRecoveryState",
    "PartitionRegistration",
]

NO_LEADER = -1
NO_LEADER_CHANGE = -2

DIRECTORY_MIGRATING = Uuid.from_int(0)
DIRECTORY_UNASSIGNED = Uuid.from_int(1)
DIRECTORY_LOST = Uuid.from_int(2)


class LeaderRecoveryState(IntEnum):
    """RECOVERING: the leader was elected uncleanly and must report when its log is consistent again."""

    RECOVERED = 0
    RECOVERING = 1


_RECOVERY_STATE_NO_CHANGE = -1


class PartitionRegistration:
    """An immutable value: a change creates a new one.

    ``leader_epoch`` grows by one with every PartitionChangeRecord that names a leader, even the same
    one again; ``partition_epoch`` grows with every change record.
    """

    __slots__ = (
        "adding_replicas",
        "directories",
        "elr",
        "isr",
        "last_known_elr",
        "leader",
        "leader_epoch",
        "leader_recovery_state",
        "partition_epoch",
        "removing_replicas",
        "replicas",
    )

    def __init__(
        self,
        *,
        replicas: tuple[int, ...],
        directories: tuple[Uuid, ...],
        isr: tuple[int, ...],
        leader: int,
        leader_epoch: int = 0,
        partition_epoch: int = 0,
        leader_recovery_state: int = LeaderRecoveryState.RECOVERED,
        removing_replicas: tuple[int, ...] = (),
        adding_replicas: tuple[int, ...] = (),
        elr: tuple[int, ...] = (),
        last_known_elr: tuple[int, ...] = (),
    ) -> None:
        self.replicas = replicas
        self.directories = directories
        self.isr = isr
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.leader_recovery_state = leader_recovery_state
        self.removing_replicas = removing_replicas
        self.adding_replicas = adding_replicas
        self.elr = elr
        self.last_known_elr = last_known_elr

    @classmethod
    def from_record(cls, record: PartitionRecord) -> PartitionRegistration:
        """A record from before directory assignment has no directories: each is MIGRATING."""
        replicas = _shared(tuple(record.replicas))
        return cls(
            replicas=replicas,
            directories=_shared(tuple(record.directories) or (DIRECTORY_MIGRATING,) * len(replicas)),
            isr=_shared(tuple(record.isr)),
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            leader_recovery_state=record.leader_recovery_state,
            removing_replicas=tuple(record.removing_replicas),
            adding_replicas=tuple(record.adding_replicas),
            elr=_ids(record.eligible_leader_replicas, ()),
            last_known_elr=_ids(record.last_known_elr, ()),
        )

    def merge(self, record: PartitionChangeRecord) -> PartitionRegistration:
        replicas = _ids(record.replicas, self.replicas)
        directories = self.directories if record.directories is None else tuple(record.directories)
        if len(directories) != len(replicas):
            directories = _directories_of(replicas, self)
        leader_changes = record.leader != NO_LEADER_CHANGE
        recovery = record.leader_recovery_state
        return PartitionRegistration(
            replicas=replicas,
            directories=directories,
            isr=_ids(record.isr, self.isr),
            leader=record.leader if leader_changes else self.leader,
            leader_epoch=self.leader_epoch + 1 if leader_changes else self.leader_epoch,
            partition_epoch=self.partition_epoch + 1,
            leader_recovery_state=self.leader_recovery_state if recovery == _RECOVERY_STATE_NO_CHANGE else recovery,
            removing_replicas=_ids(record.removing_replicas, self.removing_replicas),
            adding_replicas=_ids(record.adding_replicas, self.adding_replicas),
            elr=_ids(record.eligible_leader_replicas, self.elr),
            last_known_elr=_ids(record.last_known_elr, self.last_known_elr),
        )

    def without_elr(self) -> PartitionRegistration:
        """The partition after ClearElrRecord: a change like any other, so the partition epoch grows."""
        if not self.elr and not self.last_known_elr:
            return self
        return PartitionRegistration(
            replicas=self.replicas,
            directories=self.directories,
            isr=self.isr,
            leader=self.leader,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch + 1,
            leader_recovery_state=self.leader_recovery_state,
            removing_replicas=self.removing_replicas,
            adding_replicas=self.adding_replicas,
        )

    def to_record(self, topic_id: Uuid, partition_id: int, metadata_version: MetadataVersion) -> PartitionRecord:
        record = PartitionRecord(
            partition_id=partition_id,
            topic_id=topic_id,
            replicas=list(self.replicas),
            isr=list(self.isr),
            removing_replicas=list(self.removing_replicas),
            adding_replicas=list(self.adding_replicas),
            leader=self.leader,
            leader_recovery_state=self.leader_recovery_state,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
        )
        if metadata_version.is_directory_assignment_supported:
            record.directories = list(self.directories)
        if metadata_version.is_elr_supported:
            record.eligible_leader_replicas = list(self.elr) if self.elr else None
            record.last_known_elr = list(self.last_known_elr) if self.last_known_elr else None
        return record

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def preferred_replica(self) -> int:
        return self.replicas[0] if self.replicas else NO_LEADER

    def directory_of(self, replica: int) -> Uuid:
        """The log directory of a replica; raises ValueError if the broker holds none."""
        return self.directories[self.replicas.index(replica)]

    def _fields(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, PartitionRegistration) and self._fields() == other._fields())

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return f"PartitionRegistration({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"


def _ids(changed: Sequence[int] | None, current: tuple[int, ...]) -> tuple[int, ...]:
    return current if changed is None else _shared(tuple(changed))


_T = TypeVar("_T", bound=Hashable)
_SHARED_MAX = 4096
_known: dict[Any, Any] = {}


def _shared(value: _T) -> _T:
    """Return an equal tuple that another partition holds already: thousands of partitions share a few replica lists."""
    if len(_known) > _SHARED_MAX:
        _known.clear()
    found: _T = _known.setdefault(value, value)
    return found


def _directories_of(replicas: Iterable[int], before: PartitionRegistration) -> tuple[Uuid, ...]:
    known = dict(zip(before.replicas, before.directories, strict=False))
    return tuple(known.get(replica, DIRECTORY_UNASSIGNED) for replica in replicas)
