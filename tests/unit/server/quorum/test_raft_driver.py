from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from barnabas.common.uuid import Uuid
from barnabas.metadata.image.metadata_image import MetadataImage, MetadataProvenance
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.metadata.loader import CommittedBatch, MetadataLoader
from barnabas.metadata.publisher import LoaderManifest
from barnabas.protocol.records.feature_level_record import FeatureLevelRecord
from barnabas.protocol.records.topic_record import TopicRecord
from barnabas.raft.errors import NotLeaderException, RecordBatchTooLargeException
from barnabas.raft.raft_config import RaftConfig
from barnabas.raft.ready import LeaderAndEpoch, Ready
from barnabas.raft.replica_key import OffsetAndEpoch, ReplicaKey
from barnabas.raft.voter_set import Endpoint, VoterNode, VoterSet
from barnabas.server.metadata_log.record_serde import MetadataRecordSerde
from barnabas.server.metadata_log.snapshots import (
    MetadataSnapshots,
    SnapshotGenerator,
    StoredSnapshot,
    first_snapshot_to_keep,
)
from barnabas.server.quorum import commit_delivery
from barnabas.server.quorum.raft_driver import RaftDriver
from barnabas.server.quorum.raft_recovery import MetadataLogConfig
from barnabas.storage.errors import StorageError
from barnabas.storage.metadata_log import MetadataLog
from barnabas.storage.snapshot_file import RawSnapshotWriter, SnapshotReader, SnapshotWriter

VOTERS = VoterSet([VoterNode(ReplicaKey(1), {"CONTROLLER": Endpoint("localhost", 9093)})])


class FakeClock:
    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


class Recorder:
    """A listener that records its calls, in order."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.led = asyncio.Event()

    @property
    def names(self) -> list[str]:
        return [name for event in self.events if isinstance(event, list) for name in event]

    def handle_commit(self, batches: Sequence[CommittedBatch]) -> None:
        names = [record.name for batch in batches for record in batch.records]
        if names:  # A batch with only control records is not of interest.
            self.events.append(names)

    def handle_load_snapshot(self, reader: SnapshotReader) -> None:
        self.events.append(reader.snapshot_id)
        self.events.append([record.name for record in reader.records(MetadataRecordSerde())])

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        self.events.append(leader)
        if leader.leader_id is not None:
            self.led.set()


def topic(name: str) -> ApiMessageAndVersion:
    topic_id = Uuid.from_int(1000 + int.from_bytes(name[:8].encode(), "big"))
    return ApiMessageAndVersion(TopicRecord(name=name, topic_id=topic_id), 0)


def driver_of(
    directory: Path,
    *,
    clock: FakeClock | None = None,
    voters: VoterSet = VOTERS,
    serde: MetadataRecordSerde | None = None,
    **log: Any,
) -> tuple[RaftDriver, list[BaseException]]:
    faults: list[BaseException] = []
    directory.mkdir(exist_ok=True)
    driver = RaftDriver(
        config=RaftConfig(node_id=1, directory_id=Uuid.from_int(1001), cluster_id="cluster", static_voters=voters),
        log_config=MetadataLogConfig(str(directory), **log),
        clock=clock or FakeClock(),
        serde=serde or MetadataRecordSerde(),
        fault_handler=faults.append,
    )
    return driver, faults


async def leading(directory: Path, **log: Any) -> tuple[RaftDriver, Recorder]:
    driver, _ = driver_of(directory, **log)
    recorder = Recorder()
    driver.register(recorder)
    driver.start()
    await recorder.led.wait()
    return driver, recorder


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(test())  # type: ignore[arg-type]


def test_an_append_completes_when_every_listener_has_handled_it(tmp_path: Path) -> None:
    async def test() -> None:
        driver, recorder = await leading(tmp_path)
        pending = driver.append([topic("a"), topic("b")])
        assert (pending.base_offset, pending.last_offset) == (1, 2)
        assert recorder.names == []
        await pending
        assert recorder.names == ["a", "b"]
        await driver.close()

    run(test)


def test_leadership_is_announced_after_all_earlier_commits(tmp_path: Path) -> None:
    async def test() -> None:
        driver, _ = await leading(tmp_path)
        await driver.append([topic("a")])
        await driver.close()
        again, recorder = await leading(tmp_path)
        assert recorder.events[-2:] == [["a"], LeaderAndEpoch(1, 2)]
        await again.close()

    run(test)


def test_a_late_listener_receives_everything_once(tmp_path: Path) -> None:
    async def test() -> None:
        driver, _ = await leading(tmp_path)
        for name in "abc":
            await driver.append([topic(name)])
        late = Recorder()
        driver.register(late)
        await driver.append([topic("d")])
        assert late.names == ["a", "b", "c", "d"]
        assert late.events[1] == LeaderAndEpoch(1, 1)
        await driver.close()

    run(test)


def test_many_commits_are_delivered_in_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_delivery, "RECORDS_A_TURN", 2)

    async def test() -> None:
        driver, _ = await leading(tmp_path)
        for name in "abcdefg":
            await driver.append([topic(name)])
        await driver.close()
        again, recorder = await leading(tmp_path)
        assert recorder.events[-5:] == [["a", "b"], ["c", "d"], ["e", "f"], ["g"], LeaderAndEpoch(1, 2)]
        await again.close()

    run(test)


def test_others_are_served_between_two_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_delivery, "RECORDS_A_TURN", 1)

    async def test() -> None:
        driver, _ = await leading(tmp_path)
        for name in "abcd":
            await driver.append([topic(name)])
        await driver.close()
        again, _ = driver_of(tmp_path)
        recorder = Recorder()
        again.register(recorder)
        again.start()
        seen_by_others: list[int] = []
        while not recorder.led.is_set():
            seen_by_others.append(len(recorder.names))
            await asyncio.sleep(0)
        assert {1, 2, 3} <= set(seen_by_others)
        await again.close()

    run(test)


def test_a_listener_finishes_its_steps_before_the_next_commit(tmp_path: Path) -> None:
    class Slow(Recorder):
        def handle_commit(self, batches: Sequence[CommittedBatch]) -> Iterator[None]:  # type: ignore[override]
            for _ in range(3):
                self.events.append("step")
                yield
            super().handle_commit(batches)

    async def test() -> None:
        driver, _ = driver_of(tmp_path)
        slow = Slow()
        driver.register(slow)
        driver.start()
        await slow.led.wait()
        pending = [driver.append([topic(name)]) for name in "ab"]
        for append in pending:
            await append
        assert slow.names[-2:] == ["a", "b"], "an append completes with the last step"
        await driver.close()

    run(test)


def test_many_appends_share_few_batches(tmp_path: Path) -> None:
    async def test() -> None:
        driver, recorder = await leading(tmp_path)
        await asyncio.gather(*(driver.append([topic(f"t{number}")]).committed for number in range(200)))
        assert recorder.names == [f"t{number}" for number in range(200)]
        assert sum(1 for _ in driver.log.batches(1)) < 10
        await driver.close()

    run(test)


def test_acknowledged_records_survive_a_crash(tmp_path: Path) -> None:
    async def test() -> None:
        driver, _ = await leading(tmp_path)
        await driver.append([topic("a")])
        again, recorder = await leading(tmp_path)  # The first driver never closed its files.
        assert recorder.names == ["a"]
        assert again.leader.epoch == 2
        await again.close()

    run(test)


def test_a_truncation_to_the_leaders_log_is_logged_with_offsets_and_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        driver, _ = await leading(tmp_path)
        for name in ("a", "b"):
            await driver.append([topic(name)])
        ready = Ready()
        ready.truncate_to = 2
        driver._carry_out(ready)
        assert driver.log.end_offset == 2
        assert (
            f"{driver.log.directory}: truncated from offset 3 to 2, where it diverges from the log of leader 1"
            in caplog.text
        )
        await driver.close()

    run(test)


def test_continuing_after_a_fetched_snapshot_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log = MetadataLog(str(tmp_path))
    fetched = OffsetAndEpoch(70, 3)
    writer = RawSnapshotWriter(log.directory, fetched, token="fetched")
    log.close()
    SnapshotWriter(writer, last_contained_log_timestamp=1, now_ms=1, serde=MetadataRecordSerde()).freeze()
    again = MetadataLog(str(tmp_path))
    assert (again.start_offset, again.end_offset) == (70, 70)
    assert (
        f"{log.directory}: the log continues after the fetched snapshot {fetched}; it ended at offset 0" in caplog.text
    )
    again.close()


def test_a_set_that_is_too_large_is_refused_and_nothing_is_appended(tmp_path: Path) -> None:
    async def test() -> None:
        driver, _ = await leading(tmp_path)
        with pytest.raises(RecordBatchTooLargeException):
            driver.append([topic("x" * 30_000)] * 300)
        assert driver.next_offset == 1
        await driver.close()

    run(test)


def test_nothing_can_be_appended_after_the_driver_has_stopped(tmp_path: Path) -> None:
    async def test() -> None:
        driver, _ = await leading(tmp_path)
        await driver.close()
        with pytest.raises(NotLeaderException):
            driver.append([topic("a")])

    run(test)


def test_a_resigned_leader_fails_pending_appends_and_announces_it_immediately(tmp_path: Path) -> None:
    async def test() -> None:
        driver, recorder = await leading(tmp_path)
        pending = driver.append([topic("a")])
        driver.resign(driver.leader.epoch)
        with pytest.raises(NotLeaderException):
            await pending
        assert recorder.events[-1] == LeaderAndEpoch(None, 1)
        await driver.close()

    run(test)


def test_a_failing_disk_stops_the_driver_and_fails_pending_appends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        driver, faults = driver_of(tmp_path)
        recorder = Recorder()
        driver.register(recorder)
        driver.start()
        await recorder.led.wait()

        def fail(flush: object) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr("barnabas.storage.metadata_log.PendingFlush.run", fail)
        with pytest.raises(NotLeaderException):
            await driver.append([topic("a")])
        assert [str(fault) for fault in faults] == ["[Errno 5] Input/output error"]
        with pytest.raises(NotLeaderException):
            driver.append([topic("b")])

    run(test)


def test_a_listener_that_raises_is_a_fault(tmp_path: Path) -> None:
    class Broken(Recorder):
        def handle_commit(self, batches: Sequence[CommittedBatch]) -> None:
            raise ValueError("cannot apply")

    async def test() -> None:
        driver, faults = driver_of(tmp_path)
        driver.register(Broken())
        failed = asyncio.Event()

        def note(fault: BaseException) -> None:
            faults.append(fault)
            failed.set()

        driver._fault_handler = note
        driver.start()
        await failed.wait()
        assert [str(fault) for fault in faults] == ["cannot apply"]

    run(test)


@pytest.mark.parametrize(
    ("voters", "reason"),
    [
        (VoterSet(), "are unknown and this node is 1@"),
        (VoterSet([VoterNode(ReplicaKey(1), {}), VoterNode(ReplicaKey(2), {})]), "are 1, 2 and this node is 1@"),
        (VoterSet([VoterNode(ReplicaKey(2), {})]), "a node that can't contact the others must be the only voter"),
    ],
)
def test_a_log_of_a_quorum_with_other_voters_is_refused(tmp_path: Path, voters: VoterSet, reason: str) -> None:
    with pytest.raises(StorageError, match=reason):
        driver_of(tmp_path, voters=voters)


# --- snapshots


class Loading(Recorder):
    """A recorder with an image, as in a node."""

    def __init__(self) -> None:
        super().__init__()
        self.loader = MetadataLoader()

    def handle_commit(self, batches: Sequence[CommittedBatch]) -> None:
        super().handle_commit(batches)
        self.loader.handle_commit(batches)

    def handle_load_snapshot(self, reader: SnapshotReader) -> None:
        super().handle_load_snapshot(reader)
        snapshot_id = reader.snapshot_id
        self.loader.load_snapshot(
            list(reader.records(MetadataRecordSerde())),
            MetadataProvenance(snapshot_id.offset - 1, snapshot_id.epoch, 0),
        )


FEATURE = ApiMessageAndVersion(FeatureLevelRecord(name="metadata.version", feature_level=30), 0)


async def with_image(
    directory: Path, *, clock: FakeClock | None = None, **log: Any
) -> tuple[RaftDriver, Loading, MetadataSnapshots]:
    driver, _ = driver_of(directory, clock=clock, **log)
    loading = Loading()
    driver.register(loading)
    driver.start()
    await loading.led.wait()
    return driver, loading, MetadataSnapshots(driver)


def test_a_disk_error_while_snapshots_are_cleaned_stops_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the next start finds out which files were deleted."""

    async def test() -> None:
        driver, loading, snapshots = await with_image(tmp_path, retention_bytes=1)
        for name in ("a", "b"):
            await driver.append([FEATURE, topic(name)])
            await snapshots.save(loading.loader.image)
        faults: list[BaseException] = []
        driver._fault_handler = faults.append

        def fail(*arguments: object) -> None:
            raise OSError(errno.EIO, "Input/output error", "the segment")

        with monkeypatch.context() as patch:
            patch.setattr(os, "unlink", fail)
            patch.setattr(os, "rename", fail)
            assert snapshots.clean() is None
        assert ["the segment" in str(fault) for fault in faults] == [True]
        await driver.close()

    run(test)


def test_after_a_restart_the_snapshot_replaces_the_log_before_it(tmp_path: Path) -> None:
    async def test() -> None:
        driver, loading, snapshots = await with_image(tmp_path)
        await driver.append([FEATURE, topic("a")])
        assert await snapshots.save(loading.loader.image) == OffsetAndEpoch(3, 1)
        await driver.append([topic("b")])
        await driver.close()
        again, after, _ = await with_image(tmp_path)
        assert after.events[-4:] == [OffsetAndEpoch(3, 1), ["metadata.version", "a"], ["b"], LeaderAndEpoch(1, 2)]
        assert after.loader.image.is_same_state(loading.loader.image)
        await again.close()

    run(test)


def test_a_second_snapshot_of_the_same_image_is_not_written(tmp_path: Path) -> None:
    async def test() -> None:
        driver, loading, snapshots = await with_image(tmp_path)
        await driver.append([FEATURE])
        assert await snapshots.save(loading.loader.image) is not None
        assert await snapshots.save(loading.loader.image) is None
        await driver.close()

    run(test)


def test_old_snapshots_and_the_log_before_them_are_deleted(tmp_path: Path) -> None:
    async def test() -> None:
        driver, loading, snapshots = await with_image(tmp_path, segment_bytes=300, retention_bytes=1)
        await driver.append([FEATURE])
        ids = []
        for number in range(3):
            await driver.append([topic(f"{number}" * 100)])
            ids.append(await snapshots.save(loading.loader.image))
        assert snapshots.clean() == ids[-1]
        assert list(driver.log.snapshots) == ids[-1:]
        assert ids[-1] is not None
        assert driver.log.start_offset == ids[-1].offset
        await driver.close()
        assert MetadataLog(str(tmp_path)).recovered_from is None

    run(test)


def test_a_snapshot_is_due_after_enough_bytes_or_enough_time(tmp_path: Path) -> None:
    async def test() -> None:
        clock = FakeClock()
        driver, loading, _ = await with_image(tmp_path, clock=clock)
        await driver.append([FEATURE])
        image = loading.loader.image
        saved: list[MetadataImage] = []

        class Snapshots(MetadataSnapshots):
            async def save(self, image: MetadataImage) -> OffsetAndEpoch | None:
                saved.append(image)
                return None

        generator = SnapshotGenerator(Snapshots(driver), driver, max_bytes=100, max_interval_ms=5000)

        async def publish(byte_count: int) -> int:
            manifest = LoaderManifest(image.provenance, False, 1, byte_count)
            generator.publish(None, image, manifest)
            await generator.close()
            return len(saved)

        assert await publish(99) == 0
        assert await publish(1) == 1
        assert await publish(99) == 1
        clock.ms += 5000
        assert await publish(0) == 2
        assert await publish(0) == 2

    run(test)


def test_records_committed_while_a_snapshot_is_written_get_another_one(tmp_path: Path) -> None:
    async def test() -> None:
        driver, loading, _ = await with_image(tmp_path)
        images = []
        for record in (FEATURE, topic("a"), topic("b")):
            await driver.append([record])
            images.append(loading.loader.image)
        saved: list[MetadataImage] = []
        both = asyncio.Event()

        class Snapshots(MetadataSnapshots):
            async def save(self, image: MetadataImage) -> OffsetAndEpoch | None:
                saved.append(image)
                if len(saved) == 2:
                    both.set()
                return None

        generator = SnapshotGenerator(Snapshots(driver), driver, max_bytes=1, max_interval_ms=0)
        for image in images:
            generator.publish(None, image, LoaderManifest(image.provenance, False, 1, 100))
        async with asyncio.timeout(10):
            await both.wait()
        await generator.close()
        assert saved == [images[0], images[2]]
        await driver.close()

    run(test)


def test_no_snapshot_is_written_before_a_metadata_version_exists(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        driver, loading, snapshots = await with_image(tmp_path)
        generator = SnapshotGenerator(snapshots, driver, max_bytes=1, max_interval_ms=0)
        early = LoaderManifest(MetadataImage.EMPTY.provenance, False, 1, 100)
        generator.publish(None, MetadataImage.EMPTY, early)
        await generator.close()
        assert not driver.log.snapshots
        assert not caplog.text
        await driver.append([FEATURE])
        image = loading.loader.image
        generator.publish(None, image, LoaderManifest(image.provenance, False, 1, 0))
        await generator.close()
        assert len(driver.log.snapshots) == 1
        await driver.close()

    run(test)


def test_a_failed_snapshot_is_reported_and_the_node_continues(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        driver, loading, snapshots = await with_image(tmp_path)
        generator = SnapshotGenerator(snapshots, driver, max_bytes=1, max_interval_ms=0)
        await driver.append([FEATURE])
        (tmp_path / "__cluster_metadata-0").rename(tmp_path / "away")
        manifest = LoaderManifest(loading.loader.image.provenance, False, 1, 100)
        generator.publish(None, loading.loader.image, manifest)
        await generator.close()
        assert "cannot write a metadata snapshot" in caplog.text
        (tmp_path / "away").rename(tmp_path / "__cluster_metadata-0")
        await driver.append([topic("a")])
        await driver.close()

    run(test)


def stored(*timestamps: int) -> list[StoredSnapshot]:
    return [StoredSnapshot(OffsetAndEpoch(10 * index, 1), 100, stamp) for index, stamp in enumerate(timestamps)]


@pytest.mark.parametrize(
    ("timestamps", "log_size", "keep"),
    [
        ((0,), 10_000, None),
        ((900, 950), 0, None),
        ((900, 950), 900, OffsetAndEpoch(10, 1)),
        ((900, 950, 960), 0, None),
        ((900, 950, 960), 750, OffsetAndEpoch(10, 1)),
        ((900, 950, 960), 10_000, OffsetAndEpoch(20, 1)),
        ((0, 950, 960), 0, OffsetAndEpoch(10, 1)),
        ((0, 0, 0), 0, OffsetAndEpoch(20, 1)),
    ],
)
def test_retention_by_size_and_age_keeps_the_newest(
    timestamps: tuple[int, ...], log_size: int, keep: OffsetAndEpoch | None
) -> None:
    kept = first_snapshot_to_keep(
        stored(*timestamps), log_size=log_size, now_ms=1000, retention_bytes=1000, retention_ms=500
    )
    assert kept == keep


def test_a_batch_longer_than_a_turn_is_read_in_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_delivery, "RECORDS_A_TURN", 2)

    async def test() -> None:
        driver, _ = await leading(tmp_path)
        await driver.append([topic(name) for name in "abcdefg"])
        await driver.append([topic("h")])
        await driver.close()
        decoded: list[str] = []

        class CountingSerde(MetadataRecordSerde):
            def decode(self, value: bytes | memoryview) -> Any:
                record = super().decode(value)
                decoded.append(record.name)
                return record

        again, _ = driver_of(tmp_path, serde=CountingSerde())
        recorder = Recorder()
        again.register(recorder)
        again.start()
        seen_by_others: list[int] = []
        while not recorder.led.is_set():
            seen_by_others.append(len(decoded))
            await asyncio.sleep(0)
        assert {2, 4, 6} <= set(seen_by_others)
        assert recorder.events[-3:-1] == [list("abcdefg"), ["h"]]
        await again.close()

    run(test)
