from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.connect.decide.backing_stores.internal_json import JsonValue
from barnabas.connect.decide.backing_stores.offset_records import (
    InvalidOffset,
    OffsetRecord,
    canonical_partition,
    offset_key,
    offset_record,
    parse_offset,
    parse_offset_key,
)
from barnabas.connect.decide.backing_stores.offset_state import MergedOffsets, OffsetState, PartitionOffset

from .test_config_records import recorded


def replayed(*added: tuple[bytes, bytes | None]) -> OffsetState:
    state = OffsetState()
    for number, (key, value) in enumerate(added):
        state.replay(key, value, number)
    return state


def test_every_record_of_real_workers_is_written_again_to_the_same_bytes() -> None:
    for entry in recorded("cc-offsets"):
        key = entry["key"].encode()
        value = None if entry["value"] is None else entry["value"].encode()
        connector, partition = parse_offset_key(key)
        assert offset_record(connector, partition, parse_offset(value)) == (key, value)


def test_an_offset_is_found_whatever_the_order_of_the_partitions_names() -> None:
    state = replayed((b'["c",{"b":1,"a":"x"}]', b'{"position":7}'))
    assert state.offset("c", {"a": "x", "b": 1}) == {"position": 7}
    assert state.offset("c", {"a": "x", "b": 1.0}) is None
    assert state.offset("c", {"a": "x"}) is None
    assert state.offset("d", {"a": "x", "b": 1}) is None


def test_of_two_keys_of_one_partition_the_last_one_written_applies() -> None:
    first, second = b'["c",{"a":1,"b":2}]', b'["c",{"b":2,"a":1}]'
    state = OffsetState()
    state.replay(first, b'{"p":1}', 100)
    state.replay(second, b'{"p":2}', 200)
    assert state.offsets("c") == [PartitionOffset({"b": 2, "a": 1}, {"p": 2})]
    state.replay(first, b'{"p":3}', 300)
    state.replay(second, b'{"p":0}', 150)  # Of another partition of the topic, which is read later.
    assert state.offset("c", {"a": 1, "b": 2}) == {"p": 3}


def test_a_changed_offset_is_written_under_every_known_key() -> None:
    first, second = b'["c",{"a":1,"b":2}]', b'["c",{"b":2,"a":1}]'
    state = replayed((first, b'{"p":1}'), (second, None))
    assert state.records_to_write("c", [({"a": 1, "b": 2}, {"p": 9})]) == [
        OffsetRecord(first, b'{"p":9}'),
        OffsetRecord(second, b'{"p":9}'),
    ]


def test_a_new_partition_keeps_its_key_order_and_the_last_offset_of_a_list_applies() -> None:
    assert OffsetState().records_to_write("c", [({"b": 1, "a": 2}, {"p": 1}), ({"b": 1, "a": 2}, None)]) == [
        OffsetRecord(b'["c",{"b":1,"a":2}]', None)
    ]


def test_a_deleted_offset_is_no_longer_listed() -> None:
    key = offset_key("c", {"f": "x"})
    state = replayed((key, b'{"p":1}'), (offset_key("c", {"f": "y"}), b'{"p":2}'), (key, None))
    assert state.offsets("c") == [PartitionOffset({"f": "y"}, {"p": 2})]
    assert state.removal_records("c") == [OffsetRecord(offset_key("c", {"f": "y"}), None)]
    assert state.offset("c", {"f": "x"}) is None


def test_a_connector_may_have_one_partition_without_a_name() -> None:
    state = replayed((b'["c",null]', b'{"p":1}'))
    assert state.offset("c", None) == {"p": 1}
    assert state.records_to_write("c", [(None, {"p": 2})]) == [OffsetRecord(b'["c",null]', b'{"p":2}')]


@pytest.mark.parametrize("key", [None, b"", b"x", b"{}", b'["c"]', b'["c",{},1]', b"[1,{}]", b'["c",[]]', b'["c",1]'])
def test_an_invalid_key_is_ignored(key: bytes | None, caplog: pytest.LogCaptureFixture) -> None:
    state = OffsetState()
    state.replay(key, b'{"p":1}', 0)
    assert state.offsets("c") == []
    assert "was ignored" in caplog.text


@pytest.mark.parametrize("value", [b"x", b"[]", b"7"])
def test_an_invalid_offset_is_dropped_and_logged_as_an_error(value: bytes, caplog: pytest.LogCaptureFixture) -> None:
    state = replayed((b'["c",{}]', b'{"p":1}'), (b'["c",{}]', value))
    assert state.offset("c", {}) is None
    assert "will start over" in caplog.text


@pytest.mark.parametrize("partition", [{"a": []}, {"a": {}}, {1: "a"}, ["a"], "a"])
def test_only_scalars_can_be_stored(partition: dict[str, JsonValue]) -> None:
    with pytest.raises(InvalidOffset):
        offset_record("c", partition, {})
    with pytest.raises(InvalidOffset):
        offset_record("c", {}, partition)


def test_the_offset_topic_of_a_connector_wins_over_that_of_the_worker() -> None:
    worker = replayed((offset_key("c", {"f": 1}), b'{"p":1}'), (offset_key("c", {"f": 2}), b'{"p":2}'))
    dedicated = replayed((offset_key("c", {"f": 2}), b'{"p":20}'), (offset_key("c", {"f": 1}), None))
    merged = MergedOffsets(dedicated, worker)
    assert merged.offset("c", {"f": 1}) == {"p": 1}
    assert merged.offset("c", {"f": 2}) == {"p": 20}
    assert merged.offsets("c") == [PartitionOffset({"f": 1}, {"p": 1}), PartitionOffset({"f": 2}, {"p": 20})]


SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text("ab", max_size=2)


@given(st.dictionaries(st.text("abc", max_size=2), SCALARS), st.randoms(use_true_random=False))
def test_partitions_are_equal_whatever_the_order_of_their_names(
    partition: dict[str, JsonValue], random: object
) -> None:
    names = list(partition)
    random.shuffle(names)  # type: ignore[attr-defined]
    assert canonical_partition(partition) == canonical_partition({name: partition[name] for name in names})
