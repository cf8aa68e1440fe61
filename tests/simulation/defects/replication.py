"""Defects in the replication of partitions: the high watermark, the ISR, truncation and recovery."""

from __future__ import annotations

from functools import partial
from typing import Any

from barnabas.broker.replication.commit_waits import settled
from barnabas.common.errors import ErrorCode
from tests.simulation.cluster.defects import defect, replace_in

NEEDS = "producers"
REPLICATES = "replicates"
LEADERSHIP = "broker.replication.partition_leadership"


@defect("high-watermark-is-the-leaders-end", "records count as committed when the leader has appended them", NEEDS)
def _() -> None:
    replace_in(
        LEADERSHIP,
        "PartitionLeadership.high_watermark",
        lambda original: lambda self, leader_end_offset, *arguments: leader_end_offset,
    )


@defect("high-watermark-of-the-fastest", "records count as committed when one follower has them", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def high_watermark(self: Any, leader_end_offset: int, *arguments: Any) -> int:
            ends = [replica.log_end_offset for replica in self.replicas.values()]
            return min(leader_end_offset, max(ends, default=leader_end_offset))

        return high_watermark

    replace_in(LEADERSHIP, "PartitionLeadership.high_watermark", make)


@defect(
    "high-watermark-without-the-proposed",
    "the high watermark does not wait for a replica that is proposed for the ISR",
    NEEDS,
)
def _() -> None:
    def make(original: Any) -> Any:
        def propose(self: Any, kind: Any, members: Any) -> Any:
            proposal = original(self, kind, members)
            self.maximal_isr = self.isr & members
            return proposal

        return propose

    replace_in(LEADERSHIP, "PartitionLeadership._propose", make)


@defect("shrunk-before-it-is-committed", "a leader uses the smaller ISR before the controller has confirmed it", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def propose(self: Any, kind: Any, members: Any) -> Any:
            proposal = original(self, kind, members)
            self.isr = self.maximal_isr = members
            return proposal

        return propose

    replace_in(LEADERSHIP, "PartitionLeadership._propose", make)


@defect(
    "fetch-acknowledges-what-it-asks-for", "a follower's fetch also acknowledges the record that it requests", NEEDS
)
def _() -> None:
    def make(original: Any) -> Any:
        def fetched(self: Any, replica: Any, *, log_end_offset: int, leader_end_offset: int, **others: Any) -> bool:
            end = min(log_end_offset + 1, leader_end_offset)
            moved: bool = original(self, replica, log_end_offset=end, leader_end_offset=leader_end_offset, **others)
            return moved

        return fetched

    replace_in(LEADERSHIP, "PartitionLeadership.fetched", make)


@defect("produced-is-answered-when-appended", "acks=all is answered when the leader has the records", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def wait_for_replicas(waits: Any, timeout_ms: int) -> Any:
            return original([lambda on_done: settled(on_done, ErrorCode.NONE) for _ in waits], timeout_ms)

        return wait_for_replicas

    replace_in("broker.delayed_produce", "wait_for_replicas", make)


@defect("waits-for-all-but-the-last", "acks=all is answered when all records except the last are committed", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def wait_for_replicas(waits: Any, timeout_ms: int) -> Any:
            return original([partial(wait.func, wait.args[0] - 1) for wait in waits], timeout_ms)

        return wait_for_replicas

    replace_in("broker.delayed_produce", "wait_for_replicas", make)


@defect("truncates-to-the-high-watermark", "a follower of a new leader truncates its log to its high watermark", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def follow(self: Any, replica: Any, leader_epoch: int) -> None:
            if not self.is_following(replica, leader_epoch):
                replica.truncate_to(replica.high_watermark)
            original(self, replica, leader_epoch)

        return follow

    replace_in("broker.replication.replica_fetcher", "ReplicaFetcher.follow", make)


@defect("truncates-too-little", "a follower whose log diverges keeps one record too many", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def truncation_offset(own: Any, epoch: int, end_offset: int) -> int:
            return min(int(original(own, epoch, end_offset)) + 1, own.log_end_offset)

        return truncation_offset

    replace_in("broker.replication.replica_fetcher", "truncation_offset", make)


@defect("truncates-everything", "a follower whose log diverges deletes all of it", REPLICATES)
def _() -> None:
    replace_in(
        "broker.replication.replica_fetcher",
        "truncation_offset",
        lambda original: lambda own, epoch, end_offset: 0,
    )


@defect("last-epoch-is-not-sent", "a follower does not send the leader epoch of its last record", REPLICATES)
def _() -> None:
    def make(original: Any) -> Any:
        def topics_to_fetch(*arguments: Any) -> Any:
            topics = original(*arguments)
            for partition in (partition for topic in topics for partition in topic.partitions):
                partition.last_fetched_epoch = -1
            return topics

        return topics_to_fetch

    replace_in("broker.replication.replica_fetcher", "topics_to_fetch", make)


@defect("divergence-is-not-reported", "a leader serves records to a follower whose log diverges", REPLICATES)
def _() -> None:
    replace_in("broker.follower_fetch", "_fill_divergence", lambda original: lambda log, wanted, answer: False)


@defect("batches-without-their-epoch", "a leader writes its batches with leader epoch 0", REPLICATES)
def _() -> None:
    def make(original: Any) -> Any:
        return lambda self, batch, *, leader_epoch, now_ms: original(self, batch, leader_epoch=0, now_ms=now_ms)

    replace_in("storage.partition_log", "PartitionLog.append_batch", make)


@defect(
    "producers-of-what-was-cut-are-kept",
    "a follower that truncates its log keeps the producer state of the removed records",
    REPLICATES,
)
def _() -> None:
    def make(original: Any) -> Any:
        def after_truncation(self: Any) -> None:
            known, snapshot_offset = self._producers, self._snapshot_offset
            original(self)
            self._producers, self._snapshot_offset = known, snapshot_offset

        return after_truncation

    replace_in("storage.partition_log", "PartitionLog._after_truncation", make)


@defect("consumers-read-to-the-end", "consumers receive records that are not committed", REPLICATES)
def _() -> None:
    def make(original: Any) -> Any:
        def read(self: Any, fetch_offset: int, max_bytes: int, **options: Any) -> Any:
            if "committed_only" in options:  # Only the fetches of consumers pass this option.
                options["max_offset"] = self.log_end_offset
            return original(self, fetch_offset, max_bytes, **options)

        return read

    replace_in("storage.partition_log", "PartitionLog.read", make)


@defect("duplicates-are-appended", "a retried batch is appended again", NEEDS)
def _() -> None:
    replace_in("storage.partition_log", "find_duplicate", lambda original: lambda producers, batch, *, what: None)


@defect("followers-know-no-producers", "a follower keeps no producer state", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def append(self: Any, records: Any, **others: Any) -> int:
            from barnabas.storage import partition_log

            apply = partition_log.apply_batch  # type: ignore[attr-defined]
            partition_log.apply_batch = lambda *arguments: None  # type: ignore[attr-defined]
            try:
                return int(original(self, records, **others))
            finally:
                partition_log.apply_batch = apply  # type: ignore[attr-defined]

        return append

    replace_in("storage.partition_log", "PartitionLog.append_as_follower", make)


@defect("killed-broker-stays-in-sync", "a broker that restarts after a crash is still in sync, and may lead", NEEDS)
def _() -> None:
    replace_in(
        "controller.partition_election", "PartitionElection.broker_leaves", lambda original: lambda self, *arguments: []
    )
    replace_in(
        "controller.partition_election",
        "PartitionElection.broker_was_killed",
        lambda original: lambda self, *arguments: [],
    )


@defect("elected-out-of-sync", "a replica outside the ISR is elected when no other replica is available", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def choose(self: Any) -> Any:
            leader, unclean = original(self)
            if leader >= 0:
                return leader, unclean
            others = [replica for replica in self.target_replicas if self._is_acceptable_leader(replica)]
            return (others[0], True) if others else (leader, unclean)

        return choose

    replace_in("controller.partition_change_builder", "PartitionChangeBuilder._choose_leader", make)


@defect("torn-records-kept", "recovery of a partition's log accepts batches with a wrong checksum", NEEDS)
def _() -> None:
    replace_in("storage.segment_check", "crc32c", lambda original: lambda data: _AnyChecksum())


class _AnyChecksum(int):
    """A checksum that equals every other."""

    def __ne__(self, other: object) -> bool:
        return False
