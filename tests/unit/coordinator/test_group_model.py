"""Members join, sync, leave, fall silent and restart in random order, while the coordinator is replaced.

At every moment: a generation has one leader, an assignment comes from the leader of its generation, an instance id
names one member, every waiting request is answered in the end, and every acknowledged change survives.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from barnabas.common.errors import ErrorCode
from barnabas.coordinator.deferred import Deferred
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from barnabas.coordinator.group.group_state import GroupState
from barnabas.protocol.messages.join_group import JoinGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupResponse
from tests.unit.coordinator.group_driver import GROUP, GroupDriver, subscription

CLIENTS = st.integers(0, 4)
STATIC_FROM = 3
"""Clients 3 and 4 are static members."""

PROTOCOLS = {"range": subscription("orders"), "sticky": subscription("orders")}
START_OVER = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}


class Client:
    """A consumer, reduced to group membership; it follows the protocol."""

    def __init__(self, index: int) -> None:
        self.instance = f"i-{index}" if index >= STATIC_FROM else None
        self.member_id = ""
        self.generation = -1
        self.members: list[str] | None = None
        """The identities that receive an assignment when it leads its generation."""
        self.ids: dict[str, str] = {}
        self.protocol: str | None = None
        self.joining: Deferred[JoinGroupResponse] | None = None
        self.syncing: Deferred[SyncGroupResponse] | None = None
        self.prefers_sticky = index % 2 == 1

    def forget(self) -> None:
        self.member_id, self.generation, self.members, self.protocol = "", -1, None, None

    def identity(self) -> str:
        return self.instance or self.member_id


class GroupModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        config = GroupCoordinatorConfig(
            group_initial_rebalance_delay_ms=1_000, group_max_size=4, offsets_topic_num_partitions=1
        )
        self.group = GroupDriver(config).load()
        self.clients = [Client(index) for index in range(5)]
        self.leaders: dict[int, str] = {}
        self.protocols: dict[int, str | None] = {}
        self.acknowledged: dict[int, int] = {}
        self.epoch = 0

    # -- actions of clients

    @rule(index=CLIENTS)
    def join(self, index: int) -> None:
        client = self.clients[index]
        if client.joining is not None or client.syncing is not None:
            return
        ordered = dict(reversed(PROTOCOLS.items())) if client.prefers_sticky else PROTOCOLS
        client.joining = self.group.join(
            client.member_id, instance=client.instance, protocols=ordered, rebalance_ms=20_000
        )
        self.receive_answers()

    @rule(indexes=st.sets(CLIENTS, min_size=2), settles=st.booleans())
    def rally(self, indexes: set[int], settles: bool) -> None:
        """Let several join one generation, so that generations with followers are frequent enough."""
        for index in sorted(indexes):
            self.join(index)
            self.join(index)  # Dynamic members rejoin with the id that they received.
        for index in range(5):
            client = self.clients[index]
            if client.generation >= 0 and self.group.heartbeat(client.member_id, client.generation) != ErrorCode.NONE:
                self.join(index)
        self.group.advance(1_000)
        self.group.advance(1_000)
        self.receive_answers()
        if settles:
            self.all_sync()

    @rule()
    def followers_sync(self) -> None:
        for index, client in enumerate(self.clients):
            if client.members is None:
                self.sync(index)

    @rule()
    def all_sync(self) -> None:
        self.followers_sync()
        for index in range(5):
            self.sync(index)

    @rule(index=CLIENTS)
    def an_admin_removes(self, index: int) -> None:
        """Remove a member in any state, with a preference for one that waits."""
        waiting = [client for client in self.clients if client.syncing is not None or client.joining is not None]
        client = waiting[index % len(waiting)] if waiting else self.clients[index]
        self.group.leave(("" if client.instance else client.member_id, client.instance))
        self.receive_answers()

    @rule(index=CLIENTS)
    def change_preference(self, index: int) -> None:
        self.clients[index].prefers_sticky = not self.clients[index].prefers_sticky

    @rule(index=CLIENTS)
    def sync(self, index: int) -> None:
        client = self.clients[index]
        if client.generation < 0 or client.syncing is not None or client.joining is not None:
            return
        assignments = {
            client.ids[identity]: f"{client.generation}|{identity}".encode() for identity in client.members or ()
        }
        client.syncing = self.group.sync(
            client.member_id,
            client.generation,
            assignments,
            instance=client.instance,
            protocol_name=client.protocol,
        )
        self.receive_answers()

    @rule(index=CLIENTS)
    def heartbeat(self, index: int) -> None:
        client = self.clients[index]
        if client.generation >= 0:
            code = self.group.heartbeat(client.member_id, client.generation, instance=client.instance)
            if code in START_OVER:
                client.forget()

    @rule(index=CLIENTS)
    def leave(self, index: int) -> None:
        client = self.clients[index]
        if client.member_id and client.joining is None and client.syncing is None:
            self.group.leave((client.member_id, client.instance))
            client.forget()
            self.receive_answers()

    @rule(index=CLIENTS)
    def crash_and_start_again(self, index: int) -> None:
        client = self.clients[index]
        client.forget()
        client.joining = client.syncing = None

    @rule(index=CLIENTS, partition=st.integers(0, 2), offset=st.integers(0, 100))
    def commit(self, index: int, partition: int, offset: int) -> None:
        client = self.clients[index]
        code = self.group.commit_code(
            offset,
            partition=partition,
            member_id=client.member_id,
            generation=client.generation,
            instance=client.instance if client.generation >= 0 else None,
        )
        if code == ErrorCode.NONE:
            self.acknowledged[partition] = offset

    # -- events of the environment

    @rule(by_ms=st.sampled_from([100, 1_000, 4_000]))
    def time_passes(self, by_ms: int) -> None:
        for index in range(5):
            self.heartbeat(index)
        self.silence(by_ms)

    @rule(by_ms=st.sampled_from([9_999, 25_000]))
    def silence(self, by_ms: int) -> None:
        self.group.advance(by_ms)
        self.receive_answers()

    @rule()
    def the_coordinator_is_replaced(self) -> None:
        """Waiting members have to send their requests again; uncommitted generations may be used again."""
        self.epoch += 1
        successor = GroupDriver(self.group.coordinator.config, self.group.topic)
        successor.now_ms = self.group.now_ms
        self.group = successor.load(leader_epoch=self.epoch)
        group = self.group.shard.classic.find(GROUP)
        committed = -1 if group is None else group.generation_id
        for client in self.clients:
            client.joining = client.syncing = None
            if client.generation > committed:
                client.forget()
        self.leaders = {number: leader for number, leader in self.leaders.items() if number <= committed}
        self.protocols = {number: name for number, name in self.protocols.items() if number <= committed}

    @rule(code=st.sampled_from([ErrorCode.NOT_ENOUGH_REPLICAS, None]))
    def the_log_fails_or_works_again(self, code: ErrorCode | None) -> None:
        self.group.topic.refuse_with = code

    # -- receiving responses

    def receive_answers(self) -> None:
        for client in self.clients:
            if client.joining is not None and client.joining.is_complete:
                answer, client.joining = client.joining.value, None
                self.joined(client, answer)
            if client.syncing is not None and client.syncing.is_complete:
                answered, client.syncing = client.syncing.value, None
                self.synced(client, answered)

    def joined(self, client: Client, answer: JoinGroupResponse) -> None:
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = answer.member_id
            return
        if answer.error_code != ErrorCode.NONE:
            if answer.error_code in START_OVER:
                client.forget()
            return
        client.member_id, client.generation = answer.member_id, answer.generation_id
        client.protocol = answer.protocol_name
        client.members = None
        if answer.leader == answer.member_id:
            leader = self.leaders.setdefault(answer.generation_id, client.identity())
            assert leader == client.identity(), "two leaders in one generation"
            if answer.members:
                client.ids = {
                    member.group_instance_id or member.member_id: member.member_id for member in answer.members
                }
                client.members = None if answer.skip_assignment else list(client.ids)
                assert len(client.ids) == len(answer.members), "an instance id names two members"
        else:
            assert answer.members == [], "a follower was shown the members"
        protocol = self.protocols.setdefault(answer.generation_id, answer.protocol_name)
        assert protocol == answer.protocol_name, "two protocols in one generation"

    def synced(self, client: Client, answer: SyncGroupResponse) -> None:
        if answer.error_code == ErrorCode.NONE:
            expected = f"{client.generation}|{client.identity()}".encode()
            assert answer.assignment in (expected, b""), "an assignment that its leader did not make"
        elif answer.error_code in START_OVER:
            client.forget()

    # -- invariants

    @invariant()
    def the_group_is_consistent(self) -> None:
        group = self.group.shard.classic.find(GROUP)
        if group is None:
            return
        members = group.members
        parked_joins = [member for member in members.values() if member.awaiting_join is not None]
        parked_syncs = [member for member in members.values() if member.awaiting_sync is not None]
        assert group.awaiting_join_count == len(parked_joins)
        assert not parked_joins or group.state in (GroupState.PREPARING_REBALANCE, GroupState.STABLE)
        assert not parked_syncs or group.state is GroupState.COMPLETING_REBALANCE
        assert not members.keys() & group.pending_join_members.keys()
        assert group.pending_sync_members <= members.keys()
        assert group.leader_id in members if members else group.leader_id is None
        instances = [member.group_instance_id for member in members.values() if member.group_instance_id is not None]
        assert len(instances) == len(set(instances))
        for member in members.values():
            if member.group_instance_id is not None:
                assert group.static_member_id(member.group_instance_id) == member.member_id
            assert member.session_timer is not None
            if member.may_expire:
                assert member.session_timer.is_scheduled, "a member that could stay forever"
        if group.state is GroupState.EMPTY:
            assert not members
        elif group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            assert members
            assert group.protocol_name is not None
        elif group.state is GroupState.PREPARING_REBALANCE:
            assert group.join_timer is not None
            assert group.join_timer.is_scheduled, "a rebalance that could last forever"
        assert len(parked_joins) <= 4, "more than group.max.size joined"
        for client in self.clients:
            if client.syncing is not None:
                assert any(member.awaiting_sync is client.syncing for member in parked_syncs), "a lost SyncGroup"
            if client.joining is not None:
                assert any(member.awaiting_join is client.joining for member in parked_joins), "a lost JoinGroup"

    @invariant()
    def acknowledged_offsets_are_there(self) -> None:
        for partition, offset in self.acknowledged.items():
            assert self.group.committed(partition) == offset

    def teardown(self) -> None:
        """In the end every request is answered, and a new coordinator knows every acknowledged change."""
        waiting: list[Deferred[JoinGroupResponse] | Deferred[SyncGroupResponse]] = []
        for client in self.clients:
            waiting += [parked for parked in (client.joining, client.syncing) if parked is not None]
        self.group.topic.refuse_with = None
        self.group.advance(1_000_000)
        assert all(parked.is_complete for parked in waiting), "a request was never answered"
        successor = GroupDriver(self.group.coordinator.config, self.group.topic)
        successor.now_ms = self.group.now_ms
        successor.load(leader_epoch=self.epoch + 1)
        for partition, offset in self.acknowledged.items():
            assert successor.committed(partition) == offset


TestGroupModel = GroupModel.TestCase
TestGroupModel.settings = settings(max_examples=60, stateful_step_count=60)
