"""The delegation tokens of an image: the number of a principal's tokens, without reading all of them."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from barnabas.metadata.image.delegation_tokens import DelegationTokensDelta, DelegationTokensImage
from barnabas.protocol.records.delegation_token_record import DelegationTokenRecord
from barnabas.protocol.records.remove_delegation_token_record import RemoveDelegationTokenRecord

USERS = ("User:alice", "User:bob", "User:carol")
users = st.sampled_from(USERS)
Step = tuple[str, tuple[str, str] | None]
steps: st.SearchStrategy[Step] = st.tuples(
    st.sampled_from(["t1", "t2", "t3", "t4"]), st.none() | st.tuples(users, users)
)


def token(token_id: str, owner: str, requester: str) -> DelegationTokenRecord:
    return DelegationTokenRecord(token_id=token_id, owner=owner, requester=requester)


def replay(delta: DelegationTokensDelta, token_id: str, holders: tuple[str, str] | None) -> None:
    if holders is None:
        delta.replay_remove(RemoveDelegationTokenRecord(token_id=token_id))
    else:
        delta.replay(token(token_id, *holders))


def counted(image: DelegationTokensImage) -> Counter[str]:
    return Counter(holder for record in image.by_key.values() for holder in {record.owner, record.requester})


@given(st.lists(st.lists(steps, max_size=6), max_size=6), st.booleans())
def test_the_counts_match_the_tokens_after_any_changes(deltas: list[list[Step]], is_snapshot: bool) -> None:
    image = DelegationTokensImage()
    for number, changes in enumerate(deltas):
        delta = DelegationTokensDelta(image)
        for token_id, holders in changes:
            replay(delta, token_id, holders)
        if is_snapshot and number % 2:
            delta.finish_snapshot()
        image = delta.apply()
        expected = counted(image)
        assert {user: image.count_of(user) for user in USERS} == {user: expected[user] for user in USERS}
        assert counted(DelegationTokensImage(image.by_key)) == expected


def test_a_token_counts_once_if_owner_and_requester_are_equal() -> None:
    delta = DelegationTokensDelta(DelegationTokensImage())
    replay(delta, "t1", ("User:alice", "User:alice"))
    replay(delta, "t2", ("User:alice", "User:bob"))
    image = delta.apply()
    assert (image.count_of("User:alice"), image.count_of("User:bob"), image.count_of("User:carol")) == (2, 1, 0)


def test_a_change_reads_no_unchanged_token() -> None:
    class Untouchable(DelegationTokenRecord):
        __slots__ = ()

        def __getattribute__(self, name: str) -> object:
            raise AssertionError(f"{name} of a token that did not change")

    first = DelegationTokensDelta(DelegationTokensImage())
    for number in range(100):
        replay(first, f"t{number}", ("User:alice", "User:alice"))
    image = first.apply()
    bare = {key: Untouchable.__new__(Untouchable) for key in image.by_key}
    guarded = DelegationTokensImage(image.by_key.updated(bare), image._counts)
    delta = DelegationTokensDelta(guarded)
    replay(delta, "new", ("User:alice", "User:bob"))
    assert delta.apply().count_of("User:alice") == 101
