"""The records of __share_group_state, byte for byte as Kafka 4.3.1 writes them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.uuid import Uuid
from barnabas.coordinator.share.persister import SharePartitionKey, StateBatch
from barnabas.coordinator.share.redundant_offsets import RedundantOffsets
from barnabas.coordinator.share.share_group_offset import ShareGroupOffset, ShareUpdate
from barnabas.coordinator.share.share_records import ShareSnapshotRecord, ShareUpdateRecord, decode_record
from barnabas.coordinator.share.state_batches import CombinedBatches
from barnabas.protocol.errors import DecodeError

CORPUS = Path(__file__).parents[2] / "oracles" / "data" / "records" / "records-public.jsonl.gz"
KEY = SharePartitionKey("group", Uuid.from_int(1_000), 3)


def corpus(family: str) -> list[dict[str, Any]]:
    with gzip.open(CORPUS, "rt") as lines:
        return [row for row in map(json.loads, lines) if row["family"] == family]


@pytest.mark.parametrize("line", corpus("share-coordinator"), ids=lambda line: f"{line['type']}-{line['variant']}")
def test_recorded_records_are_read_and_written_again(line: dict[str, Any]) -> None:
    value = None if line["valueHex"] is None else bytes.fromhex(line["valueHex"])
    if value is None and line["type"] == "SHARE_UPDATE":
        with pytest.raises(DecodeError, match="no value"):
            decode_record(bytes.fromhex(line["keyHex"]), value)
        return
    record = decode_record(bytes.fromhex(line["keyHex"]), value)
    assert record is not None
    assert record.encode_key().hex() == line["keyHex"]
    if not line.get("unknownTags"):
        assert record.encode_value() == value


@pytest.mark.parametrize("line", corpus("share-coordinator-bad"))
def test_recorded_records_that_cannot_be_read_are_errors_or_of_a_later_type(line: dict[str, Any]) -> None:
    key = bytes.fromhex(line["keyHex"])
    value = None if line["valueHex"] is None else bytes.fromhex(line["valueHex"])
    if int.from_bytes(key[:2], "big") > 1:
        assert decode_record(key, value) is None
    else:
        with pytest.raises(DecodeError):
            decode_record(key, value)


batches = st.lists(
    st.builds(StateBatch, st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1), st.integers(0, 4), st.integers(0, 99)),
    max_size=5,
).map(lambda found: CombinedBatches(tuple(found), is_joined=len(found) < 2))
epochs, offsets, times = st.integers(-1, 2**31 - 1), st.integers(-1, 2**63 - 1), st.integers(0, 2**63 - 1)
snapshots = st.builds(
    ShareGroupOffset,
    snapshot_epoch=epochs,
    state_epoch=epochs,
    leader_epoch=epochs,
    start_offset=offsets,
    delivery_complete_count=epochs,
    state_batches=batches,
    create_timestamp_ms=times,
    write_timestamp_ms=times,
)
updates = st.builds(ShareUpdate, epochs, epochs, offsets, epochs, batches)


@given(
    st.one_of(
        st.builds(ShareSnapshotRecord, st.just(KEY), st.one_of(st.none(), snapshots)),
        st.builds(ShareUpdateRecord, st.just(KEY), updates),
    )
)
def test_a_record_is_read_as_it_was_written(record: ShareSnapshotRecord | ShareUpdateRecord) -> None:
    assert decode_record(record.encode_key(), record.encode_value()) == record


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=60))
def test_the_first_needed_record_is_the_oldest_of_the_newest_snapshots(history: list[tuple[int, bool]]) -> None:
    redundant, newest = RedundantOffsets(), dict[SharePartitionKey, int]()
    for offset, (number, is_removal) in enumerate(history):
        key = KEY._replace(partition=number)
        newest[key] = offset
        if is_removal:
            redundant.note_removal(key, offset)
        else:
            redundant.note_snapshot(key, offset)
        assert redundant.first_needed == (min(newest.values()) or None)
        if is_removal:
            del newest[key]


def test_the_offsets_of_replaced_snapshots_do_not_pile_up() -> None:
    redundant = RedundantOffsets()
    redundant.note_snapshot(KEY, 0)
    other = KEY._replace(partition=4)
    for offset in range(1, 20_000):
        redundant.note_snapshot(other, offset)
    assert redundant.first_needed is None
    assert len(redundant._heap) < 2_000
    redundant.note_snapshot(KEY, 20_000)
    assert redundant.first_needed == 19_999
