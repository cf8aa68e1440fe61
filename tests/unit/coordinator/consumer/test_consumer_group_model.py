"""Members of both protocols join, follow, leave, fall silent and change the protocol in random order, while topics
change, the coordinator is replaced, its log fails and its replicas lag.

At every moment: a partition belongs to one member, epochs never go back, and a member owns only what it was given. When
all members heartbeat, each reaches its target. A coordinator that reads the log, compacted in any way, is equal.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from barnabas.common.errors import ErrorCode
from barnabas.coordinator.group import large_target
from barnabas.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.group.consumer_protocol import write_assignment
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig, MigrationPolicy
from barnabas.coordinator.group.member_timers import TimerKind
from tests.unit.coordinator import kafka_replay
from tests.unit.coordinator.consumer_group_driver import ClassicConsumer, Consumer, ConsumerGroupDriver
from tests.unit.coordinator.group_driver import GROUP
from tests.unit.coordinator.memory_log import MemoryLog
from tests.unit.coordinator.test_loading import put

CLIENTS = st.integers(0, 3)
STATIC = (2, 3)
TOPICS = ("orders", "prices")
SUBSCRIPTIONS = st.sampled_from([("orders",), ("orders",), ("prices",), ("orders", "prices"), ()])
START_OVER = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.FENCED_INSTANCE_ID}


class ConsumerGroupModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.epoch = 0
        self.group_epoch = 0
        self.member_epochs: dict[str, int] = {}
        self.processes = 0

    @initialize(
        policy=st.sampled_from([*MigrationPolicy, MigrationPolicy.BIDIRECTIONAL]),
        interval_ms=st.sampled_from([0, 1_000]),
        is_large=st.booleans(),
    )
    def start(self, policy: MigrationPolicy, interval_ms: int, is_large: bool) -> None:
        self.limits = (large_target._SIZE_MAX, large_target._BATCH_PARTITIONS_MAX)
        if is_large:
            large_target._SIZE_MAX, large_target._BATCH_PARTITIONS_MAX = 2, 2
        config = GroupCoordinatorConfig(
            group_initial_rebalance_delay_ms=0,
            offsets_topic_num_partitions=1,
            group_consumer_migration_policy=policy,
            group_consumer_assignment_interval_ms=interval_ms,
            group_consumer_max_size=6,
        )
        self.driver = ConsumerGroupDriver(config)
        self.driver.load()
        self.driver.metadata.create_topic("orders", 3)
        self.driver.metadata.create_topic("prices", 2)
        self.consumers = [self.new_consumer(index) for index in range(4)]
        self.classics = [self.new_classic(index) for index in range(4)]

    def new_consumer(self, index: int) -> Consumer:
        self.processes += 1
        return Consumer(self.driver, f"m{index}-{self.processes}", instance=f"i{index}" if index in STATIC else None)

    def new_classic(self, index: int) -> ClassicConsumer:
        return ClassicConsumer(self.driver, instance=f"i{index}" if index in STATIC else None)

    # -- members of the consumer protocol

    @rule(index=CLIENTS, topics=SUBSCRIPTIONS)
    def join(self, index: int, topics: tuple[str, ...]) -> None:
        member = self.consumers[index]
        member.topics, member.owned = list(topics), {}
        self.sent(index, member.send(member.request(epoch=0, is_full=True, owned={})))

    @rule(index=CLIENTS)
    def beat(self, index: int) -> None:
        member = self.consumers[index]
        if member.epoch > 0:
            self.sent(index, member.send(member.request(epoch=member.epoch, owned=self.known(member))))

    @rule(index=CLIENTS)
    def beat_and_lose_the_answer(self, index: int) -> None:
        member = self.consumers[index]
        if member.epoch > 0:
            member.send(member.request(epoch=member.epoch, owned=self.known(member)))

    @rule(index=CLIENTS, topics=SUBSCRIPTIONS)
    def change(self, index: int, topics: tuple[str, ...]) -> None:
        member = self.consumers[index]
        if member.epoch > 0:
            member.topics = list(topics)
            self.sent(index, member.send(member.request(epoch=member.epoch, is_full=True, owned=self.known(member))))

    @rule(index=CLIENTS, is_static=st.booleans())
    def leave(self, index: int, is_static: bool) -> None:
        member = self.consumers[index]
        if member.epoch > 0:
            epoch = -2 if is_static and member.instance is not None else -1
            answer = member.send(member.request(epoch=epoch))
            if answer.is_complete and answer.value.error_code == ErrorCode.NONE:
                self.consumers[index] = self.new_consumer(index)

    @rule(index=CLIENTS)
    def crash(self, index: int) -> None:
        self.consumers[index] = self.new_consumer(index)
        self.classics[index] = self.new_classic(index)

    def known(self, member: Consumer) -> dict[str, set[int]]:
        """Return what it owns, without topics that were deleted."""
        return {topic: found for topic, found in member.owned.items() if self.driver.metadata.view.topic(topic)}

    def sent(self, index: int, answer: Any) -> None:
        """An answer that waits for replicas is lost: its connection ends."""
        if not answer.is_complete:
            return
        self.consumers[index].received(answer.value)
        if answer.value.error_code == ErrorCode.FENCED_INSTANCE_ID:
            self.consumers[index] = self.new_consumer(index)

    # -- members of the classic protocol

    @rule(index=CLIENTS)
    def classic_join(self, index: int) -> None:
        member = self.classics[index]
        if member.joining is None:
            member.send_join()
            self.receive_joins()
            self.epochs_never_go_back()  # They begin anew if an empty group has become classic.

    @rule()
    def all_classic_members_join(self) -> None:
        for index, member in enumerate(self.classics):
            if member.epoch >= 0:
                self.classic_join(index)

    @rule(index=CLIENTS)
    def classic_sync(self, index: int) -> None:
        member = self.classics[index]
        if member.epoch < 0 or member.joining is not None:
            return
        count = self.driver.metadata.view.partition_count(self.driver.metadata.id_of("orders"))
        led = member.led
        shares = {
            found: write_assignment({"orders": range(number, count, len(led))}, member.subscription())
            for number, found in enumerate(led)
        }
        answer = self.driver.sync(
            member.member_id, member.epoch, shares, instance=member.instance, protocol_name=member.protocol
        )
        if answer.is_complete and answer.value.error_code in START_OVER:
            self.classics[index] = self.new_classic(index)

    @rule(index=CLIENTS)
    def classic_heartbeat(self, index: int) -> None:
        member = self.classics[index]
        if member.epoch >= 0 and self.driver.topic.auto_commit and member.heartbeat() in START_OVER:
            self.classics[index] = self.new_classic(index)

    @rule(index=CLIENTS)
    def classic_leave(self, index: int) -> None:
        member = self.classics[index]
        if member.member_id:
            self.driver.leave((member.member_id, member.instance))
            self.classics[index] = self.new_classic(index)

    def receive_joins(self) -> None:
        for index, member in enumerate(self.classics):
            if member.joining is not None and member.joining.is_complete:
                response, member.joining = member.joining.value, None
                if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                    member.member_id = response.member_id
                elif member.joined(response) in START_OVER:
                    self.classics[index] = self.new_classic(index)
                member.led = [found.member_id for found in response.members]

    # -- members of both

    @rule(consumers=st.sets(CLIENTS, max_size=2), classics=st.sets(CLIENTS, max_size=3))
    def some_join(self, consumers: set[int], classics: set[int]) -> None:
        """Let several join, so that groups with members of both protocols are frequent enough."""
        for index in sorted(classics - consumers):
            self.classic_join(index)
            self.classic_join(index)  # Dynamic members join with the id that they received.
        self.all_follow()
        for index in sorted(consumers):
            self.join(index, ("orders",))
        self.all_follow()

    @rule()
    def all_follow(self) -> None:
        self.driver.advance(1_000)
        for index, member in enumerate(self.classics):
            self.beat(index)
            if member.epoch >= 0 and member.joining is None and self.driver.topic.auto_commit:
                code = member.heartbeat()
                if code == ErrorCode.REBALANCE_IN_PROGRESS:
                    self.classic_join(index)
        self.receive_joins()
        for index in sorted(range(4), key=lambda index: bool(self.classics[index].led)):
            self.classic_sync(index)  # The leader is the last.

    # -- events

    @rule()
    def a_topic_grows(self) -> None:
        count = self.driver.metadata.view.partition_count(self.driver.metadata.id_of("orders"))
        if count < 6:
            self.driver.metadata.add_partitions("orders", count + 1)

    @rule(partitions=st.integers(1, 3))
    def a_topic_is_created_anew(self, partitions: int) -> None:
        self.driver.metadata.delete_topic("prices")
        self.driver.metadata.create_topic("prices", partitions)
        for member in self.consumers:
            member.owned.pop("prices", None)

    @rule(by_ms=st.sampled_from([100, 1_000, 5_000, 31_000, 50_000]))
    def time_passes(self, by_ms: int) -> None:
        self.driver.advance(by_ms)
        self.receive_joins()

    @rule(code=st.sampled_from([ErrorCode.NOT_ENOUGH_REPLICAS, None, None]))
    def the_log_fails_or_works_again(self, code: ErrorCode | None) -> None:
        self.driver.topic.refuse_with = code

    @rule()
    def replicas_lag(self) -> None:
        self.driver.topic.auto_commit = False

    @rule()
    def replicas_catch_up(self) -> None:
        self.driver.topic.auto_commit = True
        self.driver.topic.commit(0)
        self.receive_joins()

    @rule()
    def the_coordinator_is_replaced(self) -> None:
        """Waiting classic members have to send their requests again."""
        refuses, self.driver.topic.refuse_with = self.driver.topic.refuse_with, None
        self.epoch += 1
        self.replicas_catch_up()
        self.driver.coordinator.runtime.unload(0, self.driver.now_ms)
        successor = ConsumerGroupDriver(self.driver.config, self.driver.topic, self.driver.metadata)
        successor.now_ms = self.driver.now_ms
        successor.load(leader_epoch=self.epoch)
        self.driver = successor
        for consumer in self.consumers:
            consumer.driver = successor
        for classic in self.classics:
            classic.driver, classic.joining = successor, None
        self.driver.topic.refuse_with = refuses

    # -- what holds

    def group(self) -> ConsumerGroup | None:
        found = self.driver.shard.groups.find(GROUP)
        return found if isinstance(found, ConsumerGroup) else None

    @invariant()
    def a_partition_belongs_to_one_member(self) -> None:
        group = self.group()
        owners: dict[tuple[bytes, int], str] = {}
        for member in () if group is None else group.members.values():
            for partitions in (member.assigned, member.pending_revocation):
                for topic_id, of_topic in partitions.items():
                    for partition in of_topic:
                        other = owners.setdefault((topic_id, partition), member.member_id)
                        assert other == member.member_id, f"{partition} belongs to {other} and {member.member_id}"

    @invariant()
    def a_partition_is_the_target_of_one_member(self) -> None:
        group = self.group()
        targets: dict[tuple[bytes, int], str] = {}
        for member_id, target in () if group is None else group.target.items():
            for topic_id, of_topic in target.items():
                for partition in of_topic:
                    other = targets.setdefault((topic_id, partition), member_id)
                    assert other == member_id, f"{partition} is the target of {other} and {member_id}"

    @invariant()
    def a_member_owns_only_what_it_was_given(self) -> None:
        group = self.group()
        for client in self.consumers if group is not None else ():
            assert group is not None
            member = group.members.get(client.member_id)
            if member is None or client.epoch != member.member_epoch:
                continue
            for topic, owned in self.known(client).items():
                topic_id = self.driver.metadata.id_of(topic)
                given = {*member.assigned.get(topic_id, ()), *member.pending_revocation.get(topic_id, ())}
                assert owned <= given, f"{client.member_id} owns {owned} of {topic}, and was given {given}"

    @invariant()
    def epochs_never_go_back(self) -> None:
        group = self.group()
        if group is None:
            self.group_epoch, self.member_epochs = 0, {}
            return
        assert group.epoch >= self.group_epoch
        assert group.assignment_epoch <= group.epoch
        epochs = {}
        for member in group.members.values():
            assert member.member_epoch <= group.epoch
            before = self.member_epochs.get(member.member_id, 0)
            if member.member_epoch > 0:
                assert member.member_epoch >= before
                epochs[member.member_id] = member.member_epoch
        self.group_epoch, self.member_epochs = group.epoch, epochs

    @invariant()
    def every_member_can_expire(self) -> None:
        group = self.group()
        for member_id in () if group is None else group.members:
            timers = self.driver.shard.consumer.changes.timers
            assert any(timers.is_scheduled(GROUP, member_id, kind) for kind in TimerKind), f"{member_id} stays forever"

    @rule()
    def all_members_reach_their_target(self) -> None:
        """Only members of the consumer protocol remain; all of them heartbeat."""
        self.driver.topic.refuse_with = None
        self.replicas_catch_up()
        group = self.group()
        if group is None:
            return
        members = [client for client in self.consumers if self.is_alive(client)]
        if not members:
            return
        alive = {client.member_id for client in members}
        for member in list(group.members.values()):
            if member.member_id not in alive:
                self.driver.leave((member.member_id, member.instance_id))
        self.driver.settle(*members, rounds=20)
        group = self.group()
        assert group is not None
        assert group.state_name == "Stable", f"epochs {group.epoch}, {group.assignment_epoch}: {group.members}"
        wanted = {
            (topic, partition)
            for client in members
            for topic in client.topics or ()
            for partition in range(self.driver.metadata.view.partition_count(self.driver.metadata.id_of(topic)))
        }
        assert set(self.driver.owners(*members)) == wanted, f"{self.driver.owners(*members)}, not {wanted}"
        self.group_epoch = group.epoch
        self.member_epochs = {}

    def is_alive(self, client: Consumer) -> bool:
        """Let the member send all that it knows: its last request may have been lost, or itself fenced."""
        client.owned = self.known(client)
        return client.epoch > 0 and client.change().error_code == ErrorCode.NONE

    def teardown(self) -> None:
        if not hasattr(self, "driver"):
            return
        large_target._SIZE_MAX, large_target._BATCH_PARTITIONS_MAX = self.limits
        self.driver.topic.refuse_with = None
        self.replicas_catch_up()
        kafka_replay.check(self.driver.records())
        self.check_loaded(self.driver.topic.log(0))
        records = self.driver.topic.log(0).records()
        for end in (len(records) // 3, len(records) // 2, len(records)):
            for drops_tombstones in (False, True):
                self.check_loaded(compacted(records, end, drops_tombstones=drops_tombstones))

    def check_loaded(self, log: MemoryLog) -> None:
        reader = ConsumerGroupDriver(self.driver.config, None, self.driver.metadata)
        reader.metadata.coordinators = [self.driver.coordinator]
        reader.topic.logs[0] = log
        reader.load()
        found, expected = reader.shard.groups.find(GROUP), self.driver.shard.groups.find(GROUP)
        if isinstance(expected, ConsumerGroup):
            assert described(reader) == described(self.driver)
            assert isinstance(found, ConsumerGroup)
            assert found.metadata_hash == expected.metadata_hash
            assert found.subscribers == expected.subscribers
        elif isinstance(expected, ClassicGroup) and expected.state_name == "Stable":
            assert reader.describe() == self.driver.describe()


def described(driver: ConsumerGroupDriver) -> Any:
    """Return the description of the group, with its members in the order of their ids."""
    group = driver.describe_consumers()
    group.members = sorted(group.members, key=lambda member: member.member_id)
    return group


def compacted(records: list[tuple[bytes | None, bytes | None]], end: int, *, drops_tombstones: bool) -> MemoryLog:
    """Return the log as the cleaner leaves it when it has cleaned the records before ``end``."""
    last = {key: number for number, (key, _) in enumerate(records[:end])}
    log = MemoryLog()
    for number, (key, value) in enumerate(records):
        is_kept = number >= end or (last[key] == number and not (drops_tombstones and value is None))
        if is_kept and key is not None:
            put(log, key, value)
    return log


TestConsumerGroupModel = ConsumerGroupModel.TestCase
TestConsumerGroupModel.settings = settings(max_examples=60, stateful_step_count=60)
