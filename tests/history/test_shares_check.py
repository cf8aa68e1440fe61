"""The check of share groups finds each mistake in a story of two members, and none in what a group may do."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from tests.history.shares_check import AckType, Delivery, SharedRecord, SharesCheck
from tests.history.violations import Broken

LIMIT = 9


class Story:
    """Members of one group and the first record of a partition. Each event happens a second after the one before."""

    def __init__(self) -> None:
        self.check = SharesCheck(delivery_count_limit=LIMIT)
        self.record = SharedRecord("group", 0, 1)
        self._clock = count(1)

    def give(self, member: str, number: int = 1, *, requested_s: float | None = None) -> Delivery:
        """Deliver the record, half a second after it was requested unless a time is given."""
        now_s = float(next(self._clock))
        requested_s = now_s - 0.5 if requested_s is None else requested_s
        return self.check.delivered(self.record, member, requested_s=requested_s, received_s=now_s, count=number)

    def say(self, delivery: Delivery, type_: AckType = AckType.ACCEPT, *, is_confirmed: bool = True) -> None:
        ack = delivery.acknowledges(type_, float(next(self._clock)))
        if is_confirmed:
            ack.confirmed_s = float(next(self._clock))

    def give_the_record_before(self) -> None:
        """Show that the start offset has not passed the record: one before it is acquired."""
        now_s = float(next(self._clock))
        before = SharedRecord(self.record.group, 0, 0)
        self.check.delivered(before, "c", requested_s=now_s - 0.5, received_s=now_s, count=1)

    def broken(self, *offsets: int) -> list[Broken]:
        places = [(0, offset) for offset in offsets or (1,)]
        return [violation.broken for violation in self.check.violations("group", places)]


# --- what a group may do


def accept(story: Story) -> None:
    story.say(story.give("a"))


def release_and_accept(story: Story) -> None:
    story.say(story.give("a"), AckType.RELEASE)
    story.say(story.give("b", 2))


def reject(story: Story) -> None:
    story.say(story.give("a"), AckType.REJECT)


def renew_and_accept(story: Story) -> None:
    delivery = story.give("a")
    story.say(delivery, AckType.RENEW)
    story.say(delivery)


def lose_a_lock(story: Story) -> None:
    late = story.give("a")
    story.say(story.give("b", 2))
    story.say(late, is_confirmed=False)


def accept_without_an_answer(story: Story) -> None:
    story.say(story.give("a"), is_confirmed=False)


def deliver_again_with_the_same_count(story: Story) -> None:
    """The leader has changed, and nobody had acknowledged the record."""
    story.give("a")
    story.say(story.give("b"))


def deliver_an_old_answer_late(story: Story) -> None:
    """Member b acquired it first, but received it after its lock had expired."""
    story.say(story.give("a", 2))
    story.give("b", 1, requested_s=0.1)


def acknowledge_late_what_another_member_has_accepted(story: Story) -> None:
    """The start offset has passed the record, so that the broker confirms whatever is said of it."""
    late = story.give("a")
    story.say(story.give("b", 2))
    story.say(late)


def release_late_what_has_reached_the_limit(story: Story) -> None:
    late = story.give("a")
    story.say(story.give("b", LIMIT), AckType.RELEASE)
    story.say(late, AckType.RELEASE)


def reach_the_limit(story: Story) -> None:
    for number in range(1, LIMIT + 1):
        story.say(story.give("a", number), AckType.RELEASE)


def lose_the_last_deliveries(story: Story) -> None:
    for number in range(1, LIMIT - 2):
        story.say(story.give("a", number), AckType.RELEASE)


ALLOWED = (
    accept, release_and_accept, reject, renew_and_accept, lose_a_lock, accept_without_an_answer,
    deliver_again_with_the_same_count, deliver_an_old_answer_late,
    acknowledge_late_what_another_member_has_accepted, release_late_what_has_reached_the_limit,
    reach_the_limit, lose_the_last_deliveries,
)  # fmt: skip


@pytest.mark.parametrize("tell", ALLOWED, ids=lambda tell: tell.__name__)
def test_what_a_group_may_do_is_no_violation(tell: Callable[[Story], None]) -> None:
    story = Story()
    tell(story)
    assert story.broken() == []


# --- mistakes


def deliver_what_another_member_holds(story: Story) -> None:
    holder = story.give("a")
    story.give("b", 2)
    story.say(holder)


def let_two_members_settle_at_once(story: Story) -> None:
    first, second = story.give("a"), story.give("b", requested_s=0.1)
    story.say(second, AckType.RELEASE)
    story.say(first, AckType.RELEASE)
    story.say(story.give("a", 2))


def deliver_what_another_member_has_renewed(story: Story) -> None:
    holder = story.give("a")
    story.give("b", 2)
    story.say(holder, AckType.RENEW)
    story.say(holder, is_confirmed=False)


def renew_for_two_members(story: Story) -> None:
    first, second = story.give("a"), story.give("b", requested_s=0.1)
    for holder in (first, second):
        story.say(holder, AckType.RENEW)
    story.say(first, is_confirmed=False)


def settle_twice(story: Story) -> None:
    story.say(story.give("a"))
    story.say(story.give("b", 2, requested_s=0.1), AckType.REJECT)
    story.give_the_record_before()


def settle_what_another_member_settles_late(story: Story) -> None:
    late = story.give("a")
    story.say(story.give("b", 2))
    story.say(late)
    story.give_the_record_before()


def deliver_after_an_acceptance(story: Story) -> None:
    story.say(story.give("a"))
    story.give("b", 2)


def deliver_after_a_rejection(story: Story) -> None:
    story.say(story.give("a"), AckType.REJECT)
    story.give("a", 2)


def deliver_beyond_the_limit(story: Story) -> None:
    story.say(story.give("a", LIMIT + 1))


def count_from_zero(story: Story) -> None:
    story.say(story.give("a", 0))


def forget_a_released_delivery(story: Story) -> None:
    story.say(story.give("a", 2), AckType.RELEASE)
    story.say(story.give("b", 2))


def finish_without_a_delivery(story: Story) -> None:
    pass


def finish_below_the_limit(story: Story) -> None:
    story.say(story.give("a"), AckType.RELEASE)


def finish_what_was_delivered_after_a_refused_acceptance(story: Story) -> None:
    story.say(story.give("a"), is_confirmed=False)
    story.give("b")


MISTAKES = (
    (deliver_what_another_member_holds, Broken.HELD_BY_TWO),
    (let_two_members_settle_at_once, Broken.HELD_BY_TWO),
    (deliver_what_another_member_has_renewed, Broken.HELD_BY_TWO),
    (renew_for_two_members, Broken.HELD_BY_TWO),
    (settle_twice, Broken.SETTLED_TWICE),
    (settle_what_another_member_settles_late, Broken.SETTLED_TWICE),
    (deliver_after_an_acceptance, Broken.SETTLED_AND_DELIVERED),
    (deliver_after_a_rejection, Broken.SETTLED_AND_DELIVERED),
    (deliver_beyond_the_limit, Broken.DELIVERY_COUNT),
    (count_from_zero, Broken.DELIVERY_COUNT),
    (forget_a_released_delivery, Broken.DELIVERY_COUNT),
    (finish_without_a_delivery, Broken.NOT_DELIVERED),
    (finish_below_the_limit, Broken.NOT_SETTLED),
    (finish_what_was_delivered_after_a_refused_acceptance, Broken.NOT_SETTLED),
)


@pytest.mark.parametrize(("tell", "broken"), MISTAKES, ids=lambda part: getattr(part, "__name__", None))
def test_each_mistake_is_found(tell: Callable[[Story], None], broken: Broken) -> None:
    story = Story()
    tell(story)
    found = story.broken()
    assert broken in found
    assert set(found) <= {broken, Broken.HELD_BY_TWO}


def test_a_record_of_another_group_proves_nothing() -> None:
    story = Story()
    accept(story)
    story.record = SharedRecord("other", 0, 1)
    accept(story)
    assert story.broken() == []
    assert story.broken(1, 2) == [Broken.NOT_DELIVERED]


# --- stale leaders


@pytest.mark.parametrize(
    "tell",
    [
        deliver_what_another_member_holds, deliver_what_another_member_has_renewed, renew_for_two_members,
        deliver_after_an_acceptance, forget_a_released_delivery,
    ],
)  # fmt: skip
def test_what_a_stale_leader_explains_is_counted(tell: Callable[[Story], None]) -> None:
    story = Story()
    story.check.may_be_stale = lambda from_s, to_s: True
    tell(story)
    assert story.broken() == []
    [(what, times)] = [item for item in story.check.counts.items() if "stale" in item[0]]
    assert times == 1, what


@pytest.mark.parametrize("tell", [let_two_members_settle_at_once, deliver_beyond_the_limit])
def test_a_stale_leader_explains_nothing_that_is_stored(tell: Callable[[Story], None]) -> None:
    story = Story()
    story.check.may_be_stale = lambda from_s, to_s: True
    tell(story)
    assert len(story.broken()) == 1


def test_deliveries_and_acknowledgements_are_counted() -> None:
    story = Story()
    release_and_accept(story)
    story.broken()
    assert story.check.counts == {
        "deliveries": 2, "deliveries after the first": 1, "records whose deliveries reached the limit": 0,
        "release confirmed": 1, "accept confirmed": 1,
    }  # fmt: skip
