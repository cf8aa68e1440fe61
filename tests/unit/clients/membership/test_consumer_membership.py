"""A member follows the coordinator: it gives up partitions before it acknowledges, and drops them when it is fenced."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.clients.admin.errors import AdminError
from barnabas.clients.membership.consumer_membership import (
    ConsumerMembership,
    MemberOptions,
    Reconciliation,
    Subscription,
)
from barnabas.clients.membership.heartbeat_schedule import HeartbeatSchedule
from barnabas.clients.membership.member_state import MemberState
from barnabas.clients.membership.membership import Answer
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

ORDERS, OTHER = Uuid.from_int(1 << 90), Uuid.from_int(1 << 91)
NAMES = {ORDERS: "orders", OTHER: "other"}
INTERVAL_MS = 5000


def member(**options: str) -> ConsumerMembership:
    schedule = HeartbeatSchedule(backoff_ms=100, backoff_ms_max=1000)
    subscription = Subscription(frozenset({"orders", "other"}), options.pop("pattern", None))
    return ConsumerMembership("g", "m-1", MemberOptions(subscription, 300_000, **options), schedule)


def answer(epoch: int, *assigned: tuple[Uuid, list[int]] | None, code: ErrorCode = ErrorCode.NONE) -> (
    ConsumerGroupHeartbeatResponse
):  # fmt: skip
    """Without partitions the response has no assignment; None is an empty one."""
    parts = [TopicPartitions(topic_id=part[0], partitions=part[1]) for part in assigned if part is not None]
    return ConsumerGroupHeartbeatResponse(
        member_id="m-1", member_epoch=epoch, heartbeat_interval_ms=INTERVAL_MS, error_code=code,
        assignment=Assignment(topic_partitions=parts) if assigned else None,
    )  # fmt: skip


def beat(
    membership: ConsumerMembership, response: ConsumerGroupHeartbeatResponse, now_ms: int = 0
) -> ConsumerGroupHeartbeatRequest:
    request = membership.request(now_ms)
    membership.receive(response, now_ms)
    return request


def owned(request: ConsumerGroupHeartbeatRequest) -> dict[Uuid, list[int]] | None:
    if request.topic_partitions is None:
        return None
    return {topic.topic_id: topic.partitions for topic in request.topic_partitions}


def stepped(membership: ConsumerMembership) -> Reconciliation:
    membership.learn_names({topic_id: NAMES[topic_id] for topic_id in membership.unnamed})
    step = membership.next_step()
    assert step is not None
    membership.reconciled(step)
    return step


def parts(topic: str, *partitions: int) -> set[TopicPartition]:
    return {TopicPartition(topic, partition) for partition in partitions}


def joined(*assigned: tuple[Uuid, list[int]] | None, **options: str) -> ConsumerMembership:
    """Return a stable member of epoch 1."""
    membership = member(**options)
    beat(membership, answer(1, *(assigned or (None,))))
    stepped(membership)
    beat(membership, answer(1))
    assert membership.state is MemberState.STABLE
    return membership


def test_the_first_heartbeat_joins_with_all_fields() -> None:
    membership = member(pattern="a.*", instance_id="i", server_assignor="range")
    assert membership.due_ms() == 0
    request = membership.request(0)
    assert (request.group_id, request.member_id, request.member_epoch) == ("g", "m-1", 0)
    assert request.rebalance_timeout_ms == 300_000
    assert request.subscribed_topic_names == ["orders", "other"]
    assert (request.subscribed_topic_regex, request.instance_id, request.server_assignor) == ("a.*", "i", "range")
    assert owned(request) == {}
    assert membership.due_ms() is None  # One in flight.


def test_a_stable_member_sends_only_its_ids_at_the_interval_of_the_coordinator() -> None:
    membership = joined((ORDERS, [0, 1]))
    assert membership.due_ms() == INTERVAL_MS
    request = beat(membership, answer(1), INTERVAL_MS)
    assert (request.member_epoch, request.rebalance_timeout_ms, request.subscribed_topic_names) == (1, -1, None)
    assert owned(request) is None
    assert membership.due_ms() == 2 * INTERVAL_MS


def test_partitions_are_given_up_before_the_rest_is_acknowledged() -> None:
    membership = joined((ORDERS, [0, 1, 2]))
    beat(membership, answer(1, (ORDERS, [0]), (OTHER, [5])), INTERVAL_MS)
    membership.learn_names({OTHER: "other"})
    step = membership.next_step()
    assert step is not None
    assert step.revoked == parts("orders", 1, 2)
    assert step.added == parts("other", 5)
    assert membership.next_step() is None  # One at a time.
    assert owned(beat(membership, answer(1), 2 * INTERVAL_MS)) is None  # A heartbeat meanwhile acknowledges nothing.
    membership.reconciled(step)
    assert membership.due_ms() == 0
    assert owned(beat(membership, answer(2), 2 * INTERVAL_MS)) == {ORDERS: [0], OTHER: [5]}
    assert membership.state is MemberState.STABLE
    assert membership.epoch == 2


def test_an_empty_assignment_is_a_step_too() -> None:
    membership = member()
    beat(membership, answer(1, None))
    assert stepped(membership).added == frozenset()
    assert owned(membership.request(0)) == {}


def test_a_newer_assignment_is_the_step_after_the_one_under_way() -> None:
    membership = joined((ORDERS, [0, 1]))
    beat(membership, answer(1, (ORDERS, [0])), INTERVAL_MS)
    step = membership.next_step()
    assert step is not None
    beat(membership, answer(2, (ORDERS, [0, 7])), 2 * INTERVAL_MS)
    membership.reconciled(step)
    assert owned(beat(membership, answer(2), 2 * INTERVAL_MS)) == {ORDERS: [0, 7]}  # It may begin 7 at any time.
    assert stepped(membership).added == parts("orders", 7)


def test_partitions_that_were_withdrawn_before_they_were_begun_are_acknowledged() -> None:
    """The coordinator gives them to another member only when this one reports that it does not have them."""
    membership = joined((ORDERS, [0]))
    beat(membership, answer(2, (ORDERS, [0]), (OTHER, [5])), INTERVAL_MS)
    assert owned(beat(membership, answer(2, (ORDERS, [0])), 2 * INTERVAL_MS)) is None
    assert membership.due_ms() == 0
    assert owned(beat(membership, answer(3), 2 * INTERVAL_MS)) == {ORDERS: [0]}
    assert membership.state is MemberState.STABLE


def test_partitions_that_were_withdrawn_while_they_were_begun_are_given_up() -> None:
    membership = joined((ORDERS, [0]))
    beat(membership, answer(2, (ORDERS, [0, 7])), INTERVAL_MS)
    step = membership.next_step()
    assert step is not None
    beat(membership, answer(2, (ORDERS, [0])), 2 * INTERVAL_MS)
    assert membership.is_current(step)
    membership.reconciled(step)
    assert owned(beat(membership, answer(2), 2 * INTERVAL_MS)) == {ORDERS: [0, 7]}
    assert stepped(membership).revoked == parts("orders", 7)
    assert owned(beat(membership, answer(3), 3 * INTERVAL_MS)) == {ORDERS: [0]}


def test_topics_without_a_known_name_wait() -> None:
    membership = member()
    beat(membership, answer(1, (ORDERS, [0]), (OTHER, [1])))
    assert membership.unnamed == {ORDERS, OTHER}
    membership.learn_names({ORDERS: "orders"})
    step = membership.next_step()
    assert step is not None
    assert step.added == parts("orders", 0)
    membership.reconciled(step)
    assert owned(beat(membership, answer(1))) == {ORDERS: [0], OTHER: [1]}
    assert membership.state is MemberState.RECONCILING
    assert membership.next_step() is None
    assert membership.due_ms() == INTERVAL_MS  # It does not acknowledge the same again and again.
    assert stepped(membership).added == parts("other", 1)


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_joins_again_when_its_partitions_are_dropped(code: ErrorCode) -> None:
    membership = joined((ORDERS, [0, 1]))
    membership.request(INTERVAL_MS)
    assert membership.receive(answer(0, code=code), INTERVAL_MS) is Answer.FENCED
    assert not membership.is_member
    assert membership.due_ms() is None
    assert membership.next_step() is None
    membership.released()
    assert membership.due_ms() == 0
    request = beat(membership, answer(9, (ORDERS, [1])), INTERVAL_MS)
    assert (request.member_epoch, owned(request)) == (0, {})
    assert stepped(membership).added == parts("orders", 1)


def test_a_step_that_was_overtaken_by_fencing_changes_nothing() -> None:
    membership = joined((ORDERS, [0, 1]))
    beat(membership, answer(1, (ORDERS, [0])), INTERVAL_MS)
    step = membership.next_step()
    assert step is not None
    beat(membership, answer(0, code=ErrorCode.FENCED_MEMBER_EPOCH), 2 * INTERVAL_MS)
    assert not membership.is_current(step)
    membership.reconciled(step)
    assert membership.state is MemberState.FENCED


def test_a_heartbeat_without_an_answer_is_repeated_with_all_fields_after_growing_pauses() -> None:
    membership = joined((ORDERS, [0]))
    now_ms = INTERVAL_MS
    for pause_ms in (100, 200, 400, 800, 1000, 1000):
        membership.request(now_ms)
        membership.unanswered(now_ms)
        assert membership.due_ms() == now_ms + pause_ms
        now_ms += pause_ms
    request = beat(membership, answer(1), now_ms)
    assert (request.member_epoch, request.subscribed_topic_names) == (1, ["orders", "other"])
    assert owned(request) == {ORDERS: [0]}
    assert membership.due_ms() == now_ms + INTERVAL_MS


@pytest.mark.parametrize(
    "code",
    [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS],
)
def test_a_moved_coordinator_does_not_end_the_membership(code: ErrorCode) -> None:
    membership = joined((ORDERS, [0]))
    membership.request(INTERVAL_MS)
    assert membership.receive(answer(0, code=code), INTERVAL_MS) is Answer.COORDINATOR_MOVED
    assert membership.is_member
    assert owned(membership.request(INTERVAL_MS + 100)) == {ORDERS: [0]}


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_REQUEST,
        ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.UNSUPPORTED_ASSIGNOR, ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.INVALID_REGULAR_EXPRESSION,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ],
)  # fmt: skip
def test_any_other_error_ends_the_membership(code: ErrorCode) -> None:
    membership = joined((ORDERS, [0]))
    membership.request(INTERVAL_MS)
    with pytest.raises(AdminError) as error:
        membership.receive(answer(0, code=code), INTERVAL_MS)
    assert error.value.code is code
    assert membership.due_ms() is None
    assert membership.leave() is None


@pytest.mark.parametrize(("options", "epoch"), [({}, -1), ({"instance_id": "i"}, -2)])
def test_a_member_leaves_for_good_and_a_static_one_for_a_while(options: dict[str, str], epoch: int) -> None:
    membership = joined((ORDERS, [0]), **options)
    request = membership.leave()
    assert request is not None
    assert (request.member_id, request.member_epoch) == ("m-1", epoch)
    assert membership.due_ms() is None


def test_a_member_that_has_not_joined_does_not_leave() -> None:
    assert member().leave() is None


class Coordinator:
    """It assigns partitions of one topic to two members by KIP-848: what one has acknowledged to be given up, goes to
    the other."""

    def __init__(self) -> None:
        self.targets: dict[str, frozenset[int]] = {"a": frozenset(range(6)), "b": frozenset()}
        self.held: dict[str, frozenset[int]] = {"a": frozenset(), "b": frozenset()}
        """What each member may have: assigned, or not yet acknowledged to be given up."""
        self.epoch = 1
        self.known = {"a": 0, "b": 0}

    def move(self, to_a: frozenset[int]) -> None:
        self.targets = {"a": to_a, "b": frozenset(range(6)) - to_a}
        self.epoch += 1

    def answer(self, name: str, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        if request.member_epoch and not self.known[name]:
            return answer(0, code=ErrorCode.UNKNOWN_MEMBER_ID)
        has = owned(request)
        if has is not None:
            self.held[name] = self.held[name] & self.targets[name] | frozenset(has.get(ORDERS, ()))
        free = frozenset(range(6)) - self.held["a"] - self.held["b"]
        assigned = self.targets[name] & (self.held[name] | free)
        self.held[name] |= assigned
        self.known[name] = self.epoch
        return answer(self.epoch, (ORDERS, sorted(assigned)) if assigned else None)

    def fence(self, name: str) -> None:
        self.known[name] = 0
        self.held[name] = frozenset()


MOVES = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["beat"] * 6 + ["step"] * 6 + ["begin", "lost request", "lost answer", "fence"]),
            st.sampled_from("ab"),
        ),
        st.tuples(st.just("move"), st.sampled_from([frozenset(), frozenset({0, 1, 2}), frozenset(range(6))])),
    ),
    min_size=20,
    max_size=80,
)


class Reader:
    """A member and what its caller reads: steps may take a while."""

    def __init__(self, name: str) -> None:
        schedule = HeartbeatSchedule(backoff_ms=0, backoff_ms_max=0)
        self.membership = ConsumerMembership(name, name, MemberOptions(Subscription(), 1), schedule)
        self.reads: set[TopicPartition] = set()
        self._step: Reconciliation | None = None

    def begin(self) -> None:
        if self._step is not None:
            return
        if self.membership.state is MemberState.FENCED:
            self.reads.clear()
            self.membership.released()
        self.membership.learn_names(NAMES)
        self._step = self.membership.next_step()

    def step(self) -> None:
        self.begin()
        if (step := self._step) is not None:
            self.reads -= step.revoked
            if self.membership.is_current(step):
                self.reads |= step.added
            self.membership.reconciled(step)
            self._step = None


@settings(max_examples=300)
@given(MOVES)
def test_a_partition_has_one_reader_whatever_is_lost(moves: list[tuple[str, frozenset[int] | str]]) -> None:
    """A member that was fenced may still read until it learns it, as in Kafka: only the others are compared."""
    coordinator = Coordinator()
    readers = {name: Reader(name) for name in "ab"}
    now_ms = 0
    for kind, about in moves:
        now_ms += INTERVAL_MS
        if isinstance(about, frozenset):
            coordinator.move(about)
            continue
        membership = readers[about].membership
        if kind == "fence":
            coordinator.fence(about)
        elif kind == "begin":
            readers[about].begin()
        elif kind == "step":
            readers[about].step()
        elif membership.due_ms() is not None:
            request = membership.request(now_ms)
            response = None if kind == "lost request" else coordinator.answer(about, request)
            if response is None or kind == "lost answer":
                membership.unanswered(now_ms)
            else:
                membership.receive(response, now_ms)
        current = [
            reader.reads for name, reader in readers.items() if coordinator.known[name] and reader.membership.is_member
        ]
        assert len(set().union(*current)) == sum(map(len, current))
