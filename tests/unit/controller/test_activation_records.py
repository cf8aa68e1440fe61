from __future__ import annotations

from typing import Any

import pytest

from barnabas.common.errors import InvariantViolated
from barnabas.common.uuid import Uuid
from barnabas.controller.apis import broker_registration
from barnabas.metadata.bootstrap import bootstrap_records
from barnabas.metadata.image.metadata_image import MetadataProvenance
from barnabas.metadata.loader import CommittedBatch
from barnabas.metadata.metadata_version import MetadataVersion
from barnabas.protocol.records.abort_transaction_record import AbortTransactionRecord
from barnabas.protocol.records.begin_transaction_record import BeginTransactionRecord
from barnabas.protocol.records.end_transaction_record import EndTransactionRecord
from barnabas.protocol.records.feature_level_record import FeatureLevelRecord
from barnabas.protocol.records.topic_record import TopicRecord
from tests.unit.controller.controller_harness import CONTROL_RECORDS, ControllerHarness, context, topic

FEATURE = FeatureLevelRecord(name="metadata.version", feature_level=30)


def batch(base_offset: int, *records: Any) -> CommittedBatch:
    return CommittedBatch(
        base_offset=base_offset,
        last_offset=base_offset + len(records) - 1,
        epoch=1,
        append_time_ms=0,
        records=records,
    )


def test_a_log_that_ends_inside_the_bootstrap_is_aborted_and_bootstrapped_again() -> None:
    begun = batch(CONTROL_RECORDS, BeginTransactionRecord(name="Bootstrap records"), FEATURE)
    harness = ControllerHarness(log=[begun]).activate()
    assert harness.log[1].records == [AbortTransactionRecord(reason="Controller failover")]
    assert isinstance(harness.log[2].records[0], BeginTransactionRecord)
    assert harness.controller.committed_image.features.metadata_version == 30


def test_any_other_open_transaction_is_only_aborted() -> None:
    half = TopicRecord(name="half", topic_id=Uuid.from_int(200))
    log = [batch(CONTROL_RECORDS, FEATURE), batch(CONTROL_RECORDS + 1, BeginTransactionRecord(), half)]
    harness = ControllerHarness(log=log).activate()
    assert len(harness.log) == 3
    assert harness.controller.committed_image.topics.get("half") is None
    standby = ControllerHarness()
    standby.controller.handle_commit(harness.log)
    assert standby.controller.committed_image.is_same_state(harness.controller.committed_image)


def test_without_log_transactions_the_bootstrap_is_plain_records() -> None:
    harness = ControllerHarness()
    harness.controller._bootstrap = bootstrap_records(MetadataVersion.IBP_3_5_IV2)
    harness.activate()
    assert [record.name for record in harness.log[0].records] == ["metadata.version"]


def test_without_bootstrap_records_an_empty_log_is_refused() -> None:
    harness = ControllerHarness()
    harness.controller._bootstrap = ()
    with pytest.raises(InvariantViolated, match="was the directory formatted"):
        harness.activate()


def test_a_controller_with_a_snapshot_continues_from_it() -> None:
    first = ControllerHarness().activate()
    first.start_broker(1)
    image = first.controller.committed_image
    second = ControllerHarness()
    second.controller.load_snapshot(image)
    second.controller.activate(2, image.offset + 1)
    second.log = list(first.log)
    second.settle()
    assert second.controller.committed_image.is_same_state(image)
    assert second.create(topic("orders")).topics[0].error_code == 0


def test_records_of_the_quorum_in_between_shift_the_expected_offsets() -> None:
    harness = ControllerHarness().activate()
    registration = harness.registration(1)
    answer = broker_registration.handle(harness.controller, context(), registration, harness.authorizer)
    (append,) = harness.controller.take_appends()
    base = harness.end_offset + 2  # Two records of the quorum came first.
    harness.controller.handle_appended([append], base)
    assert harness.controller.next_write_offset == base + 1
    quorum = CommittedBatch(base_offset=base - 2, last_offset=base - 1, epoch=1, append_time_ms=0, records=())
    harness.controller.handle_commit([quorum])
    assert not answer.is_complete
    harness.controller.handle_commit([batch(base, *[message for message, _ in append.records])])
    assert answer.value.broker_epoch < harness.controller.state.registration_offsets[1] == base
    assert harness.controller.committed_image.provenance == MetadataProvenance(base, 1, 0)


def test_a_transaction_that_ends_takes_effect_at_its_end() -> None:
    harness = ControllerHarness()
    harness.controller.handle_commit(
        [batch(3, FEATURE), batch(4, BeginTransactionRecord(), TopicRecord(name="a", topic_id=Uuid.from_int(200)))]
    )
    assert harness.controller.committed_image.topics.get("a") is None
    assert harness.controller.committed_image.offset == 5
    harness.controller.handle_commit([batch(6, EndTransactionRecord())])
    assert harness.controller.committed_image.topics.get("a") is not None
