"""A share consumer: it takes part in a share group, acquires records, and says what became of them.

A node keeps records for a member until its share session ends, with its connection, or until the lock on them expires.
So what this consumer has acquired returns to the queue when the process ends, whatever happens to it.

Requests of a session follow each other, so an acknowledgement waits for a fetch under way, up to ``fetch.max.wait.ms``.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from barnabas.clients.admin.errors import AdminError, admin_error
from barnabas.clients.consumer.group_coordinator import GroupCoordinator
from barnabas.clients.consumer.heartbeats import Heartbeats
from barnabas.clients.errors import ClientError
from barnabas.clients.leader_tracker import start_guarded
from barnabas.clients.membership.acknowledgements import AcknowledgeType, TopicIdPartition
from barnabas.clients.membership.heartbeat_schedule import HeartbeatSchedule
from barnabas.clients.membership.share_membership import ShareMembership
from barnabas.clients.membership.share_session import AcquireMode, FetchLimits
from barnabas.clients.share.acquired_records import AcquiredRecord, RecordId, read_acquired
from barnabas.clients.share.share_node import ShareNode
from barnabas.clients.topic_metadata import TopicMetadata, TopicsMetadataSource
from barnabas.common.error_code import ErrorCode
from barnabas.common.errors import Transient
from barnabas.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.clients.client_config import Address
    from barnabas.clients.network_client import NetworkClient
    from barnabas.clients.share.config import ShareConfig
    from barnabas.protocol.messages.share_fetch import PartitionData, ShareFetchResponse

__all__ = ["ShareConsumer"]

T = TypeVar("T")

log = logging.getLogger(__name__)

_LEAVE_WITHIN_S = 5.0
_PARTITIONS_WITHIN_S = 10.0
"""How long a new member may be without partitions before the time of ``receive`` begins."""
_FIRST_WAIT_S = 2.0
"""A node that is asked for a partition for the first time loads its state, and answers without records meanwhile."""
_SETTLES = frozenset({AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT})
_REFUSED = frozenset(
    {ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION}
)
_NOT_HELD = "the record is not acquired any more: its lock has expired, or it was settled before"


@dataclass(slots=True)
class _Held:
    """An acquired record: the node that has acquired it, and when its lock expires, in seconds on the loop's clock."""

    node: ShareNode
    expires_at: float


class ShareConsumer:
    """``start`` joins the group, ``close`` leaves it. One call of ``receive`` at a time; others may run meanwhile."""

    def __init__(
        self, network: NetworkClient, group_id: str, topics: Iterable[str], config: ShareConfig, *, member_id: str
    ) -> None:
        self.failure: Exception | None = None
        """Why the member can't continue: an AdminError or a ClientError."""
        self.lock_timeout_s = 0.0
        """How long a lock lasts, as the nodes say; 0 before the first records."""
        self._network = network
        self._config = config
        self._coordinator = GroupCoordinator(network, group_id)
        schedule = HeartbeatSchedule(
            backoff_ms=int(self._coordinator.backoff_s * 1000),
            backoff_ms_max=int(self._coordinator.backoff_max_s * 1000),
        )
        self._membership = ShareMembership(group_id, member_id, topics, schedule, rack_id=None)
        self._changed = asyncio.Event()
        self._heartbeats = Heartbeats(self._coordinator, self._membership, self._changed.set)
        self._topics = TopicsMetadataSource(network, topics)
        self._metadata: dict[str, TopicMetadata] = {}
        self._is_stale = True
        self._is_new = True
        self._nodes: dict[Address, ShareNode] = {}
        self._rotation = 0
        self._held: dict[RecordId, _Held] = {}
        self._ready: deque[AcquiredRecord] = deque()
        """Acquired records that were not returned yet: a node may acquire more than were requested."""
        self._delivered: set[RecordId] = set()
        """With implicit acknowledgement: what the next call for records accepts."""
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = start_guarded(self._heartbeats.run(), self._fail)

    async def receive(self, count: int, wait_s: float) -> list[AcquiredRecord]:
        """Return up to ``count`` records, as soon as there are some; none after ``wait_s``.

        The first call waits longer if necessary: until the member has partitions, and their nodes have looked.
        A call that is cancelled loses nothing: the next one returns what it would have. Raise AdminError, ClientError.
        """
        if self._config.is_implicit and self._delivered:
            accepted, self._delivered = self._delivered, set()
            await self.acknowledge(dict.fromkeys(accepted, AcknowledgeType.ACCEPT))
        if self._is_new:
            await self._wait_for_partitions(_PARTITIONS_WITHIN_S)
            wait_s = max(wait_s, _FIRST_WAIT_S)
        deadline = self._loop.time() + wait_s
        while True:
            if records := self._deliver(count):
                self._is_new = False
                return records
            self._ensure_no_failure()
            left_s = deadline - self._loop.time()
            wanted = await self._wanted_by_node()
            if not wanted and left_s > 0:
                await self._something_changed(min(left_s, self._coordinator.backoff_max_s))
                continue
            if wanted:
                await _to_its_end(self._fetch(wanted, count, max(0.0, left_s)))
            if not self._ready and left_s <= 0:
                self._is_new = False
                return []

    async def acknowledge(self, types: Mapping[RecordId, AcknowledgeType]) -> dict[RecordId, AdminError | None]:
        """Say what became of records. Return the error of each that could not be acknowledged, None for the others.

        Raise AdminError, ClientError if the member can't continue.
        """
        self._ensure_no_failure()
        results: dict[RecordId, AdminError | None] = {}
        by_node: dict[ShareNode, dict[RecordId, AcknowledgeType]] = defaultdict(dict)
        for record_id, type_ in types.items():
            held = self._held.get(record_id)
            if held is None:
                results[record_id] = AdminError(ErrorCode.INVALID_RECORD_STATE, _NOT_HELD, record_id)
            else:
                by_node[held.node][record_id] = type_
        for node, of_node in by_node.items():
            results |= await _to_its_end(self._acknowledge_at(node, of_node))
        return results

    def held_until(self) -> float | None:
        """Return when the last lock on a delivered record expires, on the loop's clock; None without records."""
        now = self._loop.time()
        waiting = {record.id for record in self._ready}
        self._held = {
            record_id: held for record_id, held in self._held.items() if held.expires_at > now or record_id in waiting
        }
        return max((held.expires_at for held in self._held.values()), default=None)

    async def close(self) -> None:
        """Leave the group and release what is not settled; with implicit acknowledgement, accept what was delivered."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        accepted = dict.fromkeys(self._delivered & self._held.keys(), AcknowledgeType.ACCEPT)
        for node in self._nodes.values():
            of_node = {record_id: type_ for record_id, type_ in accepted.items() if self._held[record_id].node is node}
            await node.close(self._by_partition(of_node))
        request = self._membership.leave()
        try:
            if request is not None and self.failure is None:
                async with asyncio.timeout(_LEAVE_WITHIN_S):
                    await self._coordinator.request(request)
        except (AdminError, ClientError, TimeoutError):
            pass
        finally:
            await self._coordinator.drop_connection()

    # --- which node has which partitions

    async def _wanted_by_node(self) -> dict[ShareNode, set[TopicIdPartition]]:
        """Return the assigned partitions of each node, looking up leaders that are not known. Raise AdminError."""
        topics = {metadata.topic_id: metadata for metadata in self._metadata.values()}
        assigned = self._membership.assigned
        if assigned and (self._is_stale or not assigned.keys() <= topics.keys()):
            await self._look_up_leaders()
            topics = {metadata.topic_id: metadata for metadata in self._metadata.values()}
        wanted: dict[ShareNode, set[TopicIdPartition]] = defaultdict(set)
        for topic_id, partitions in assigned.items():
            for partition in partitions if topic_id in topics else ():
                address = topics[topic_id].address_of(partition)
                if address is None:
                    self._is_stale = True
                else:
                    wanted[self._node(address)].add(TopicIdPartition(topic_id, partition))
        return wanted

    async def _look_up_leaders(self) -> None:
        try:
            self._metadata = await self._topics.leaders()
            self._is_stale = False
        except ClientError as error:
            if not isinstance(error, Transient):
                raise
            await asyncio.sleep(self._coordinator.backoff_s)

    def _node(self, address: Address) -> ShareNode:
        node = self._nodes.get(address)
        if node is None:
            group_id, member_id = self._membership.group_id, self._membership.member_id
            node = self._nodes[address] = ShareNode(self._network, address, group_id, member_id, self._lose)
        return node

    async def _wait_for_partitions(self, within_s: float) -> None:
        deadline = self._loop.time() + within_s
        while not self._membership.assigned and (left_s := deadline - self._loop.time()) > 0:
            self._ensure_no_failure()
            await self._something_changed(left_s)

    async def _something_changed(self, within_s: float) -> None:
        """Wait for the next answer of the coordinator."""
        self._changed.clear()
        try:
            async with asyncio.timeout(within_s):
                await self._changed.wait()
        except TimeoutError:
            pass

    # --- records

    async def _fetch(self, wanted: Mapping[ShareNode, set[TopicIdPartition]], count: int, left_s: float) -> None:
        """Fetch from all nodes; with a limit of records from one after the other, so that none is acquired in vain."""
        config, nodes = self._config, list(wanted)
        is_limited = config.acquire_mode is AcquireMode.RECORD_LIMIT
        wait_ms = min(config.fetch.max_wait_ms, int(left_s * 1000))
        if is_limited:
            wait_ms //= len(nodes)
            self._rotation = (self._rotation + 1) % len(nodes)
            nodes = nodes[self._rotation :][:1]
        limits = FetchLimits(count, wait_ms, config.fetch.min_bytes, config.fetch.max_bytes, config.acquire_mode)
        began_at = self._loop.time()
        results = await asyncio.gather(*(self._fetch_from(node, wanted[node], limits) for node in nodes))
        if not any(results) and self._loop.time() - began_at < wait_ms / 2000:
            await asyncio.sleep(self._coordinator.backoff_s)  # A node that refuses answers at once.

    async def _fetch_from(self, node: ShareNode, wanted: set[TopicIdPartition], limits: FetchLimits) -> bool:
        """Return whether records were acquired. Raise AdminError, ClientError."""
        try:
            response = await node.fetch(wanted, limits)
        except ClientError as error:
            if not isinstance(error, Transient):
                raise
            self._is_stale = True
            return False
        if response is None:
            return False
        if response.error_code:
            error_of_all = admin_error(response.error_code, response.error_message, self._membership.group_id)
            if error_of_all.code in _REFUSED:
                raise error_of_all
            self._is_stale = True
            return False
        gaps = self._take(node, response)
        if gaps:
            await node.acknowledge(gaps)
        return bool(self._ready)

    def _take(
        self, node: ShareNode, response: ShareFetchResponse
    ) -> dict[TopicIdPartition, dict[int, AcknowledgeType]]:
        """Keep acquired records until they are delivered. Return the offsets that have no record for the caller."""
        names = {metadata.topic_id: name for name, metadata in self._metadata.items()}
        self.lock_timeout_s = response.acquisition_lock_timeout_ms / 1000 or self.lock_timeout_s
        others: dict[TopicIdPartition, dict[int, AcknowledgeType]] = {}
        for topic in response.responses:
            for answered in topic.partitions:
                partition = TopicPartition(names.get(topic.topic_id, ""), answered.partition_index)
                if answered.error_code:
                    self._refused(partition, answered)
                    continue
                found = read_acquired(partition, answered, check_crcs=self._config.fetch.check_crcs)
                if found.unreadable:
                    log.error("%s: %d records can't be read, and are rejected", partition, len(found.unreadable))
                said = dict.fromkeys(found.gaps, AcknowledgeType.GAP)
                said |= dict.fromkeys(found.unreadable, AcknowledgeType.REJECT)
                if said:
                    others[TopicIdPartition(topic.topic_id, answered.partition_index)] = said
                self._ready.extend(found.records)
                expires_at = self._loop.time() + self.lock_timeout_s
                self._held |= {record.id: _Held(node, expires_at) for record in found.records}
        return others

    def _refused(self, partition: TopicPartition, response: PartitionData) -> None:
        error = admin_error(response.error_code, response.error_message, partition.topic)
        if error.code in _REFUSED:
            raise error
        log.debug("%s is not fetched: %s", partition, error)
        self._is_stale = True

    def _deliver(self, count: int) -> list[AcquiredRecord]:
        """Return records that were acquired, but those whose lock has expired meanwhile."""
        now = self._loop.time()
        records: list[AcquiredRecord] = []
        while self._ready and len(records) < count:
            record = self._ready.popleft()
            if self._held[record.id].expires_at > now:
                records.append(record)
        self._delivered |= {record.id for record in records} if self._config.is_implicit else set()
        return records

    # --- acknowledgements

    async def _acknowledge_at(
        self, node: ShareNode, types: Mapping[RecordId, AcknowledgeType]
    ) -> dict[RecordId, AdminError | None]:
        try:
            response = await node.acknowledge(self._by_partition(types))
        except ClientError as error:
            if not isinstance(error, Transient):
                raise
            text = f"{error}; the record may be acknowledged, or it is delivered again"
            return {record_id: AdminError(ErrorCode.NETWORK_EXCEPTION, text, record_id) for record_id in types}
        if response is None:
            return {record_id: AdminError(ErrorCode.INVALID_RECORD_STATE, _NOT_HELD, record_id) for record_id in types}
        names = {metadata.topic_id: name for name, metadata in self._metadata.items()}
        refused = {
            TopicPartition(names.get(topic.topic_id, ""), part.partition_index): (part.error_code, part.error_message)
            for topic in response.responses
            for part in topic.partitions
            if part.error_code
        }
        self.lock_timeout_s = response.acquisition_lock_timeout_ms / 1000 or self.lock_timeout_s
        whole = (response.error_code, response.error_message)
        results: dict[RecordId, AdminError | None] = {}
        for record_id, type_ in types.items():
            code, message = whole if response.error_code else refused.get(record_id.partition, (0, None))
            results[record_id] = admin_error(code, message, record_id) if code else None
            if not code:
                self._acknowledged(record_id, type_)
        return results

    def _acknowledged(self, record_id: RecordId, type_: AcknowledgeType) -> None:
        if type_ in _SETTLES:
            self._held.pop(record_id, None)
            self._delivered.discard(record_id)
        elif (held := self._held.get(record_id)) is not None:
            held.expires_at = self._loop.time() + self.lock_timeout_s

    def _by_partition(
        self, types: Mapping[RecordId, AcknowledgeType]
    ) -> dict[TopicIdPartition, dict[int, AcknowledgeType]]:
        found: dict[TopicIdPartition, dict[int, AcknowledgeType]] = defaultdict(dict)
        for record_id, type_ in types.items():
            topic_id = self._metadata[record_id.partition.topic].topic_id
            found[TopicIdPartition(topic_id, record_id.partition.partition)][record_id.offset] = type_
        return found

    # --- failures

    def _lose(self, node: ShareNode) -> None:
        """The session with the node has ended: it has released what this member had acquired there."""
        lost = {record_id for record_id, held in self._held.items() if held.node is node}
        self._held = {record_id: held for record_id, held in self._held.items() if record_id not in lost}
        self._ready = deque(record for record in self._ready if record.id not in lost)
        self._delivered -= lost

    def _ensure_no_failure(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _fail(self, error: Exception) -> None:
        self.failure = self.failure or error
        self._changed.set()


async def _to_its_end(work: Coroutine[object, object, T]) -> T:
    """Await work that continues if the caller is cancelled: an answer that is not read would break the session."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await asyncio.shield(task)
