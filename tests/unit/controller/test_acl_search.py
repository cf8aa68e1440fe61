"""A search in steps finds what an immediate search finds, in the image of the moment when it begins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.acl import AclBinding, AclBindingFilter
from barnabas.common.uuid import Uuid
from barnabas.controller import acl_search
from barnabas.controller.acl_search import AclSearch
from barnabas.metadata.image.acls import AclsImage
from barnabas.metadata.persistent_map import PersistentMap

bindings = st.builds(
    AclBinding,
    st.sampled_from([2, 3]),
    st.sampled_from(["a", "ab", "*"]),
    st.sampled_from([3, 4]),
    st.sampled_from(["User:a", "User:b"]),
    st.just("*"),
    st.sampled_from([2, 3]),
    st.sampled_from([2, 3]),
)
ids = st.integers(1, 300).map(Uuid.from_int)
filters = st.builds(
    AclBindingFilter,
    st.sampled_from([1, 2, 3]),
    st.sampled_from([None, "a", "ab"]),
    st.sampled_from([1, 2, 3, 4]),
    st.sampled_from([None, "User:a"]),
    st.just(None),
    st.sampled_from([1, 2]),
    st.sampled_from([1, 3]),
)


@given(
    st.dictionaries(ids, bindings, max_size=200),
    st.dictionaries(ids, bindings, max_size=20),
    st.frozensets(ids, max_size=20),
    st.lists(st.one_of(filters, bindings.map(lambda binding: AclBindingFilter(*binding))), max_size=4),
)
def test_a_search_finds_the_acls_of_the_current_image(
    before: dict[Uuid, AclBinding],
    put: dict[Uuid, AclBinding],
    gone: frozenset[Uuid],
    acl_filters: list[AclBindingFilter],
) -> None:
    old = AclsImage(PersistentMap(before))
    search = AclSearch(old, acl_filters, limit=1_000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(acl_search, "_RULES_PER_STEP", 16)
        while search.advance():
            pass
    assert not search.is_too_much
    now = AclsImage(old.by_id.updated(put, gone))
    expected = [{pair for pair in now.by_id.items() if acl_filter.matches(pair[1])} for acl_filter in acl_filters]
    found = search.found(now)
    assert [set(matches) for matches in found] == expected
    assert [len(matches) for matches in found] == [len(matches) for matches in expected]


def test_a_search_with_too_many_results_ends_early() -> None:
    rules = {Uuid.from_int(n): AclBinding(2, f"t{n}", 3, "User:a", "*", 3, 3) for n in range(1, 50_001)}
    search = AclSearch(AclsImage(PersistentMap(rules)), [AclBindingFilter()], limit=10_000)
    steps = 1
    while search.advance():
        steps += 1
    assert search.is_too_much
    assert steps < 4
    two = [AclBindingFilter(name=f"t{n}") for n in (1, 2)]
    for limit, is_too_much in ((2, False), (1, True)):
        search = AclSearch(AclsImage(PersistentMap(rules)), two, limit=limit)
        while search.advance():
            pass
        assert search.is_too_much == is_too_much
