"""Members of a share group join, follow, leave and fall silent in random order; topics change, the persister fails.

At every moment: a member has only partitions of its topics whose state was initialized, no epoch goes back, and a
coordinator that reads the log knows the same group. When all is quiet, each initialized partition of a subscribed topic
is read by some member, and all members of one subscription have about equally many.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from barnabas.common.errors import ErrorCode
from barnabas.common.uuid import Uuid
from tests.unit.coordinator.share_group_driver import CONFIG, QUEUE, ShareGroupDriver

MEMBERS = st.sampled_from(["a", "b", "c", "d"])
TOPICS = ("orders", "audit", "payments")
SUBSCRIPTIONS = st.sets(st.sampled_from(TOPICS), min_size=1)


class ShareGroupModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.driver = ShareGroupDriver(replace(CONFIG, group_share_assignment_interval_ms=500))
        self.driver.load()
        self.topics: dict[str, int] = {}
        self.subscriptions: dict[str, set[str]] = {}
        self.epochs: dict[str, int] = {}
        self.initialized: set[tuple[Uuid, int]] = set()
        self.group_epoch = 0

    # -- members

    @rule(member=MEMBERS, topics=SUBSCRIPTIONS)
    def join(self, member: str, topics: set[str]) -> None:
        self._beat(member, 0, topics)

    @rule(member=MEMBERS)
    def follow(self, member: str) -> None:
        if member in self.epochs:
            self._beat(member, self.epochs[member])

    @rule(member=MEMBERS, topics=SUBSCRIPTIONS)
    def subscribe(self, member: str, topics: set[str]) -> None:
        if member in self.epochs:
            self._beat(member, self.epochs[member], topics)

    @rule(member=MEMBERS)
    def leave(self, member: str) -> None:
        if member in self.epochs:
            assert self.driver.beat(member, -1).error_code == ErrorCode.NONE
            self._forget(member)

    @rule(member=MEMBERS)
    def fall_silent(self, member: str) -> None:
        """All others go on for longer than a session."""
        for _ in range(5):
            self.driver.advance(10_000)
            for other in sorted(self.epochs.keys() - {member}):
                self._beat(other, self.epochs[other])
        if member in self.epochs:
            assert self.driver.beat(member, self.epochs[member]).error_code == ErrorCode.UNKNOWN_MEMBER_ID
            self._forget(member)

    def _beat(self, member: str, epoch: int, topics: set[str] | None = None) -> None:
        answer = self.driver.beat(member, epoch, *sorted(topics or ()))
        assert answer.error_code == ErrorCode.NONE
        assert answer.member_epoch >= self.epochs.get(member, 0)
        self.epochs[member] = answer.member_epoch
        if topics is not None:
            self.subscriptions[member] = topics

    def _forget(self, member: str) -> None:
        del self.epochs[member], self.subscriptions[member]

    # -- the persister, topics, coordinators

    @rule()
    def persister_succeeds(self) -> None:
        for wanted in self.driver.asked:
            self.initialized |= {
                (topic_id, partition) for topic_id, of_topic in wanted.partitions.items() for partition in of_topic
            }
        self.driver.initialized()

    @rule()
    def persister_fails(self) -> None:
        for wanted in self.driver.asked:
            self.driver.coordinator.share.initialization_failed(QUEUE, wanted.partitions, self.driver.now_ms)
        self.driver.asked = []

    @rule()
    def answers_of_the_persister_are_lost(self) -> None:
        self.driver.asked = []

    @rule(topic=st.sampled_from(TOPICS), grows_by=st.integers(1, 3))
    def create_or_grow(self, topic: str, grows_by: int) -> None:
        self.driver.now_ms += 1  # It makes the id of a new topic.
        if topic in self.topics:
            self.topics[topic] += grows_by
            self.driver.grow(topic, self.topics[topic])
        else:
            self.topics[topic] = grows_by
            self.driver.create(topic, grows_by)

    @rule(topic=st.sampled_from(TOPICS))
    def delete_topic(self, topic: str) -> None:
        if topic in self.topics:
            del self.topics[topic]
            self.driver.delete(topic)

    @rule()
    def pass_time(self) -> None:
        self.driver.advance(1_000)
        for member in sorted(self.epochs):
            self._beat(member, self.epochs[member])

    @rule()
    def move_to_another_coordinator(self) -> None:
        asked = self.driver.asked
        self.driver = self.driver.restarted()
        self.driver.asked = asked

    @rule()
    def become_quiet(self) -> None:
        self.driver.advance(31_000)
        for _ in range(4):
            self.driver.advance(600)
            for member in sorted(self.epochs):
                self._beat(member, self.epochs[member])
            self.persister_succeeds()
        self._check_that_all_is_assigned()

    def _check_that_all_is_assigned(self) -> None:
        for topic, count in self.topics.items():
            readers = [member for member, topics in self.subscriptions.items() if topic in topics]
            read = [partition for member in readers for partition in self.driver.assigned(member).get(topic, ())]
            assert set(read) == (set(range(count)) if readers else set())
        if self.subscriptions and len({frozenset(topics) for topics in self.subscriptions.values()}) == 1:
            loads = [sum(map(len, self.driver.assigned(member).values())) for member in self.subscriptions]
            assert max(loads) - min(loads) <= 1 + max(loads) // 2

    # -- what always holds

    @invariant()
    def members_are_those_that_beat(self) -> None:
        described = self.driver.described()
        assert {member.member_id for member in described.members} == self.subscriptions.keys()
        if described.error_code == ErrorCode.NONE:
            assert described.group_epoch >= self.group_epoch
            self.group_epoch = described.group_epoch
            assert all(member.member_epoch <= described.group_epoch for member in described.members)

    @invariant()
    def only_initialized_partitions_are_assigned(self) -> None:
        group = self.driver.shard.share.find(QUEUE)
        for member in () if group is None else group.members.values():
            assigned = {(topic_id, partition) for topic_id, of in member.assigned.items() for partition in of}
            assert assigned <= self.initialized
            names = {self.driver.coordinator.view.name_of(topic_id) for topic_id in member.assigned}
            assert names <= member.topic_names | {None}

    @invariant()
    def the_log_has_the_whole_group(self) -> None:
        reader = self.driver.restarted()
        assert reader.described() == self.driver.described()
        group, read = self.driver.shard.share.find(QUEUE), reader.shard.share.find(QUEUE)
        if group is not None and read is not None:
            assert group.target == read.target
            assert group.known_partitions[:3] == read.known_partitions[:3]
            assert group.waits_for_target == read.waits_for_target
            assert group.subscribers == read.subscribers
        reader.coordinator.runtime.unload(0, reader.now_ms)
        self.driver.topic.runtime = self.driver.coordinator.runtime


TestShareGroupModel = ShareGroupModel.TestCase
TestShareGroupModel.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
