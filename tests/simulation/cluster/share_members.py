"""Members of share groups (KIP-932): they fetch records, and accept, release, reject, renew or forget them.

A member heartbeats to the coordinator of its group, and has a share session with each leader of its partitions. It
dies, leaves, hangs and returns, with records in its hands. After the faults all members stay, and acknowledge what they
receive, until every record is finished.
"""

from __future__ import annotations

import asyncio
import random
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages import incremental_alter_configs as alter_configs
from barnabas.protocol.record_batch import iter_batches
from tests.simulation.cluster import share_requests as requests
from tests.simulation.cluster.client_process import ClientProcess
from tests.simulation.cluster.clients import alter_config
from tests.simulation.cluster.data_checks import Acknowledged
from tests.simulation.cluster.data_watch import PartitionName
from tests.simulation.cluster.observed_client import Attempt, ObservedClient
from tests.simulation.cluster.producers import DATA_TOPIC, Unavailable, report_end
from tests.simulation.cluster.share_checks import Delivery, SharePartition
from tests.simulation.cluster.share_requests import Acknowledge, Batch
from tests.simulation.cluster.share_session import ShareSession

if TYPE_CHECKING:
    from tests.simulation.cluster.share_shape import ShareMemberShape
    from tests.simulation.cluster.world import World

__all__ = ["ShareMember", "start_share_members", "unsettled_share_members"]

CLIENT_TIMEOUTS_S = (0.5, 2.0)
HEARTBEAT_S = 0.4
PAUSE_S = 0.1
HANGS = 0.01
ENDS = 0.015
DESCRIBES = 0.2
GROUP_RESOURCE = 32
EARLIEST = ("share.auto.offset.reset", "earliest")


class _Ended(Exception):
    """The process has ended."""


class _Said(NamedTuple):
    """What a member has said about a record."""

    partition: SharePartition
    offset: int
    choice: Acknowledge
    delivery: Delivery


class ShareMember:
    def __init__(self, world: World, shape: ShareMemberShape) -> None:
        settings = world.shape.share_groups
        assert settings is not None
        self.world = world
        self.shape = shape
        self.name = shape.name
        self.is_over = False
        self.is_settled = False
        self._settings = settings
        self._checks = world.checks.share_groups
        self._draw = random.Random(f"share {shape.name} {world.seed}")
        self._number = 0
        ends_s = world.plan.faults_end_ms / 1000
        self._dies_s = self._draw.uniform(1.5, ends_s) if shape.number and self._draw.random() < 0.2 else None

    def _begin(self) -> None:
        """Begin a process."""
        self._number += 1
        self.member_id = f"{self.shape.group}-{self.shape.number}-{self._number}"
        timeout_s = self._timeout_s = self._draw.choice(CLIENT_TIMEOUTS_S)
        self._process = ClientProcess(self.world, 0)
        self._client = ObservedClient(self.world, self.shape.group, self._draw, timeout_s, self._decided)
        self._epoch = 0
        self._must_tell = True
        self._assigned: frozenset[SharePartition] = frozenset()
        self._sessions: dict[int, ShareSession] = {}
        self._session_count = 0
        self._held: dict[SharePartition, dict[int, Delivery]] = {}
        self._safe_since_s: float | None = None
        self._unknown_outcomes = 0
        self._next_beat_s = 0.0

    # --- life

    async def run(self) -> None:
        await asyncio.sleep(self._draw.uniform(0.0, 1.0))
        while True:
            self._begin()
            try:
                await self._live()
            except _Ended as reason:
                self.world.say(f"{self.name} {reason}")
            self._end_sessions()
            self.is_settled = False
            if self._is_due_to_die:
                self.is_over = True
                return
            await asyncio.sleep(self._draw.choice((0.05, 0.5, 2.0)))

    def _has_earliest(self) -> bool:
        configs = self.world.checks.model.now["configs"].get((GROUP_RESOURCE, self.shape.group), {})
        return configs.get(EARLIEST[0]) == EARLIEST[1]

    @property
    def _is_due_to_die(self) -> bool:
        return self._dies_s is not None and self.world.loop.now_s >= self._dies_s

    async def _live(self) -> None:
        while True:
            if not self._has_earliest():
                await asyncio.sleep(PAUSE_S)
                continue
            if self.world.loop.now_s >= self._next_beat_s:
                await self._heartbeat()
                self._next_beat_s = self.world.loop.now_s + self._draw.uniform(0.7, 1.3) * HEARTBEAT_S
                if self._draw.random() < DESCRIBES:
                    await self._describe_offsets()
            await asyncio.sleep(self._draw.uniform(0.02, 0.1))
            if self._draw.random() < HANGS and not self.world.is_healed:
                await asyncio.sleep(self._draw.choice((0.5, 3.0)))
            if self._is_due_to_die or (self._draw.random() < ENDS and not self.world.is_healed):
                await self._end()
            await self._consume()

    async def _end(self) -> None:
        if self._draw.random() < 0.5:
            raise _Ended("dies")
        for session in list(self._sessions.values()):
            await self._close_session(session)
        await self._request(requests.heartbeat(self.shape.group, self.member_id, -1, None))
        raise _Ended("leaves")

    # --- the group

    def _decided(self, attempt: Attempt) -> None:
        if attempt.is_given_up:
            self._safe_since_s = None  # It may have moved the member's epoch.

    async def _request(self, request: Any) -> tuple[Attempt | None, Any]:
        try:
            return await self._client.send(request)
        except Unavailable:
            return None, None

    async def _heartbeat(self) -> None:
        is_full, group = self._must_tell or self._epoch == 0, self.shape.group
        request = requests.heartbeat(group, self.member_id, self._epoch, [DATA_TOPIC] if is_full else None)
        attempt, answer = await self._request(request)
        code = None if answer is None else ErrorCode(answer.error_code)
        if attempt is None:
            return
        if code is ErrorCode.NONE:
            self._accepted(attempt, answer)
            return
        self._must_tell, self.is_settled = True, False
        if code in requests.REMOVED:
            self._check_removal(attempt, code)
            self._epoch, self._safe_since_s, self._unknown_outcomes = 0, None, 0
            return
        self._unknown_outcomes += 1
        self._client.forget_coordinator()
        if code is not None and code not in requests.RETRIED:
            self.world.checks.fail(f"{self.name} receives {code.name} for a heartbeat: {answer.error_message}")

    def _accepted(self, attempt: Attempt, answer: Any) -> None:
        if answer.member_epoch < self._epoch and not self._checks.has_lost_group(self.shape.group):
            self.world.checks.fail(f"{self.name} returns from epoch {self._epoch} to {answer.member_epoch}")
        self._epoch, self._must_tell, self._unknown_outcomes = answer.member_epoch, False, 0
        if answer.assignment is not None:
            self._assigned = requests.partitions_of(answer.assignment)
        self._safe_since_s = attempt.decided_s if attempt.is_current else None
        self.is_settled = bool(self._assigned)
        self.world.checks.counts["share group heartbeats"] += 1

    def _check_removal(self, attempt: Attempt, code: ErrorCode | None) -> None:
        """Check that a member is refused only if its session may have expired."""
        since_s, decided_s = self._safe_since_s, attempt.decided_s
        if since_s is None or decided_s is None or not attempt.is_current or self._unknown_outcomes > 1:
            return
        is_young = decided_s < since_s + self._settings.session_ms / 1000 - 0.01
        if code is not None and is_young and not self._checks.has_lost_group(self.shape.group):
            self.world.checks.fail(
                f"{self.name} receives {code.name} in epoch {self._epoch}, but its session has not expired"
            )

    async def _describe_offsets(self) -> None:
        attempt, answer = await self._request(requests.describe_offsets(self.shape.group))
        if attempt is not None and answer is not None and not answer.groups[0].error_code:
            for partition, start in requests.start_offsets(answer).items():
                self._checks.started(self.shape.group, partition, start, attempt)

    # --- sessions

    def _leaders(self) -> dict[int, set[SharePartition]]:
        """Return the assigned partitions by their leaders as a random live broker knows them, possibly outdated."""
        brokers = [node for node in self.world.nodes.values() if node.is_broker and node.is_up]
        topic = self._draw.choice(brokers).loader.image.topics.by_name.get(DATA_TOPIC) if brokers else None
        found: dict[int, set[SharePartition]] = {}
        for partition in sorted(self._assigned):
            registration = topic.partitions.get(partition.partition) if topic is not None else None
            if registration is not None and registration.leader >= 0:
                found.setdefault(registration.leader, set()).add(partition)
        return found

    def _session(self, broker: int) -> ShareSession:
        session = self._sessions.get(broker)
        if session is None or not session.is_open:
            self._session_count += 1
            connection_id = f"{self.member_id}-{self._session_count}"
            session = self._sessions[broker] = ShareSession(
                self.world, self._process, broker, connection_id, self._draw, self._timeout_s
            )
        return session

    def _lose(self, session: ShareSession) -> None:
        """Note that a session has ended: the broker releases its records, soon or when their locks end."""
        session.close()
        if self._sessions.get(session.broker) is session:
            del self._sessions[session.broker]
        self._give_up(session)

    def _give_up(self, session: ShareSession) -> None:
        for partition in session.partitions:
            for delivery in self._held.pop(partition, {}).values():
                delivery.is_held = delivery.is_timed_out_only = False

    def _end_sessions(self) -> None:
        for session in list(self._sessions.values()):
            self._lose(session)

    async def _close_session(self, session: ShareSession) -> None:
        self._give_up(session)
        if session.epoch:
            final = requests.acknowledge(self.shape.group, self.member_id, requests.FINAL_EPOCH, {})
            await session.send(final)
        self._lose(session)

    # --- records

    async def _consume(self) -> None:
        leaders = self._leaders()
        for broker in [broker for broker in self._sessions if broker not in leaders]:
            await self._close_session(self._sessions[broker])
        for broker, partitions in leaders.items():
            session = self._session(broker)
            await self._fetch(session, partitions)
            if session.is_open and self._draw.random() < 0.5:
                await self._acknowledge(session)

    async def _fetch(self, session: ShareSession, partitions: set[SharePartition]) -> None:
        acknowledged = self._decide(session) if session.epoch and self._draw.random() < 0.5 else {}
        if any(Acknowledge.RENEW in batch.types for found in acknowledged.values() for batch in found):
            await self._send_acknowledgements(session, acknowledged)
            return
        added, forgotten = partitions - session.partitions, session.partitions - partitions
        for partition in forgotten:
            for delivery in self._held.get(partition, {}).values():
                delivery.is_timed_out_only = False
        request = requests.fetch(
            self.shape.group,
            self.member_id,
            session.epoch,
            added=added,
            forgotten=forgotten if session.epoch else (),
            acknowledged=acknowledged,
            max_records=self._draw.choice((1, 3, 10, 500)),
            is_strict=self.shape.is_strict,
        )
        session.partitions |= partitions
        said = self._say(acknowledged)
        attempt, answer = await session.send(request)
        if answer is None:
            self._checks.given_up(self.shape.group, session.partitions)
            self._outcome(said, None)
            self._lose(session)
            return
        if answer.error_code:
            self._outcome(said, None)
            self._failed(session, ErrorCode(answer.error_code), answer.error_message)
            return
        session.epoch += 1
        session.partitions = set(partitions)
        outcomes = dict.fromkeys(acknowledged, ErrorCode.NONE)
        for topic in answer.responses:
            for found in topic.partitions:
                partition = SharePartition(topic.topic_id, found.partition_index)
                if partition in outcomes:
                    outcomes[partition] = ErrorCode(found.acknowledge_error_code)
                self._check_error(ErrorCode(found.error_code), found.error_message)
                if found.acquired_records:
                    self._received(session, partition, found, attempt)
        self._outcome(said, outcomes, session, attempt)

    def _failed(self, session: ShareSession, code: ErrorCode, message: str | None) -> None:
        if code not in requests.SESSION_LOST:
            self.world.checks.fail(f"{self.name} receives {code.name} for its share session: {message}")
        self._lose(session)

    def _check_error(self, code: ErrorCode, message: str | None) -> None:
        if code is not ErrorCode.NONE and code not in requests.UNDONE:
            self.world.checks.fail(f"{self.name} receives {code.name} for a partition: {message}")

    def _received(self, session: ShareSession, partition: SharePartition, found: Any, attempt: Attempt) -> None:
        name = PartitionName(DATA_TOPIC, partition.partition)
        values = {
            record.offset: bytes(record.value or b"")
            for batch in iter_batches(bytes(found.records or b""))
            for record in batch.records()
        }
        held = self._held.setdefault(partition, {})
        records = []
        for acquired in found.acquired_records:
            for offset in range(acquired.first_offset, acquired.last_offset + 1):
                if offset not in values:
                    self.world.checks.fail(f"{self.name} acquires {offset} of {name}, but does not receive it")
                    continue
                lock_s, at = self._settings.lock_ms / 1000, session.leadership_of(partition)
                delivery = held[offset] = Delivery(self.name, acquired.delivery_count, attempt, at, lock_s)
                self._checks.delivered(self.shape.group, partition, offset, delivery, attempt)
                records.append(Acknowledged(offset, values[offset]))
        if not self._checks.is_lost(self.shape.group, partition):
            self.world.checks.records.read(name, records, self.world.checks.records.losses(name))

    # --- acknowledgements

    def _decide(self, session: ShareSession) -> dict[SharePartition, list[Batch]]:
        """Decide what to say about each record; some are forgotten, and their locks end."""
        decided: dict[SharePartition, list[Batch]] = {}
        is_renewal = self._draw.random() < 0.1 and not self.world.is_healed
        for partition in sorted(session.partitions):
            for offset in sorted(self._held.get(partition, {})):
                choice = self._choice(is_renewal=is_renewal)
                if choice is None:
                    continue
                batches = decided.setdefault(partition, [])
                if batches and batches[-1].offsets.stop == offset and self._draw.random() < 0.8:
                    batches[-1] = Batch(batches[-1].first, [*batches[-1].types, choice])
                else:
                    batches.append(Batch(offset, [choice]))
        return decided

    def _choice(self, *, is_renewal: bool) -> Acknowledge | None:
        if is_renewal:
            return Acknowledge.RENEW
        if self.world.is_healed:
            return Acknowledge.ACCEPT
        kinds = [Acknowledge.ACCEPT, Acknowledge.RELEASE, Acknowledge.REJECT, None]
        return self._draw.choices(kinds, weights=(70, 14, 4, 12))[0]

    async def _acknowledge(self, session: ShareSession) -> None:
        decided = self._decide(session)
        if decided and session.epoch:
            await self._send_acknowledgements(session, decided)

    async def _send_acknowledgements(
        self, session: ShareSession, acknowledged: dict[SharePartition, list[Batch]]
    ) -> None:
        request = requests.acknowledge(self.shape.group, self.member_id, session.epoch, acknowledged)
        said = self._say(acknowledged)
        attempt, answer = await session.send(request)
        if answer is None or answer.error_code:
            self._outcome(said, None)
            if answer is None:
                self._lose(session)
            else:
                self._failed(session, ErrorCode(answer.error_code), answer.error_message)
            return
        session.epoch += 1
        outcomes = dict.fromkeys(acknowledged, ErrorCode.NONE)
        for topic in answer.responses:
            for found in topic.partitions:
                partition = SharePartition(topic.topic_id, found.partition_index)
                self._check_error(ErrorCode(found.error_code), found.error_message)
                outcomes[partition] = ErrorCode(found.error_code)
        self._outcome(said, outcomes, session, attempt)

    def _say(self, acknowledged: dict[SharePartition, list[Batch]]) -> list[_Said]:
        """Give up the records that are acknowledged: another member may acquire them from now on."""
        said = []
        for partition, batches in acknowledged.items():
            held = self._held[partition]
            for batch in batches:
                for offset, choice in zip(batch.offsets, batch.types, strict=True):
                    delivery = held[offset] if choice is Acknowledge.RENEW else held.pop(offset)
                    delivery.is_held = choice is Acknowledge.RENEW
                    said.append(_Said(partition, offset, choice, delivery))
        return said

    def _outcome(
        self,
        said: list[_Said],
        outcomes: dict[SharePartition, ErrorCode] | None,
        session: ShareSession | None = None,
        attempt: Attempt | None = None,
    ) -> None:
        """Take the outcome of acknowledgements; without ``outcomes`` it is unknown."""
        for partition in dict.fromkeys(found.partition for found in said):
            of_partition = [found for found in said if found.partition == partition]
            code = None if outcomes is None else outcomes[partition]
            if code is ErrorCode.INVALID_RECORD_STATE and session is not None and attempt is not None:
                deliveries = [found.delivery for found in of_partition]
                at = session.leadership_of(partition)
                self._checks.refused(self.shape.group, partition, deliveries, attempt, at)
            for found in of_partition:
                self._settle(found, code, attempt)

    def _settle(self, said: _Said, code: ErrorCode | None, attempt: Attempt | None) -> None:
        group, (partition, offset, choice, delivery) = self.shape.group, said
        if choice is Acknowledge.RENEW:
            if code is ErrorCode.NONE and attempt is not None:
                self._checks.renewed(delivery, attempt)
            return
        is_final = choice in (Acknowledge.ACCEPT, Acknowledge.REJECT)
        if code is ErrorCode.NONE:
            is_release = choice is Acknowledge.RELEASE
            self._checks.acknowledged(
                group, partition, offset, delivery.count, is_final=is_final, is_release=is_release
            )
        elif is_final and code is not ErrorCode.INVALID_RECORD_STATE:
            self._checks.may_be_done(group, partition, offset)


# --- all members


def start_share_members(world: World) -> list[ShareMember]:
    """Start all members. Call this outside the context of any node, because clients outlive every node."""
    shape = world.shape.share_groups
    if shape is None:
        return []
    world.loop.create_task(_configure(world, shape.groups))
    members = [ShareMember(world, member) for member in shape.members]
    for member in members:
        task = world.loop.create_task(member.run())
        task.add_done_callback(partial(report_end, world, member))
    return members


async def _configure(world: World, groups: list[str]) -> None:
    """Request that the groups begin with the first records, until the log says so."""
    draw, wanted = random.Random(f"share configs {world.seed}"), set(groups)
    while wanted:
        configs = world.checks.model.now["configs"]
        wanted = {group for group in wanted if configs.get((GROUP_RESOURCE, group), {}).get(EARLIEST[0]) is None}
        up = [node for node in world.nodes.values() if node.is_broker and node.is_up]
        for group in sorted(wanted) if up else ():
            config = alter_configs.AlterableConfig(name=EARLIEST[0], config_operation=0, value=EARLIEST[1])
            alter_config(world, draw.choice(up), GROUP_RESOURCE, group, config)
        await asyncio.sleep(0.5)


def unsettled_share_members(world: World, members: list[ShareMember]) -> str | None:
    """Return a problem while a member has no partitions, or a record is not finished, as required at the end."""
    for member in members:
        if (
            not member.is_over
            and not member.is_settled
            and not world.checks.share_groups.has_lost_group(member.shape.group)
        ):
            return f"{member.name} has no partitions"
    return world.checks.share_groups.unfinished() if members else None
