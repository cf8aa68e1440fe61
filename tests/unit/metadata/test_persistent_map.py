from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from barnabas.metadata.persistent_map import PersistentMap

Steps = list[tuple[dict[int, int], set[int]]]


@given(st.lists(st.tuples(st.dictionaries(st.integers(0, 200), st.integers()), st.sets(st.integers(0, 200)))))
def test_the_map_behaves_as_an_immutable_dict(steps: Steps) -> None:
    plain: dict[int, int] = {}
    persistent: PersistentMap[int, int] = PersistentMap()
    versions = []
    for put, removed in steps:
        versions.append((persistent, dict(plain)))
        for key in removed:
            plain.pop(key, None)
        plain.update(put)
        persistent = persistent.updated(put, removed)
    versions.append((persistent, plain))
    for version, expected in versions:
        assert dict(version.items()) == expected
        assert len(version) == len(expected)
        assert sorted(version) == sorted(expected)
        assert sorted(version.values()) == sorted(expected.values())
        assert all(version[key] == value and key in version for key, value in expected.items())
        assert version.get(-1) is None
        assert version.get(-1, "none") == "none"


@given(st.dictionaries(st.text(max_size=3), st.integers(), max_size=60), st.data())
def test_equality_is_that_of_the_entries_whatever_the_history(entries: dict[str, int], data: st.DataObject) -> None:
    at_once = PersistentMap(entries)
    one_by_one: PersistentMap[str, int] = PersistentMap({"to be removed": 1})
    for key in data.draw(st.permutations(list(entries))):
        one_by_one = one_by_one.updated({key: entries[key]})
    one_by_one = one_by_one.updated({}, ["to be removed"]) if "to be removed" not in entries else one_by_one
    assert at_once == one_by_one


def test_a_map_that_grows_splits_only_the_buckets_that_are_touched() -> None:
    maps = [PersistentMap({number: number for number in range(380)})]
    for number in range(380, 2_000):
        maps.append(maps[-1].updated({number: number}))
    for older, newer in pairwise(maps):
        row = len(older._buckets)
        copied = sum(bucket is not older._buckets[index % row] for index, bucket in enumerate(newer._buckets))
        assert copied <= 2
    for size, version in enumerate(maps, start=380):
        assert len(version) == size
        assert sorted(version) == list(range(size))


def test_a_change_copies_only_the_bucket_that_it_touches() -> None:
    before = PersistentMap({number: number for number in range(10_000)})
    after = before.updated({10_001: 1})
    copied = sum(1 for old, new in zip(before._buckets, after._buckets, strict=True) if old is not new)
    assert copied == 1
    assert max(len(bucket) for bucket in after._buckets) <= len(after._buckets)


@given(st.dictionaries(st.integers(0, 500), st.integers(), max_size=300), st.data())
def test_every_key_that_is_new_or_changed_is_among_those_not_shared(
    entries: dict[int, int], data: st.DataObject
) -> None:
    older = PersistentMap(entries)
    put = data.draw(st.dictionaries(st.integers(0, 2000), st.integers(), max_size=30))
    newer = older.updated(put, data.draw(st.lists(st.integers(0, 500), max_size=10)))
    found = set(newer.keys_not_shared_with(older))
    assert found <= set(newer)
    assert {key for key, value in newer.items() if key not in older or older[key] != value} <= found
    assert set(newer.keys_not_shared_with(newer)) == set()


def test_one_change_leaves_most_entries_shared() -> None:
    older = PersistentMap({number: number for number in range(10_000)})
    assert len(list(older.updated({10_001: 1}).keys_not_shared_with(older))) < 300


@given(st.lists(st.tuples(st.integers(0, 300), st.integers()), max_size=400))
def test_a_map_of_items_is_the_map_of_their_dict(items: list[tuple[int, int]]) -> None:
    made = PersistentMap.of(iter(items), len(items))
    assert dict(made.items()) == dict(items)
    assert len(made) == len(dict(items))
    assert made == PersistentMap(dict(items))
    assert dict(made.updated({1: 5}, [2]).items()) == {k: v for k, v in dict(items).items() if k != 2} | {1: 5}
