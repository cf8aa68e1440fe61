"""Defects in share groups: acquired records and their locks, the state that is stored, and the groups themselves."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.simulation.cluster.defects import defect, replace_in

NEEDS = "share_groups"
ACKNOWLEDGEMENT = "coordinator.share_partition.acknowledgement"
COORDINATOR = "coordinator.share.share_coordinator_shard"
GROUPS = "coordinator.group.share.share_groups"
LED = "broker.share.led_share_partition"
OFFSET = "coordinator.share.share_group_offset"
PARTITION = "coordinator.share_partition.share_partition"
RANGE = "coordinator.share_partition.in_flight_batch"
RECORDS = "coordinator.share_partition.in_flight_records"

AVAILABLE, ACQUIRED, ARCHIVED = 0, 1, 4


def _unchanged(*arguments: Any, **options: Any) -> None:
    """Take the place of a function that has an effect."""


def _state(value: int) -> Any:
    from barnabas.coordinator.share_partition.record_state import RecordState

    return RecordState(value)


# --- records and their locks


@defect("acquired-records-are-available", "a record that a member has acquired is given to another one", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        return property(lambda self: self.state in (AVAILABLE, ACQUIRED) and self.write is None)

    replace_in(RANGE, "InFlightRange.is_available", make)
    replace_in(
        RECORDS,
        "InFlightRecords._first_available",
        lambda original: (
            lambda self: next(
                (part.first_offset for batch in self.batches for part in batch.ranges if part.is_available), None
            )
        ),
    )


@defect("locks-end-at-once", "records are available again soon after they were acquired", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        return lambda self, member_id, deadline_ms: original(self, member_id, deadline_ms - 300)

    replace_in(RANGE, "InFlightRange.acquire", make)


@defect("locks-never-end", "a record stays with a member that forgets it", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def expire_locks(self: Any, now_ms: int) -> None:
            self._records.earliest_deadline_ms = None

        return expire_locks

    replace_in(PARTITION, "SharePartition.expire_locks", make)


@defect("renewals-have-no-effect", "the renewal of a lock is accepted, but the lock ends as before", NEEDS)
def _() -> None:
    replace_in(ACKNOWLEDGEMENT, "Acknowledgement._renew", lambda original: _unchanged)


@defect("deliveries-are-not-counted", "the count of a record's deliveries does not grow", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def acquire(self: Any, member_id: str, deadline_ms: int) -> None:
            original(self, member_id, deadline_ms)
            self.delivery_count = 1

        return acquire

    replace_in(RANGE, "InFlightRange.acquire", make)


@defect("deliveries-have-no-limit", "a record is delivered more often than the limit allows", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def within(bounds: Any, configs: Any, name: str) -> int:
            return 1 << 20 if name == "share.delivery.count.limit" else int(original(bounds, configs, name))

        return within

    replace_in("broker.share.share_group_config", "_within", make)


@defect("released-records-are-lost", "a record that a member releases is not delivered again", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        return {**original, 2: _state(ARCHIVED)}

    replace_in(ACKNOWLEDGEMENT, "_STATE_AFTER", make)


@defect("rejected-records-return", "a record that a member rejects is delivered again", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        return {**original, 3: _state(AVAILABLE)}

    replace_in(ACKNOWLEDGEMENT, "_STATE_AFTER", make)


@defect("sessions-end-with-their-records", "records of a member whose session ends count as finished", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def release(self: Any, member_id: str, *, now_ms: int) -> Any:
            write = original(self, member_id, now_ms=now_ms)
            for part in write.ranges if write is not None else ():
                part.state = _state(ARCHIVED)
            return write

        return release

    replace_in(PARTITION, "SharePartition.release", make)


@defect("start-offset-skips-records", "the start offset moves beyond records that are still acquired", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        return property(lambda self: self.write is None and self.state != AVAILABLE)

    replace_in(RANGE, "InFlightRange.is_finished", make)


# --- the stored state


@defect("acknowledged-before-it-is-stored", "an acknowledgement is answered before it is stored", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def write(self: Any, write: Any) -> Any:
            original(self, write)
            done = asyncio.get_running_loop().create_future()
            done.set_result(None)
            return done

        return write

    replace_in("broker.share.state_writer", "StateWriter.write", make)


@defect("state-is-not-read", "a new leader delivers all records again, from the first one", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def continued(self: Any, answer: Any) -> Any:
            return original(self, answer._replace(start_offset=0, batches=()))

        return continued

    replace_in(LED, "LedSharePartition._continued_from", make)


@defect("only-the-start-offset-is-read", "a new leader forgets what was acknowledged after the start offset", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def continued(self: Any, answer: Any) -> Any:
            return original(self, answer._replace(batches=()))

        return continued

    replace_in(LED, "LedSharePartition._continued_from", make)


@defect("delivery-counts-are-not-stored", "a new leader counts the deliveries of a record from the beginning", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        return property(lambda self: original.fget(self)._replace(delivery_count=1))

    replace_in(RANGE, "InFlightRange.state_batch", make)


@defect("snapshots-lack-the-last-update", "a snapshot of share state does not contain what it replaces", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def following(self: Any, now_ms: int) -> Any:
            from barnabas.coordinator.share.state_batches import NO_BATCHES

            return original(self, now_ms)._replace(state_batches=NO_BATCHES)

        return following

    replace_in(OFFSET, "ShareGroupOffset.following_snapshot", make)


@defect("updates-are-not-loaded", "a new share coordinator reads the snapshots, but not the updates after them", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        def applied(self: Any, known: Any, record: Any) -> Any:
            is_update = hasattr(record, "update")
            return known if is_update and known is not None else original(self, known, record)

        return applied

    def take(original: Any) -> Any:
        def take_decided(self: Any, record: Any) -> Any:
            decided = self._decided.get(record.key)
            if decided is None or decided[0][0] is not record:
                return self._loaded(self._committed.get(record.key), record)
            return original(self, record)

        return take_decided

    from barnabas.coordinator.share.share_coordinator_shard import ShareCoordinatorShard

    ShareCoordinatorShard._loaded = make(ShareCoordinatorShard._applied)  # type: ignore[attr-defined]
    replace_in(COORDINATOR, "ShareCoordinatorShard._take_decided", take)


@defect("cold-snapshots-begin-again", "a snapshot that repeats the state has the first start offset", NEEDS)
def _() -> None:
    def make(original: Any) -> Any:
        return lambda self, now_ms: original(self, now_ms)._replace(start_offset=0)

    replace_in(OFFSET, "ShareGroupOffset.repeated", make)


# --- groups


@defect("silent-share-members-stay", "a member of a share group without heartbeats stays in it", NEEDS)
def _() -> None:
    replace_in(GROUPS, "ShareGroups._remove_at", lambda original: _unchanged)


@defect("loaded-share-members-have-no-sessions", "members of share groups that were loaded never expire", NEEDS)
def _() -> None:
    replace_in(GROUPS, "ShareGroups.on_loaded", lambda original: _unchanged)


@defect("state-is-never-initialized", "a share group never initializes the state of its partitions", NEEDS)
def _() -> None:
    replace_in(
        "coordinator.group.share.heartbeat",
        "Heartbeat._initialize",
        lambda original: lambda self, group, epoch, subscribers: None,
    )
