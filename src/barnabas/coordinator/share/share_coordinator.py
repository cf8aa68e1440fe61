"""The share coordinator of a broker: passes each request to the shard of its share-partition.

All requests return a Deferred, also reads: the first read of a new leader stores its epoch. ``now_ms`` is the wall
clock, corrected by the caller so that it never goes back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, TypeVar

from barnabas.common.errors import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.coordinator.coordinator_result import CoordinatorResult
from barnabas.coordinator.coordinator_runtime import CoordinatorRuntime, PartitionWriter
from barnabas.coordinator.deferred import Deferred
from barnabas.coordinator.partitioner import coordinator_partition
from barnabas.coordinator.share.persister import (
    SharePartitionKey,
    SharePartitionState,
    SharePartitionSummary,
    StateInitialization,
    StateOutcome,
    StateWrite,
)
from barnabas.coordinator.share.share_coordinator_config import ShareCoordinatorConfig
from barnabas.coordinator.write_errors import client_error

if TYPE_CHECKING:
    from barnabas.coordinator.share.share_coordinator_shard import ShareCoordinatorShard

__all__ = ["ShareCoordinator"]

T = TypeVar("T")


class ShareCoordinator:
    def __init__(
        self,
        config: ShareCoordinatorConfig,
        *,
        writer: PartitionWriter,
        partition_count: Callable[[Uuid], int | None],
        delete_records: Callable[[int, int], bool],
    ) -> None:
        """``partition_count``: of a topic, None if it does not exist. ``delete_records``: of a partition of
        ``__share_group_state``, before an offset; returns whether they are deleted.
        """
        self.is_active = False
        self._partition_count = config.share_coordinator_state_topic_num_partitions

        def new_shard(partition: int, leader_epoch: int) -> ShareCoordinatorShard:
            from barnabas.coordinator.share.share_coordinator_shard import ShareCoordinatorShard

            return ShareCoordinatorShard(
                config,
                partition_count=partition_count,
                delete_records=lambda offset: delete_records(partition, offset),
            )

        self.runtime: CoordinatorRuntime[ShareCoordinatorShard] = CoordinatorRuntime(
            writer=writer,
            new_shard=new_shard,
            compression=config.share_coordinator_state_topic_compression_codec,
            commit_timeout_ms=config.share_coordinator_write_timeout_ms,
        )

    def start(self) -> None:
        """Answer requests from now on."""
        self.is_active = True

    def stop(self, now_ms: int) -> None:
        """Refer all waiting callers to another coordinator; later requests are not answered."""
        self.is_active = False
        for partition in range(self._partition_count):
            self.runtime.unload(partition, now_ms)

    def set_partition_count(self, partition_count: int) -> None:
        """Set the topic's actual number of partitions: the setting only applies when the topic is created."""
        self._partition_count = partition_count

    def partition_for(self, key: SharePartitionKey) -> int:
        """Return the partition of ``__share_group_state`` of a share-partition."""
        return coordinator_partition(key.coordinator_key, self._partition_count)

    # -- requests

    def initialize(self, key: SharePartitionKey, wanted: StateInitialization, now_ms: int) -> Deferred[StateOutcome]:
        return self._write(key, lambda shard: shard.initialize(key, wanted, now_ms), _same, now_ms)

    def read(self, key: SharePartitionKey, leader_epoch: int, now_ms: int) -> Deferred[SharePartitionState]:
        return self._write(key, lambda shard: shard.read(key, leader_epoch, now_ms), SharePartitionState.failed, now_ms)

    def write(self, key: SharePartitionKey, write: StateWrite, now_ms: int) -> Deferred[StateOutcome]:
        return self._write(key, lambda shard: shard.write(key, write, now_ms), _same, now_ms)

    def delete(self, key: SharePartitionKey, now_ms: int) -> Deferred[StateOutcome]:
        return self._write(key, lambda shard: shard.delete(key), _same, now_ms)

    def read_summary(self, key: SharePartitionKey, now_ms: int) -> Deferred[SharePartitionSummary]:
        return self._write(key, lambda shard: shard.read_summary(key), SharePartitionSummary.failed, now_ms)

    def on_topics_deleted(self, topic_ids: Collection[Uuid], now_ms: int) -> None:
        """Remove the state of deleted topics, in the next ticks."""
        for _, shard in self.runtime.active_shards():
            shard.delete_topics(topic_ids, now_ms)

    # -- pieces

    def _write(
        self,
        key: SharePartitionKey,
        decide: Callable[[ShareCoordinatorShard], CoordinatorResult[T]],
        failed: Callable[[StateOutcome], T],
        now_ms: int,
    ) -> Deferred[T]:
        if not self.is_active:
            return Deferred.completed(failed(_NOT_ACTIVE))
        answer: Deferred[T] = Deferred()
        self.runtime.write(
            self.partition_for(key),
            decide,
            now_ms=now_ms,
            answer=answer,
            on_failure=lambda code: failed(_failure(code)),
        )
        return answer


_NOT_ACTIVE = StateOutcome(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The share coordinator is not available.")


def _same(outcome: StateOutcome) -> StateOutcome:
    return outcome


def _failure(code: ErrorCode) -> StateOutcome:
    answered = client_error(code)
    return StateOutcome(answered, f"The coordinator of the share-partition answers {answered.name}.")
