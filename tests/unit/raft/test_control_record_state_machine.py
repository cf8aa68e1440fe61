"""Which voters are in force at which offset, while the log grows, is truncated, and is shortened by a snapshot."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.raft.control_record_state_machine import BOOTSTRAP_OFFSET, History


def test_a_change_at_the_start_of_the_log_can_be_truncated() -> None:
    """A snapshot contains the records before offset 15; the voters of a record at 15 are not committed yet."""
    history: History[str] = History()
    history.add(BOOTSTRAP_OFFSET, "the first voters")
    history.add(15, "the voters of a leader that was deposed")
    history.truncate_old_entries(15)
    history.truncate_new_entries(15)
    assert (history.last, history.at_or_before(14)) == ("the first voters", "the first voters")


@given(
    offsets=st.lists(st.integers(0, 30), unique=True).map(sorted),
    start=st.integers(0, 30),
    end=st.integers(0, 30),
)
def test_after_a_restart_the_state_from_the_last_record_on_is_unchanged(
    offsets: list[int], start: int, end: int
) -> None:
    whole: History[int] = History()
    shortened: History[int] = History()
    for history in (whole, shortened):
        history.add(BOOTSTRAP_OFFSET, BOOTSTRAP_OFFSET)
        for offset in offsets:
            history.add(offset, offset)
    shortened.truncate_old_entries(start)
    for history in (whole, shortened):
        history.truncate_new_entries(max(start, end))
    assert [whole.at_or_before(at) for at in range(start - 1, 31)] == [
        shortened.at_or_before(at) for at in range(start - 1, 31)
    ]
    assert whole.last == shortened.last
