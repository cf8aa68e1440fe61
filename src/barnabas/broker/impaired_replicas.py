"""Repairs replicas of this broker that lost acknowledged records: their logs are damaged, or were set aside.

Such a replica must not be elected, and must not count as in sync. The broker reports the replica's directory to the
controller as lost (AssignReplicasToDirs), as Kafka's brokers do for a failed disk. The controller elects another
replica in sync and removes this one from the ISR. When the metadata log has this change, the log is truncated where it
is damaged, with a copy of the damaged files beside it, and the missing records are copied from the leader. When the
replica has all committed records, it is assigned to its directory again and can be elected.

The only replica in sync is kept: its intact records are served, and reads of the rest are refused.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from barnabas.metadata.image.partition_registration import DIRECTORY_LOST
from barnabas.storage.errors import StorageError

if TYPE_CHECKING:
    from barnabas.broker.partition import Partition
    from barnabas.broker.replica_manager import ReplicaManager
    from barnabas.common.clock import Clock
    from barnabas.common.topic_partition import TopicPartition
    from barnabas.metadata.image.partition_registration import PartitionRegistration

__all__ = ["ImpairedReplicas"]

log = logging.getLogger(__name__)


class ImpairedReplicas:
    def __init__(self, replicas: ReplicaManager, clock: Clock) -> None:
        self._replicas = replicas
        self._clock = clock
        self._reported: dict[TopicPartition, int] = {}
        """The leader epoch in which the replica was reported to the controller."""
        self._catching_up: set[TopicPartition] = set()

    def is_impaired(self, topic_partition: TopicPartition) -> bool:
        logs = self._replicas.logs
        return topic_partition in logs.damaged or topic_partition in logs.strays.withheld

    def handle(self, topic_partition: TopicPartition) -> None:
        """Take the next step that the metadata allows.

        Called when damage was found, and for each change of the partition.
        """
        partition = self._replicas.partitions.get(topic_partition)
        registration = None if partition is None else self._replicas.registration_of(partition)
        if partition is None or registration is None:
            return
        broker_id = self._replicas.broker_id
        is_eligible = broker_id in registration.isr or broker_id in registration.elr
        if not is_eligible and registration.leader not in (-1, broker_id):
            self._repair(partition)
        elif broker_id in registration.isr and len(registration.isr) > 1:
            self._give_up(partition, registration)
        elif registration.leader == broker_id and len(registration.replicas) > 1:
            log.error(
                "%s has lost records, and no other replica is in sync: broker %d continues with the intact records",
                topic_partition, broker_id,
            )  # fmt: skip

    def _give_up(self, partition: Partition, registration: PartitionRegistration) -> None:
        topic_partition = partition.topic_partition
        if self._reported.get(topic_partition) == registration.leader_epoch:
            return
        if self._replicas.directories.report_lost(topic_partition, partition.topic_id):
            self._reported[topic_partition] = registration.leader_epoch
            log.error(
                "%s has lost records here: requesting that the controller remove broker %d from its ISR %s",
                topic_partition, self._replicas.broker_id, list(registration.isr),
            )  # fmt: skip
        else:
            log.error(
                "%s has lost records here, but this metadata.version does not support lost replicas", topic_partition
            )

    def _repair(self, partition: Partition) -> None:
        """Repair the log: another broker leads, and this replica cannot be elected."""
        damaged, logs = partition.log_or_none, self._replicas.logs
        topic_partition = partition.topic_partition
        if damaged is None or topic_partition not in logs.damaged:
            return
        if self._replicas.fetchers is not None:
            self._replicas.fetchers.stop([topic_partition])
        try:
            kept = damaged.set_damage_aside(now_ms=self._clock.now_ms())
        except (OSError, StorageError) as error:
            logs.report_failure(damaged, error)
            return
        logs.note_truncation(damaged)
        logs.damaged.discard(topic_partition)
        log.error(
            "%s is truncated at offset %d, where it is damaged, and copied again from broker %d; kept: %s",
            topic_partition, damaged.log_end_offset, partition.leader_id, ", ".join(kept) or "nothing (no bytes left)",
        )  # fmt: skip
        if self._replicas.fetchers is not None:
            self._replicas.fetchers.follow([partition])

    # --- recovery

    def must_catch_up(self, topic_partition: TopicPartition) -> bool:
        """Return whether the controller must still regard the replica as lost."""
        partition, fetchers = self._replicas.partitions.get(topic_partition), self._replicas.fetchers
        if partition is None or fetchers is None or partition.leader_id in (-1, self._replicas.broker_id):
            return False
        if fetchers.lag_of(topic_partition) == 0:
            return False
        self._catching_up.add(topic_partition)
        return True

    def tick(self) -> None:
        """Report the replicas that have all committed records again to the controller. Called periodically."""
        for topic_partition in list(self._catching_up):
            if self.must_catch_up(topic_partition):
                continue
            self._catching_up.discard(topic_partition)
            self._reported.pop(topic_partition, None)
            partition = self._replicas.partitions.get(topic_partition)
            if partition is not None and partition.log_or_none is not None:
                log.warning("%s has all committed records again", topic_partition)
                self._replicas.directories.opened(partition.log_or_none, DIRECTORY_LOST)
