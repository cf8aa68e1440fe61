from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.metadata.persistent_map import PersistentMap

Steps = list[tuple[dict[int, int], set[int]]]


@given(st.lists(st.tuples(st.dictionaries(st.integers(0, 200), st.integers()), st.sets(st.integers(0, 200)))))
def test_it_is_a_dict_that_never_changes(steps: Steps) -> None:
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


def test_a_change_copies_only_the_bucket_that_it_touches() -> None:
    before = PersistentMap({number: number for number in range(10_000)})
    after = before.updated({10_001: 1})
    copied = sum(1 for old, new in zip(before._buckets, after._buckets, strict=True) if old is not new)
    assert copied == 1
    assert max(len(bucket) for bucket in after._buckets) <= len(after._buckets)


@given(st.lists(st.tuples(st.integers(0, 300), st.integers()), max_size=400))
def test_a_map_of_items_is_the_map_of_their_dict(items: list[tuple[int, int]]) -> None:
    made = PersistentMap.of(iter(items), len(items))
    assert dict(made.items()) == dict(items)
    assert len(made) == len(dict(items))
    assert made == PersistentMap(dict(items))
    assert dict(made.updated({1: 5}, [2]).items()) == {k: v for k, v in dict(items).items() if k != 2} | {1: 5}
