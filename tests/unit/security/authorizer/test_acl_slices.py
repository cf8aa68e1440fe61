"""Long listings of ACLs: in order, of one moment, and with little work between two slices."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.acl import AclBinding, AclBindingFilter
from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.describe_acls import DescribeAclsResponse
from barnabas.security.authorizer import acl_rules, acl_slices
from barnabas.security.authorizer.acl_listing import AclListing, listed
from barnabas.security.authorizer.acl_requests import describe_bindings
from barnabas.security.authorizer.authorizer import AclAuthorizer
from barnabas.security.authorizer.standard_authorizer import StandardAuthorizer
from tests.unit.security.authorizer.linear_authorizer import LinearAuthorizer
from tests.unit.security.authorizer.test_acl_index import HOSTS, NAMES, PRINCIPALS, ids_of, many, rule_sets, seeds

pytestmark = pytest.mark.hypothesis

EVERYTHING = AclBindingFilter()

filters = st.builds(
    AclBindingFilter,
    resource_type=st.sampled_from((1, 1, 1, 2, 3)),
    name=st.none() | st.none() | st.sampled_from(NAMES),
    pattern_type=st.sampled_from((1, 1, 2, 3, 4)),
    principal=st.none() | st.none() | st.sampled_from(PRINCIPALS),
    host=st.none() | st.none() | st.sampled_from(HOSTS),
    operation=st.sampled_from((1, 1, 1, 3, 8)),
    permission=st.sampled_from((1, 1, 2, 3)),
)


def authorizer_of(rules: Sequence[AclBinding]) -> StandardAuthorizer:
    authorizer = StandardAuthorizer()
    authorizer.load_snapshot(ids_of(list(rules)))
    return authorizer


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handful of ACLs counts as many."""
    for module, name, value in (
        (acl_rules, "SLICE", 2),
        (acl_rules, "_FEW", 2),
        (acl_rules, "_LOOKED_UP_MAX", 6),
        (acl_slices, "SLICE", 2),
        (acl_slices, "_RUN", 3),
        (acl_slices, "_SAMPLED", 1),
    ):
        monkeypatch.setattr(module, name, value)


@pytest.mark.usefixtures("tiny")
def test_slices_equal_the_linear_reference_despite_concurrent_changes() -> None:
    @many
    @given(rule_sets, filters, seeds)
    def check(rules: list[AclBinding], acl_filter: AclBindingFilter, seed: int) -> None:
        draw = random.Random(seed)
        authorizer = authorizer_of(rules)
        for _ in range(3):
            held = dict(authorizer.acls(EVERYTHING))
            expected = [rule for rule in LinearAuthorizer(held.values()).in_order() if acl_filter.matches(rule)]
            slices = authorizer.acl_slices(acl_filter)
            found: list[AclBinding] = []
            for number, part in enumerate(slices):
                found += part
                if number and draw.random() < 0.3:
                    change(authorizer, draw)
            assert found == expected

    check()


def change(authorizer: StandardAuthorizer, draw: random.Random) -> None:
    rules = list(authorizer.acls(EVERYTHING))
    if rules and draw.random() < 0.5:
        authorizer.remove_acl(draw.choice(rules)[0])
    else:
        number = draw.randrange(1 << 60)
        authorizer.add_acl(Uuid.from_int(number), AclBinding(2, draw.choice(NAMES), 3, f"User:{number}", "*", 3, 3))


class CountedText(str):
    """Counts the comparisons of all such texts."""

    __slots__ = ()
    compared = 0

    def __lt__(self, other: str) -> bool:
        CountedText.compared += 1
        return str.__lt__(self, other)

    def isascii(self) -> bool:
        return False

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        CountedText.compared += 1
        return str.encode(self, encoding, errors)


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param(lambda n: AclBinding(2, CountedText(f"topic-{n}"), 3, "User:a", "*", 3, 3), id="names"),
        pytest.param(lambda n: AclBinding(2, "*", 3, CountedText(f"User:{n}"), "*", 3, 3), id="one name"),
        pytest.param(lambda n: AclBinding(2, f"t-{n % 3}", 3, CountedText(f"User:{n}"), "*", 3, 3), id="three names"),
    ],
)
def test_the_work_between_two_slices_covers_a_few_thousand_acls(rules: object) -> None:
    assert callable(rules)
    count = 60_000
    numbers = list(range(count))
    random.Random(7).shuffle(numbers)
    authorizer = authorizer_of([rules(number) for number in numbers])
    slices = authorizer.acl_slices(EVERYTHING)
    total = 0
    assert list(next(slices)) == [], "others have a turn before any work is done"
    while True:
        CountedText.compared = 0
        part = next(slices, None)
        assert CountedText.compared < 80_000
        if part is None:
            break
        assert len(part) <= 8_192
        total += len(part)
    assert total == count


def test_sorted_acls_are_not_sorted_again_until_an_acl_changes() -> None:
    rules = [AclBinding(2, CountedText(f"topic-{number}"), 3, "User:a", "*", 3, 3) for number in range(5_000)]
    authorizer = authorizer_of(rules)

    def compared(acl_filter: AclBindingFilter = EVERYTHING) -> int:
        CountedText.compared = 0
        assert sum(map(len, authorizer.acl_slices(acl_filter))) in (5_000, 5_001)
        return CountedText.compared

    assert compared() > 5_000
    assert compared() == compared(AclBindingFilter(principal="User:a")) == 0
    authorizer.add_acl(Uuid.from_int(7), AclBinding(2, "new", 3, "User:a", "*", 3, 3))
    assert compared() > 5_000


def test_few_acls_are_listed_in_one_slice() -> None:
    rules = [AclBinding(2, f"topic-{number}", 3, "User:a", "*", 3, 3) for number in range(2_048)]
    assert list(map(len, authorizer_of(rules).acl_slices(EVERYTHING))) == [2_048]
    assert list(authorizer_of(rules).acl_slices(AclBindingFilter(name="none"))) == []


def test_the_listing_of_a_foreign_authorizer_is_split_into_slices() -> None:
    authorizer = authorizer_of([AclBinding(2, f"topic-{n}", 3, "User:a", "*", 3, 3) for n in range(5_000)])
    parts = list(AclAuthorizer.acl_slices(authorizer, EVERYTHING))
    assert list(map(len, parts)) == [1_024, 1_024, 1_024, 1_024, 904]
    assert [rule for part in parts for rule in part] == [rule for _, rule in authorizer.acls(EVERYTHING)]


@given(rule_sets, st.sampled_from((1, 2, 3)), st.lists(st.integers(0, 80)))
def test_a_long_response_has_the_bytes_of_the_message(rules: list[AclBinding], version: int, cuts: list[int]) -> None:
    ordered = LinearAuthorizer(rules).in_order()

    def slices() -> Iterator[list[AclBinding]]:
        yield []
        bounds = [0, *sorted(cut for cut in cuts if cut < len(ordered)), len(ordered)]
        for start, end in pairwise(bounds):
            yield ordered[start:end]

    answer = listed(slices(), version)
    assert isinstance(answer, AclListing)
    while answer.advance():
        pass
    answer.throttle_time_ms = 5
    chunks: list[bytes] = []
    answer.write(version, chunks)
    expected = DescribeAclsResponse(throttle_time_ms=5, resources=describe_bindings(ordered))
    assert b"".join(chunks) == expected.encode(version)


def test_a_resource_with_many_acls_has_them_in_one_entry() -> None:
    rules = [AclBinding(2, "*", 3, f"User:{number:05}", "*", 3, 3) for number in range(10_000)]
    answer = listed(authorizer_of(rules[::-1]).acl_slices(EVERYTHING), 3)
    assert isinstance(answer, AclListing)
    while answer.advance():
        pass
    chunks: list[bytes] = []
    answer.write(3, chunks)
    (resource,) = DescribeAclsResponse.decode(b"".join(chunks), 3).resources
    assert [acl.principal for acl in resource.acls] == [rule.principal for rule in rules]
