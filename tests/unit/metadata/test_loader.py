from __future__ import annotations

from typing import Any

import pytest

from barnabas.common.errors import InvariantViolated
from barnabas.common.uuid import Uuid
from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage, MetadataProvenance
from barnabas.metadata.loader import CommittedBatch, MetadataLoader
from barnabas.metadata.publisher import LoaderManifest
from barnabas.metadata.snapshot import records_of
from barnabas.protocol.records.abort_transaction_record import AbortTransactionRecord
from barnabas.protocol.records.begin_transaction_record import BeginTransactionRecord
from barnabas.protocol.records.end_transaction_record import EndTransactionRecord
from barnabas.protocol.records.feature_level_record import FeatureLevelRecord
from barnabas.protocol.records.topic_record import TopicRecord

BEGIN, END, ABORT = BeginTransactionRecord(name="x"), EndTransactionRecord(), AbortTransactionRecord()


class Recorder:
    def __init__(self) -> None:
        self.published: list[tuple[MetadataDelta, MetadataImage, LoaderManifest]] = []

    def publish(self, delta: MetadataDelta, new_image: MetadataImage, manifest: LoaderManifest) -> None:
        self.published.append((delta, new_image, manifest))


def topic(name: str) -> TopicRecord:
    return TopicRecord(name=name, topic_id=Uuid(name.encode().ljust(16)))


class Log:
    def __init__(self) -> None:
        self.loader = MetadataLoader()
        self.recorder = Recorder()
        self.loader.install(self.recorder)
        self.offset = 0

    def batch(self, *records: Any) -> CommittedBatch:
        base, self.offset = self.offset, self.offset + max(len(records), 1)
        return CommittedBatch(
            base_offset=base, last_offset=self.offset - 1, epoch=1, append_time_ms=5, records=records, byte_count=10
        )

    def commit(self, *batches: CommittedBatch) -> None:
        self.loader.handle_commit(batches)

    def names(self) -> list[str]:
        return sorted(self.loader.image.topics.by_name)


@pytest.fixture
def log() -> Log:
    log = Log()
    log.commit(log.batch(), log.batch(FeatureLevelRecord(name="metadata.version", feature_level=30)))
    return log


def test_one_publication_covers_all_batches_of_a_call(log: Log) -> None:
    log.commit(log.batch(topic("a")), log.batch(topic("b")), log.batch())
    _, image, manifest = log.recorder.published[-1]
    assert log.names() == ["a", "b"]
    assert manifest == LoaderManifest(MetadataProvenance(4, 1, 5), False, batch_count=3, byte_count=30)
    assert image is log.loader.image
    assert log.loader.image.offset == 4


def test_nothing_of_a_transaction_is_published_before_its_end(log: Log) -> None:
    count = len(log.recorder.published)
    log.commit(log.batch(BEGIN, topic("a")))
    log.commit(log.batch(topic("b")))
    assert len(log.recorder.published) == count
    assert log.loader.in_transaction
    log.commit(log.batch(topic("c"), END, topic("d")))
    assert log.names() == ["a", "b", "c", "d"]
    assert log.loader.image.offset == 7


def test_an_aborted_transaction_leaves_nothing(log: Log) -> None:
    log.commit(log.batch(topic("before"), BEGIN, topic("a")), log.batch(ABORT, topic("after")))
    assert log.names() == ["after", "before"]


@pytest.mark.parametrize("records", [[END], [ABORT], [BEGIN, BEGIN]], ids=["end", "abort", "nested"])
def test_a_marker_out_of_place_is_a_fault(log: Log, records: list[Any]) -> None:
    with pytest.raises(InvariantViolated):
        log.commit(log.batch(*records))


def test_after_a_fault_the_last_good_image_stays_and_batches_are_refused(log: Log) -> None:
    log.commit(log.batch(topic("a")))
    good = log.loader.image
    with pytest.raises(InvariantViolated, match="TopicRecord at offset 4"):
        log.commit(log.batch(topic("b"), topic("a")))
    assert log.loader.image is good
    with pytest.raises(InvariantViolated, match="earlier fault"):
        log.commit(log.batch(topic("c")))


def test_a_repeated_batch_is_a_fault(log: Log) -> None:
    batch = log.batch(topic("a"))
    log.commit(batch)
    with pytest.raises(InvariantViolated, match="applied before"):
        log.commit(batch)


def test_a_snapshot_removes_what_it_does_not_name(log: Log) -> None:
    log.commit(log.batch(topic("a")), log.batch(topic("b")))
    other = Log()
    other.commit(other.batch(FeatureLevelRecord(name="metadata.version", feature_level=30), topic("b"), topic("c")))
    log.loader.load_snapshot([m for m, _ in records_of(other.loader.image)], MetadataProvenance(90, 3, 7))
    assert log.names() == ["b", "c"]
    delta, image, manifest = log.recorder.published[-1]
    assert manifest.is_snapshot
    assert image.provenance == MetadataProvenance(90, 3, 7)
    assert delta.topics is not None
    assert [t.name for t in delta.topics.deleted.values()] == ["a"]
    assert [t.name for t in delta.topics.changed.values()] == ["c"]


def test_a_late_publisher_receives_everything_immediately(log: Log) -> None:
    log.commit(log.batch(topic("a")))
    late = Recorder()
    log.loader.install(late)
    ((delta, image, manifest),) = late.published
    assert manifest.is_snapshot
    assert image is log.loader.image
    assert delta.topics is not None
    assert [t.name for t in delta.topics.changed.values()] == ["a"]
