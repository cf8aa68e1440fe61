"""Members of consumer groups: they join, share partitions, commit offsets, and join again after an error.

A member continues from the offset that it fetches and commits only greater ones, so no offset ever decreases.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

from barnabas.clients.errors import ClientError
from barnabas.common.errors import ErrorCode
from barnabas.coordinator.partitioner import coordinator_partition
from barnabas.protocol.messages import heartbeat, join_group, leave_group, offset_commit, offset_fetch, sync_group
from tests.simulation.cluster.broker_data import OFFSETS_PARTITIONS
from tests.simulation.cluster.client_process import ClientProcess
from tests.simulation.cluster.clients import create_topic
from tests.simulation.cluster.share_shape import SHARE_STATE_TOPIC
from tests.simulation.cluster.transaction_shape import TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from barnabas.metadata.image.partition_registration import PartitionRegistration
    from tests.simulation.cluster.node import SimulatedNode
    from tests.simulation.cluster.world import World

__all__ = ["GROUP_TOPIC", "OFFSETS_TOPIC", "Consumer", "start_consumers", "unsettled_consumers"]

OFFSETS_TOPIC = "__consumer_offsets"
GROUP_TOPIC = "data"
HEARTBEAT_S = 0.3
SESSION_MS = 1500
REBALANCE_MS = 2500
PAUSE_S = 0.1
FORGETS = 0.3


class _Rejoin(Exception):
    """The member must join again, or look for its coordinator."""


class Consumer:
    """A member of a group; ``is_settled`` while it has an assignment and its last heartbeat succeeded."""

    def __init__(self, world: World, group: str, number: int) -> None:
        self.world = world
        self.group = group
        self.name = f"member {number} of {group}"
        self.member_id = ""
        self.generation = -1
        self.partitions: list[int] = []
        self.is_settled = False
        self._process = ClientProcess(world, number)
        self._draw = random.Random(f"consumer {world.seed} {group} {number}")
        self._positions: dict[int, int] = {}
        self._coordinator = -1
        """A broker ID. Like a real client, the member keeps its coordinator until a request to it fails."""

    async def run(self) -> None:
        while True:
            try:
                await self._join()
                await self._read()
            except (_Rejoin, ClientError) as reason:
                self.world.say(f"{self.name}: {type(reason).__name__} {reason}")
                if isinstance(reason, ClientError) and self._draw.random() < FORGETS:
                    self.member_id = ""  # The member was restarted, and the group must detect it.
            self.is_settled = False
            self._coordinator = -1
            await asyncio.sleep(self._draw.uniform(0.5, 1.5) * PAUSE_S)

    # --- requests to the coordinator

    def _find_coordinator(self) -> int:
        """Return the coordinator that a random live broker knows, possibly outdated."""
        brokers = [node for node in self.world.nodes.values() if node.is_broker and node.is_up]
        if not brokers:
            raise _Rejoin("all brokers are down")
        registration = self._registration_known_by(self._draw.choice(brokers))
        if registration is None:
            raise _Rejoin("the offsets topic does not exist yet")
        if registration.leader < 0:
            raise _Rejoin("the group has no coordinator")
        return registration.leader

    def _registration_known_by(self, node: SimulatedNode) -> PartitionRegistration | None:
        topic = node.loader.image.topics.by_name.get(OFFSETS_TOPIC)
        if topic is None:
            return None
        return topic.partitions[coordinator_partition(self.group, len(topic.partitions))]

    async def _request(self, request: Any) -> Any:
        if self._coordinator < 0:
            self._coordinator = self._find_coordinator()
        return await self._process.request(self._coordinator, request)

    async def _heartbeat(self) -> Any:
        """Send a heartbeat; check that a broker refuses it once its image names another leader for the partition."""
        coordinator = self.world.nodes.get(self._coordinator)
        known = self._registration_known_by(coordinator) if coordinator is not None and coordinator.is_up else None
        request = heartbeat.HeartbeatRequest(
            group_id=self.group, generation_id=self.generation, member_id=self.member_id
        )
        response = await self._request(request)
        # The broker may have become the leader while the heartbeat was on its way.
        if coordinator is not None and known is not None and known == self._registration_known_by(coordinator):
            self.world.checks.groups.heartbeat_answered(self.group, coordinator.id, known.leader, response.error_code)
        return response

    def _check(self, response: Any) -> None:
        if response.error_code != ErrorCode.NONE:
            code = ErrorCode(response.error_code)
            if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                self.member_id = ""
            raise _Rejoin(code.name)

    # --- membership

    async def _join(self) -> None:
        moment = self.world.checks.groups.moment(self.group)
        protocol = join_group.JoinGroupRequestProtocol(name="simulated", metadata=b"")
        request = join_group.JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[protocol],
        )
        joined = await self._request(request)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
        self._check(joined)
        self.member_id, self.generation = joined.member_id, joined.generation_id
        assignments = self._assign(joined) if joined.leader == self.member_id else []
        synced = await self._request(
            sync_group.SyncGroupRequest(
                group_id=self.group,
                generation_id=self.generation,
                member_id=self.member_id,
                protocol_type="consumer",
                protocol_name="simulated",
                assignments=assignments,
            )
        )
        self._check(synced)
        self.partitions = list(bytes(synced.assignment))
        self.world.checks.groups.assigned(self.group, self.generation, self.member_id, self.partitions, moment)

    def _assign(self, joined: Any) -> list[Any]:
        members = sorted(member.member_id for member in joined.members)
        count = self.world.shape.data_partitions
        return [
            sync_group.SyncGroupRequestAssignment(member_id=member, assignment=bytes(range(index, count, len(members))))
            for index, member in enumerate(members)
        ]

    async def _read(self) -> None:
        await self._fetch()
        while True:
            await asyncio.sleep(HEARTBEAT_S * self._draw.uniform(0.7, 1.3))
            response = await self._heartbeat()
            if response.error_code == ErrorCode.REBALANCE_IN_PROGRESS and self._draw.random() < 0.5:
                await self._commit()
            self._check(response)
            self.is_settled = True
            await self._commit()
            if self._draw.random() < 0.02 and not self.world.is_healed:
                await self._leave()

    async def _leave(self) -> None:
        member_id, self.member_id = self.member_id, ""
        members = [leave_group.MemberIdentity(member_id=member_id)]
        await self._request(leave_group.LeaveGroupRequest(group_id=self.group, members=members))
        raise _Rejoin("left")

    # --- offsets

    async def _fetch(self) -> None:
        if not self.partitions:
            return
        checks = self.world.checks.groups
        floor = checks.floor(self.group, self.partitions)
        topic = offset_fetch.OffsetFetchRequestTopics(name=GROUP_TOPIC, partition_indexes=self.partitions)
        topic.topic_id = self._topic_id()
        group = offset_fetch.OffsetFetchRequestGroup(group_id=self.group, topics=[topic])
        answer = (await self._request(offset_fetch.OffsetFetchRequest(groups=[group]))).groups[0]
        self._check(answer)
        found = {}
        for partition in answer.topics[0].partitions:
            self._check(partition)
            found[partition.partition_index] = partition.committed_offset
        checks.fetched(self.group, found, floor)
        self._positions = found

    def _topic_id(self) -> Any:
        for id_, (name, _) in self.world.checks.model.now["topics"].items():
            if name == GROUP_TOPIC:
                return id_
        raise _Rejoin("the topic does not exist yet")

    async def _commit(self) -> None:
        """Commit offsets that are some records greater than before."""
        if not self.partitions:
            return
        checks = self.world.checks.groups
        moment = checks.moment(self.group)
        generation = self.generation
        self._positions = {number: at + self._draw.randrange(1, 9) for number, at in self._positions.items()}
        offsets = dict(self._positions)
        for number, offset in offsets.items():
            checks.sent.setdefault((self.group, number), set()).add(offset)
        topic = offset_commit.OffsetCommitRequestTopic(
            name=GROUP_TOPIC,
            topic_id=self._topic_id(),
            partitions=[
                offset_commit.OffsetCommitRequestPartition(partition_index=number, committed_offset=offset)
                for number, offset in offsets.items()
            ],
        )
        request = offset_commit.OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=generation,
            member_id=self.member_id,
            topics=[topic],
        )
        answer = await self._request(request)
        failed = [partition for partition in answer.topics[0].partitions if partition.error_code]
        if not failed:
            checks.committed(self.group, generation, offsets, moment)
            return
        self._check(failed[0])


# --- all members


def start_consumers(world: World) -> list[Consumer]:
    """Start all members. Call this outside the context of any node, because clients outlive every node."""
    consumers = [Consumer(world, group, number) for group, count in world.shape.groups for number in range(count)]
    if consumers:
        world.loop.create_task(_create_topics(world))
    for consumer in consumers:
        world.loop.create_task(consumer.run())
    return consumers


async def _create_topics(world: World) -> None:
    """Request the topics through random brokers until they exist."""
    draw = random.Random(f"topics {world.seed}")
    counts = {OFFSETS_TOPIC: OFFSETS_PARTITIONS, GROUP_TOPIC: world.shape.data_partitions}
    if world.shape.transactions is not None:
        counts[TRANSACTIONS_TOPIC] = world.shape.transactions.partitions
    if world.shape.share_groups is not None:
        counts[SHARE_STATE_TOPIC] = world.shape.share_groups.state_partitions
    while counts:
        for name in [name for name, _ in world.checks.model.now["topics"].values() if name in counts]:
            del counts[name]
        up = [node for node in world.nodes.values() if node.is_broker and node.is_up]
        for name, partitions in counts.items() if up else ():
            create_topic(world, draw.choice(up), name, partitions)
        await asyncio.sleep(0.5)


def unsettled_consumers(world: World, consumers: list[Consumer]) -> str | None:
    """Return a problem unless every member is settled and every partition has a member, as required at the end."""
    wanted = list(range(world.shape.data_partitions))
    for group, _ in world.shape.groups:
        members = [consumer for consumer in consumers if consumer.group == group]
        for member in members:
            if not member.is_settled:
                return f"{member.name} is not settled"
        found = sorted(partition for member in members for partition in member.partitions)
        if found != wanted:
            return f"the members of {group} have the partitions {found}"
    return None
