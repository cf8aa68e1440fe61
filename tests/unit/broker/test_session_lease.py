from __future__ import annotations

from barnabas.broker.session_lease import SessionLease


def lease_at(sent_s: float, answered_s: float) -> SessionLease:
    """A lease of a broker with a session of 9 seconds, which has applied the log that it found."""
    lease = SessionLease(9.0)
    lease.renewed(sent_s=sent_s, answered_s=answered_s)
    lease.caught_up(lease.session)
    return lease


def test_a_broker_without_any_response_holds_no_lease() -> None:
    lease = SessionLease(9.0)
    assert lease.until_s < 0
    assert not lease.needs_to_catch_up


def test_a_lease_lasts_one_session_from_the_sending_of_the_heartbeat() -> None:
    lease = lease_at(100.0, 101.0)
    assert lease.until_s == 109.0
    lease.renewed(sent_s=102.0, answered_s=108.9)
    assert (lease.until_s, lease.needs_to_catch_up) == (111.0, False)


def test_a_response_after_the_possible_end_of_the_session_begins_another_one() -> None:
    """The heartbeat was sent in time, but its arrival time is unknown."""
    lease = lease_at(100.0, 100.1)
    lease.renewed(sent_s=105.0, answered_s=109.0)
    assert (lease.until_s, lease.needs_to_catch_up) == (109.0, True)
    lease.renewed(sent_s=109.1, answered_s=109.2)
    assert lease.until_s == 109.0
    lease.caught_up(lease.session)
    assert lease.until_s == 118.1


def test_catching_up_in_an_earlier_session_does_not_count() -> None:
    lease = lease_at(100.0, 100.1)
    lease.renewed(sent_s=120.0, answered_s=120.1)
    first = lease.session
    lease.renewed(sent_s=140.0, answered_s=140.1)
    lease.caught_up(first)
    assert (lease.until_s, lease.needs_to_catch_up) == (109.0, True)


def test_a_fenced_broker_holds_no_lease_until_it_has_caught_up_again() -> None:
    lease = lease_at(100.0, 100.1)
    lease.fenced()
    assert lease.until_s < 0
    lease.renewed(sent_s=101.0, answered_s=101.1)
    assert lease.until_s < 0
    lease.caught_up(lease.session)
    assert lease.until_s == 110.0


def test_waiters_are_notified_only_when_the_lease_is_extended() -> None:
    lease, extended_to = lease_at(100.0, 100.1), []
    lease.on_held = lambda: extended_to.append(lease.until_s)
    lease.renewed(sent_s=102.0, answered_s=102.1)
    lease.renewed(sent_s=120.0, answered_s=120.1)
    assert extended_to == [111.0]
    lease.caught_up(lease.session)
    assert extended_to == [111.0, 129.0]
