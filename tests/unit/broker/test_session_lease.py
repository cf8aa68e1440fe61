from __future__ import annotations

from barnabas.broker.session_lease import SessionLease


def lease_at(sent_s: float, answered_s: float) -> SessionLease:
    """Of a broker with a session of 9 seconds, which has applied the log that it found."""
    lease = SessionLease(9.0)
    lease.renewed(sent_s=sent_s, answered_s=answered_s)
    lease.caught_up(lease.session)
    return lease


def test_a_broker_that_was_never_answered_holds_nothing() -> None:
    lease = SessionLease(9.0)
    assert lease.until_s < 0
    assert not lease.needs_to_catch_up


def test_it_holds_for_the_length_of_a_session_from_when_the_heartbeat_was_sent() -> None:
    lease = lease_at(100.0, 101.0)
    assert lease.until_s == 109.0
    lease.renewed(sent_s=102.0, answered_s=108.9)
    assert (lease.until_s, lease.needs_to_catch_up) == (111.0, False)


def test_an_answer_that_comes_when_the_session_may_be_over_begins_another_one() -> None:
    """The heartbeat was sent in time. Nobody knows when it arrived."""
    lease = lease_at(100.0, 100.1)
    lease.renewed(sent_s=105.0, answered_s=109.0)
    assert (lease.until_s, lease.needs_to_catch_up) == (109.0, True)
    lease.renewed(sent_s=109.1, answered_s=109.2)
    assert lease.until_s == 109.0
    lease.caught_up(lease.session)
    assert lease.until_s == 118.1


def test_what_was_applied_of_an_earlier_session_does_not_help() -> None:
    lease = lease_at(100.0, 100.1)
    lease.renewed(sent_s=120.0, answered_s=120.1)
    first = lease.session
    lease.renewed(sent_s=140.0, answered_s=140.1)
    lease.caught_up(first)
    assert (lease.until_s, lease.needs_to_catch_up) == (109.0, True)


def test_who_is_told_to_be_fenced_holds_nothing_until_it_has_caught_up_again() -> None:
    lease = lease_at(100.0, 100.1)
    lease.fenced()
    assert lease.until_s < 0
    lease.renewed(sent_s=101.0, answered_s=101.1)
    assert lease.until_s < 0
    lease.caught_up(lease.session)
    assert lease.until_s == 110.0


def test_who_waits_hears_when_it_holds_for_longer_and_only_then() -> None:
    lease, heard = lease_at(100.0, 100.1), []
    lease.on_held = lambda: heard.append(lease.until_s)
    lease.renewed(sent_s=102.0, answered_s=102.1)
    lease.renewed(sent_s=120.0, answered_s=120.1)
    assert heard == [111.0]
    lease.caught_up(lease.session)
    assert heard == [111.0, 129.0]
