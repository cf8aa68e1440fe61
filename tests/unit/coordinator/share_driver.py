"""Drives a ShareCoordinator as brokers would, and controls its time, its log and the topics that exist."""

from __future__ import annotations

from barnabas.common.uuid import Uuid
from barnabas.coordinator.coordinator_loader import CoordinatorLoader
from barnabas.coordinator.deferred import Deferred
from barnabas.coordinator.share.persister import (
    NO_EPOCH,
    SharePartitionKey,
    SharePartitionState,
    SharePartitionSummary,
    StateBatch,
    StateInitialization,
    StateOutcome,
    StateWrite,
)
from barnabas.coordinator.share.share_coordinator import ShareCoordinator
from barnabas.coordinator.share.share_coordinator_config import ShareCoordinatorConfig
from barnabas.protocol.record_serde import CoordinatorKind, decode_coordinator_record
from barnabas.protocol.records.share_snapshot_value import ShareSnapshotValue
from barnabas.protocol.records.share_update_value import ShareUpdateValue
from tests.unit.coordinator.memory_log import MemoryTopic

TOPIC, OTHER_TOPIC = Uuid.from_int(1_000), Uuid.from_int(2_000)
KEY, OTHER_KEY = SharePartitionKey("group", TOPIC, 0), SharePartitionKey("group", OTHER_TOPIC, 1)
AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
INTERVAL_MS = 300_000


class ShareDriver:
    def __init__(
        self,
        config: ShareCoordinatorConfig | None = None,
        topic: MemoryTopic | None = None,
        *,
        updates_per_snapshot: int = 500,
    ) -> None:
        self.now_ms = 1_000_000
        self.topic = topic or MemoryTopic()
        self.config = config or ShareCoordinatorConfig(
            share_coordinator_state_topic_num_partitions=1,
            share_coordinator_snapshot_update_records_per_snapshot=updates_per_snapshot,
        )
        self.partition_counts = {TOPIC: 2, OTHER_TOPIC: 2}
        self.deleted_before: list[int] = []
        self.can_delete = True
        self.coordinator = ShareCoordinator(
            self.config,
            writer=self.topic,
            partition_count=self.partition_counts.get,
            delete_records=self._delete_records,
        )
        self.topic.runtime = self.coordinator.runtime
        self.coordinator.start()

    def _delete_records(self, partition: int, offset: int) -> bool:
        if self.can_delete:
            self.deleted_before.append(offset)
            log = self.topic.log(partition)
            log.log_start_offset = offset
        return self.can_delete

    def load(self, *, leader_epoch: int = 0) -> ShareDriver:
        runtime = self.coordinator.runtime
        shard = runtime.start_loading(0, leader_epoch, self.now_ms)
        assert shard is not None
        log = self.topic.log(0)
        log.high_watermark = log.log_end_offset
        CoordinatorLoader(runtime, 0, shard, log).run(self.now_ms)
        return self

    def restarted(self) -> ShareDriver:
        """Return another coordinator that has read the same log."""
        successor = ShareDriver(self.config, self.topic)
        successor.partition_counts.update(self.partition_counts)
        successor.now_ms = self.now_ms
        return successor.load(leader_epoch=7)

    def advance(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.coordinator.runtime.tick(self.now_ms)

    # --- requests

    def begin_initialize(
        self, key: SharePartitionKey = KEY, *, state_epoch: int = 1, start_offset: int = 0
    ) -> Deferred[StateOutcome]:
        return self.coordinator.initialize(key, StateInitialization(state_epoch, start_offset), self.now_ms)

    def initialize(self, key: SharePartitionKey = KEY, *, state_epoch: int = 1, start_offset: int = 0) -> StateOutcome:
        return self.begin_initialize(key, state_epoch=state_epoch, start_offset=start_offset).value

    def begin_write(
        self,
        *batches: StateBatch,
        key: SharePartitionKey = KEY,
        state_epoch: int = 1,
        leader_epoch: int = NO_EPOCH,
        start_offset: int = -1,
        count: int = 0,
    ) -> Deferred[StateOutcome]:
        write = StateWrite(state_epoch, leader_epoch, start_offset, count, batches)
        return self.coordinator.write(key, write, self.now_ms)

    def write(
        self,
        *batches: StateBatch,
        key: SharePartitionKey = KEY,
        state_epoch: int = 1,
        leader_epoch: int = NO_EPOCH,
        start_offset: int = -1,
        count: int = 0,
    ) -> StateOutcome:
        return self.begin_write(
            *batches,
            key=key,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            count=count,
        ).value

    def begin_read(self, key: SharePartitionKey = KEY, leader_epoch: int = NO_EPOCH) -> Deferred[SharePartitionState]:
        return self.coordinator.read(key, leader_epoch, self.now_ms)

    def read(self, key: SharePartitionKey = KEY, leader_epoch: int = NO_EPOCH) -> SharePartitionState:
        return self.begin_read(key, leader_epoch).value

    def delete(self, key: SharePartitionKey = KEY) -> StateOutcome:
        return self.coordinator.delete(key, self.now_ms).value

    def summary(self, key: SharePartitionKey = KEY) -> SharePartitionSummary:
        return self.coordinator.read_summary(key, self.now_ms).value

    # --- the log

    def values(self) -> list[ShareSnapshotValue | ShareUpdateValue | None]:
        """The values of all records."""
        found = []
        for key, value in self.topic.log(0).records():
            assert key is not None
            decoded = decode_coordinator_record(CoordinatorKind.SHARE, key, value).value
            assert decoded is None or isinstance(decoded, ShareSnapshotValue | ShareUpdateValue)
            found.append(decoded)
        return found

    def kinds(self) -> str:
        """A letter for each record: snapshot, update, tombstone."""
        kinds: dict[type[object], str] = {ShareSnapshotValue: "s", ShareUpdateValue: "u", type(None): "t"}
        return "".join(kinds[type(value)] for value in self.values())
