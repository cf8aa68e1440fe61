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


def test_of_two_keys_of_one_partition_the_one_written_last_counts() -> None:
    one, other = b'["c",{"a":1,"b":2}]', b'["c",{"b":2,"a":1}]'
    state = OffsetState()
    state.replay(one, b'{"p":1}', 100)
    state.replay(other, b'{"p":2}', 200)
    assert state.offsets("c") == [PartitionOffset({"b": 2, "a": 1}, {"p": 2})]
    state.replay(one, b'{"p":3}', 300)
    state.replay(other, b'{"p":0}', 150)  # Of another partition of the topic, which is read later.
    assert state.offset("c", {"a": 1, "b": 2}) == {"p": 3}


def test_a_changed_offset_is_written_under_every_key_that_is_known() -> None:
    one, other = b'["c",{"a":1,"b":2}]', b'["c",{"b":2,"a":1}]'
    state = replayed((one, b'{"p":1}'), (other, None))
    assert state.records_to_write("c", [({"a": 1, "b": 2}, {"p": 9})]) == [
        OffsetRecord(one, b'{"p":9}'),
        OffsetRecord(other, b'{"p":9}'),
    ]


def test_an_offset_of_a_new_partition_is_written_in_its_own_order_and_the_last_of_a_list_counts() -> None:
    assert OffsetState().records_to_write("c", [({"b": 1, "a": 2}, {"p": 1}), ({"b": 1, "a": 2}, None)]) == [
        OffsetRecord(b'["c",{"b":1,"a":2}]', None)
    ]


def test_a_forgotten_offset_is_not_listed_any_more() -> None:
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
def test_a_key_that_can_not_be_understood_is_ignored(key: bytes | None, caplog: pytest.LogCaptureFixture) -> None:
    state = OffsetState()
    state.replay(key, b'{"p":1}', 0)
    assert state.offsets("c") == []
    assert "was ignored" in caplog.text


@pytest.mark.parametrize("value", [b"x", b"[]", b"7"])
def test_an_offset_that_can_not_be_understood_is_lost_and_an_error(
    value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    state = replayed((b'["c",{}]', b'{"p":1}'), (b'["c",{}]', value))
    assert state.offset("c", {}) is None
    assert "will start anew" in caplog.text


@pytest.mark.parametrize("partition", [{"a": []}, {"a": {}}, {1: "a"}, ["a"], "a"])
def test_only_scalars_can_be_stored(partition: dict[str, JsonValue]) -> None:
    with pytest.raises(InvalidOffset):
        offset_record("c", partition, {})
    with pytest.raises(InvalidOffset):
        offset_record("c", {}, partition)


def test_a_connectors_own_topic_wins_over_the_workers() -> None:
    worker = replayed((offset_key("c", {"f": 1}), b'{"p":1}'), (offset_key("c", {"f": 2}), b'{"p":2}'))
    dedicated = replayed((offset_key("c", {"f": 2}), b'{"p":20}'), (offset_key("c", {"f": 1}), None))
    merged = MergedOffsets(dedicated, worker)
    assert merged.offset("c", {"f": 1}) == {"p": 1}
    assert merged.offset("c", {"f": 2}) == {"p": 20}
    assert merged.offsets("c") == [PartitionOffset({"f": 1}, {"p": 1}), PartitionOffset({"f": 2}, {"p": 20})]


SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text("ab", max_size=2)


@given(st.dictionaries(st.text("abc", max_size=2), SCALARS), st.randoms(use_true_random=False))
def test_the_order_of_names_makes_no_other_partition(partition: dict[str, JsonValue], random: object) -> None:
    names = list(partition)
    random.shuffle(names)  # type: ignore[attr-defined]
    assert canonical_partition(partition) == canonical_partition({name: partition[name] for name in names})
