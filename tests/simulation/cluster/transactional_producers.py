"""Transactional producers, their zombies, and clients that copy records with the offsets of a group.

A producer keeps to the rules of Kafka's: it repeats a request until it knows the outcome, aborts after an error, and
begins again when it was fenced. Its process may hang in the middle of a transaction. A zombie is a second producer with
the same id: each of them fences the other one.

After the faults zombies stop, and leave their transactions open. The others commit one more transaction, and some leave
another one open, which must time out. Some have died before in the middle of a transaction, and never return.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from barnabas.clients.errors import ClientError
from barnabas.common.errors import ErrorCode
from barnabas.coordinator.partitioner import coordinator_partition
from barnabas.protocol.record_batch_builder import RecordBatchBuilder
from tests.simulation.cluster import transactional_requests as requests
from tests.simulation.cluster.client_process import ClientProcess
from tests.simulation.cluster.consumers import OFFSETS_TOPIC
from tests.simulation.cluster.data_checks import Acknowledged
from tests.simulation.cluster.data_watch import PartitionName
from tests.simulation.cluster.producers import DATA_TOPIC, Client, Unavailable, report_end
from tests.simulation.cluster.transaction_shape import TRANSACTIONS_TOPIC
from tests.simulation.cluster.transactional_requests import Identity, Versions

if TYPE_CHECKING:
    from tests.simulation.cluster.transaction_checks import Transaction
    from tests.simulation.cluster.transaction_shape import TransactionalClient
    from tests.simulation.cluster.world import World

__all__ = ["OffsetReader", "TransactionalProducer", "start_transactional", "unsettled_transactions"]

CLIENT_TIMEOUTS_S = (0.3, 1.5)
"""Clients with the shorter time-out give up requests that arrive and are carried out later."""
PRODUCE_TIMEOUT_MS = 1000
PAUSE_S = 0.05
TRIES_MAX = 12
BATCH_TRIES = (1, 3, 12)
"""How often clients send a batch before they abort the transaction. The batch may still arrive afterwards."""
HANGS = 0.03
LATE = 0.03
"""The share of requests that reach their broker only after the client has given them up."""
COMMITS = 0.7
BATCH_MAX = 3
CREATED_MS = 1_699_900_000_000
"""The time of all records: a day before the clocks of brokers, which may be hours behind and refuse later times."""


class _Abort(Exception):
    """The transaction cannot be committed."""


class _Fenced(Exception):
    """The producer has to begin again."""


class _TransactionClient(Client):
    """A client of the coordinators of transactions and groups."""

    def __init__(self, world: World, client: TransactionalClient, name: str) -> None:
        super().__init__(world, name)
        self.client = client
        self._process = ClientProcess(world, 0, timeout_s=self._draw.choice(CLIENT_TIMEOUTS_S))
        self._checks = world.checks.transactions

    @property
    def _pause_s(self) -> float:
        return PAUSE_S

    def _coordinator(self, topic: str, key: str) -> int:
        """Return the coordinator of the key as some live broker knows it, possibly outdated."""
        brokers = self._brokers()
        known = self._draw.choice(brokers).loader.image.topics.by_name.get(topic) if brokers else None
        if known is None:
            raise Unavailable
        leader = known.partitions[coordinator_partition(key, len(known.partitions))].leader
        if leader < 0:
            raise Unavailable
        return leader

    def _of_transactions(self) -> int:
        return self._coordinator(TRANSACTIONS_TOPIC, self.client.transactional_id)

    def _of_group(self) -> int:
        return self._coordinator(OFFSETS_TOPIC, self.client.group)

    async def _once(
        self, find: Callable[[], int], request: Any, code_of: Callable[[Any], int], version: int | None = None
    ) -> tuple[ErrorCode | None, Any]:
        """Send the request; return the code and the answer, or None if the outcome is unknown."""
        try:
            answer = await self._process.request(find(), request, version)
        except Unavailable:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, None
        except ClientError:
            return None, None
        return ErrorCode(code_of(answer)), answer

    def _check_expected(self, code: ErrorCode | None, request: Any) -> None:
        if code is None or code is ErrorCode.NONE:
            return
        if code not in requests.RETRIED | requests.FENCED | requests.ABORTABLE:
            self.world.checks.fail(f"{self.name} receives {code.name} for {type(request).__name__}")

    async def _fetch_offset(self) -> int:
        """Return the stable offset of the group."""
        while True:
            floor = self._checks.floor(self.client.group)
            pending = self._checks.surely_pending(self.client)
            try:
                request = requests.fetch_offset(self.client.group, self._topic_id())
            except Unavailable:
                await self._pause()
                continue
            code, answer = await self._once(self._of_group, request, _code_of_fetched)
            self._check_expected(code, request)
            if code is ErrorCode.NONE:
                if pending is not None and pending is self._checks.surely_pending(self.client):
                    self.world.checks.fail(f"{self.client.group} has a stable offset, although {pending} is open")
                offset = int(answer.groups[0].topics[0].partitions[0].committed_offset)
                self._checks.fetched(self.client, offset, floor)
                return offset
            await self._pause()

    def _topic_id(self) -> Any:
        return self._leader(0)[2]


class TransactionalProducer(_TransactionClient):
    def __init__(self, world: World, client: TransactionalClient) -> None:
        super().__init__(world, client, f"{'zombie' if client.is_zombie else 'producer'} of {client.transactional_id}")
        shape = world.shape.transactions
        assert shape is not None
        self._timeout_ms = shape.timeout_ms
        self._is_v2 = client.is_v2 and shape.version >= 2
        self._versions = Versions.of(is_v2=self._is_v2)
        self._batch_tries = self._draw.choice(BATCH_TRIES)
        self._identity: Identity | None = None
        self._recovers = False
        """Whether it asks for the next epoch of its own id, after an error of a batch."""
        self._sequences: dict[int, int] = {}
        self._last: Transaction | None = None
        self._is_done = False
        has_clock_faults = any(step.kind == "clock" for step in world.plan.steps)
        self._leaves_open = not has_clock_faults and self._draw.random() < 0.4
        ends_s = world.plan.faults_end_ms / 1000
        self._dies_s = self._draw.uniform(1.5, ends_s) if self._leaves_open and self._draw.random() < 0.6 else ends_s

    @property
    def is_settled(self) -> bool:
        if self._checks.has_lost_id(self.client) or self._checks.has_lost_group(self.client):
            return True  # An open transaction may have lost its coordinator's state, or its marker.
        if not self._is_done or self._last is None or not self._leaves_open:
            return self._is_done
        names = [name for name in self._last.acknowledged if not self._checks.may_hang(name)]
        return all(name in self._last.outcomes for name in names)

    async def run(self) -> None:
        while not self.world.is_healed and self.world.loop.now_s < self._dies_s:
            await self._pause()
            if await self._is_begun():
                await self._transact(is_commit=self._draw.random() < COMMITS)
        if not self.client.is_zombie:
            await self._finish()
        self._is_done = True

    async def _finish(self) -> None:
        is_over = self.world.is_healed
        while is_over and not self._has_committed_since(self._healed_s()):
            await self._pause()
            if await self._is_begun():
                await self._transact(is_commit=True)
        if self._leaves_open:
            while not await self._is_begun():
                await self._pause()
            await self._transact(is_commit=None)
            if is_over and self._draw.random() < 0.5:
                self._kill_coordinator()

    def _kill_coordinator(self) -> None:
        """Let another broker load the open transaction, or the same one again."""
        with suppress(Unavailable):
            node = self.world.nodes[self._of_transactions()]
            self.world.say(f"{node.name}: is killed, with an open transaction")
            node.crash(is_power_loss=False)

    def _has_committed_since(self, since_s: float) -> bool:
        return self._last is not None and self._last.is_committed and self._last.began_s >= since_s

    def _healed_s(self) -> float:
        return self.world.plan.faults_end_ms / 1000

    # --- an id and an epoch

    async def _is_begun(self) -> bool:
        """Return whether the producer has an id; ask for one if it has none."""
        if self._identity is not None and not self._recovers:
            return True
        transactional_id = self.client.transactional_id
        expected = self._identity if self._recovers else None
        request = requests.init(transactional_id, self._timeout_ms, expected)
        asked = self._checks.fences.asked(transactional_id, self.world.loop.now_s)
        code, answer = await self._once(self._of_transactions, request, _code_of)
        self._check_expected(code, request)
        if code is not ErrorCode.NONE:
            if code in requests.FENCED:
                self._identity, self._recovers = None, False
                await self._stay_away()
            return False
        found = Identity(answer.producer_id, answer.producer_epoch)
        if expected is not None and expected.producer_id == found.producer_id and found.epoch <= expected.epoch:
            self.world.checks.fail(f"{self.name} recovers from epoch {expected.epoch} to {found.epoch}")
        self._checks.fences.received(transactional_id, *found, asked)
        self._identity, self._recovers, self._sequences = found, False, {}
        self.world.say(f"{self.name} has {found.producer_id} in epoch {found.epoch}")
        return True

    async def _stay_away(self) -> None:
        """Wait as a process that is restarted. Two producers of an id would otherwise only fence each other."""
        await asyncio.sleep(self._draw.uniform(0.1, 1.5))

    # --- a transaction

    async def _transact(self, *, is_commit: bool | None) -> None:
        """Run a transaction; None leaves it open."""
        assert self._identity is not None
        begun = self._last = self._checks.begun(self.client, *self._identity)
        self.world.say(f"{self.name} begins {begun.number} in epoch {begun.epoch}")
        try:
            await self._fill(begun)
            await self._maybe_hang()
            if is_commit is not None:
                await self._end(begun, is_commit=is_commit)
            return
        except _Abort as reason:
            self.world.say(f"{self.name} aborts {begun.number}: {reason}")
            self._recovers = not self._is_v2
        except _Fenced as reason:
            self.world.say(f"{self.name} gives up {begun.number}: {reason}")
            self._identity, self._recovers = None, False
            await self._stay_away()
            return
        try:
            await self._end(begun, is_commit=False)
        except (_Abort, _Fenced) as reason:
            self.world.say(f"{self.name} gives up {begun.number}: {reason}")
            self._identity, self._recovers = None, False

    async def _maybe_hang(self) -> None:
        if self._draw.random() < HANGS and not self.world.is_healed:
            await asyncio.sleep(self._draw.uniform(0.5, 4.0))

    async def _fill(self, begun: Transaction) -> None:
        count = self.world.shape.data_partitions
        indexes = self._draw.sample(range(count), self._draw.randrange(1, min(count, 3) + 1))
        numbers = await self._inputs(begun)
        if not self._is_v2:
            await self._add(
                requests.add_partitions(self.client.transactional_id, self._id, indexes),
                requests.code_of_added,
                requests.ADD_PARTITIONS_VERSION,
            )
        values = self._values(begun, indexes, numbers)
        ends = await asyncio.gather(
            *(self._write_all(begun, index, batches) for index, batches in values.items()), return_exceptions=True
        )
        for error in ends:
            if error is not None:
                raise error
        if begun.upto is not None:
            await self._commit_offset(begun, begun.upto)

    @property
    def _id(self) -> Identity:
        assert self._identity is not None
        return self._identity

    async def _inputs(self, begun: Transaction) -> list[int] | None:
        """Return the numbers of the records to copy: those behind the group's offset."""
        if not self.client.copies:
            return None
        first = max(await self._fetch_offset(), 0)
        begun.upto = first + self._draw.randrange(1, 4)
        return list(range(first, begun.upto))

    def _values(
        self, begun: Transaction, indexes: list[int], numbers: list[int] | None
    ) -> dict[int, list[list[bytes]]]:
        """Return the batches of each partition."""
        found: dict[int, list[list[bytes]]] = {}
        if numbers is not None:
            for position, number in enumerate(numbers):
                index = indexes[position % len(indexes)]
                found.setdefault(index, []).append([f"t{begun.number}.{position}.{number}".encode()])
            return found
        position = 0
        for index in indexes:
            for _ in range(self._draw.randrange(1, BATCH_MAX)):
                size = self._draw.randrange(1, BATCH_MAX)
                values = [f"t{begun.number}.{position + at}".encode() for at in range(size)]
                position += size
                found.setdefault(index, []).append(values)
        return found

    async def _add(self, request: Any, code_of: Callable[[Any], int], version: int) -> None:
        """Send the request to the transaction's coordinator until it is done."""
        await self._until_done(self._of_transactions, request, code_of, version)

    async def _until_done(
        self, find: Callable[[], int], request: Any, code_of: Callable[[Any], int], version: int
    ) -> None:
        """Repeat the request until it succeeds. Raise _Abort or _Fenced."""
        for _ in range(TRIES_MAX):
            code, _ = await self._once(find, request, code_of, version)
            if code is ErrorCode.NONE:
                return
            self._raise(code, request)
            await self._pause()
        raise _Abort(f"{type(request).__name__} is not answered")

    async def _once_or_late(
        self, find: Callable[[], int], request: Any, code_of: Callable[[Any], int], version: int
    ) -> tuple[ErrorCode | None, Any]:
        """Send the request as ``_once`` does; some reach the broker only after the client has given them up."""
        if self.world.is_healed or self._draw.random() >= LATE:
            return await self._once(find, request, code_of, version)
        try:
            target = find()
        except Unavailable:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, None
        self.world.loop.create_task(self._send_late(target, request, version))
        await self._pause()
        return None, None

    async def _send_late(self, target: int, request: Any, version: int) -> None:
        await asyncio.sleep(self._draw.uniform(0.0, self._draw.choice((0.1, 1.5))))
        with suppress(ClientError):
            await ClientProcess(self.world, 0, timeout_s=CLIENT_TIMEOUTS_S[0]).request(target, request, version)

    def _raise(self, code: ErrorCode | None, request: Any) -> None:
        self._check_expected(code, request)
        if code in requests.FENCED:
            raise _Fenced(code.name)
        if code in requests.ABORTABLE:
            raise _Abort(code.name)

    async def _write_all(self, begun: Transaction, index: int, batches: list[list[bytes]]) -> None:
        for values in batches:
            await self._write(begun, index, values)

    async def _write(self, begun: Transaction, index: int, values: list[bytes]) -> None:
        name, sequence = PartitionName(DATA_TOPIC, index), self._sequences.get(index, 0)
        batch = self._batch(sequence, values)
        await self._maybe_hang()
        was_fenced = self._checks.fences.is_fenced(begun.producer_id, begun.epoch)
        for _ in range(self._batch_tries):
            losses = self.world.checks.records.losses(name)
            try:
                leader, _, topic_id = self._leader(index)
            except Unavailable:
                await self._pause()
                continue
            request = requests.write(self.client.transactional_id, topic_id, index, batch, PRODUCE_TIMEOUT_MS)
            code, answer = await self._once_or_late(
                lambda: leader,  # noqa: B023
                request,
                _code_of_written,
                self._versions.produce,
            )
            if code is ErrorCode.NONE:
                offset = answer.responses[0].partition_responses[0].base_offset
                records = [Acknowledged(offset + at, value) for at, value in enumerate(values)]
                if was_fenced and not self._checks.has_lost_id(self.client):
                    self.world.checks.fail(f"{self.name} writes to {name} in epoch {begun.epoch}, which is fenced")
                if not self._checks.has_lost_id(self.client):
                    # Otherwise two processes may have the same epoch, and one's batch repeats the other's.
                    self.world.checks.records.acknowledged(name, records, losses)
                self._checks.acknowledged(begun, name, values)
                self._sequences[index] = sequence + len(values)
                return
            self._raise(code, request)
            await self._pause()
        raise _Abort(f"{name} does not acknowledge a batch")

    def _batch(self, sequence: int, values: list[bytes]) -> bytes:
        builder = RecordBatchBuilder(
            producer_id=self._id.producer_id,
            producer_epoch=self._id.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        for position, value in enumerate(values):
            builder.append(position, CREATED_MS, None, value)
        return bytes(builder.build())

    async def _commit_offset(self, begun: Transaction, upto: int) -> None:
        transactional_id, group = self.client.transactional_id, self.client.group
        if not self._is_v2:
            await self._add(requests.add_group(transactional_id, self._id, group), _code_of, requests.ADD_GROUP_VERSION)
        request = requests.commit_offset(transactional_id, self._id, group, upto)
        code, _ = await self._once_or_late(self._of_group, request, _code_of_committed, self._versions.offsets)
        if code is None and not self._is_v2:
            # In the same epoch a late commit would count for the next transaction.
            raise _Abort("TxnOffsetCommit is not answered")
        if code is not ErrorCode.NONE:
            self._raise(code, request)
            await self._until_done(self._of_group, request, _code_of_committed, self._versions.offsets)
        begun.has_offsets = True

    async def _end(self, begun: Transaction, *, is_commit: bool) -> None:
        """Commit or abort. Raise _Fenced if the outcome is another one, or remains unknown."""
        request = requests.end(self.client.transactional_id, self._id, is_commit=is_commit)
        begun.has_ended = True
        for _ in range(TRIES_MAX):
            begun.unknown_commits += is_commit
            send = self._once_or_late if self._is_v2 else self._once  # Version 1 cannot tell a late request.
            code, answer = await send(self._of_transactions, request, _code_of, self._versions.end)
            if code in requests.REFUSED or (answer is None and code is not None):
                begun.unknown_commits -= is_commit
            if code is ErrorCode.NONE:
                self._checks.ended(begun, is_commit=is_commit)
                self.world.say(f"{self.name} has {'committed' if is_commit else 'aborted'} {begun.number}")
                if self._is_v2:
                    self._continue(Identity(answer.producer_id, answer.producer_epoch))
                return
            self._raise(code, request)
            await self._pause()
        raise _Fenced("EndTxn is not answered")

    def _continue(self, following: Identity) -> None:
        """Go on in the epoch of the answer."""
        before = self._id
        is_next = following == (before.producer_id, before.epoch + 1)
        if not is_next and (following.producer_id == before.producer_id or following.epoch != 0):
            self.world.checks.fail(f"{self.name} continues with {following} after {before}")
        self._checks.fences.continues(self.client.transactional_id, following.producer_id)
        self._identity, self._sequences = following, {}


class OffsetReader(_TransactionClient):
    """Fetches the stable offset of a group all the time, as another member of the group would."""

    def __init__(self, world: World, client: TransactionalClient) -> None:
        super().__init__(world, client, f"reader of {client.group}")
        self.is_settled = True

    @property
    def _pause_s(self) -> float:
        return 4 * PAUSE_S

    async def run(self) -> None:
        while True:
            await self._fetch_offset()
            await self._pause()


def _code_of(answer: Any) -> int:
    return int(answer.error_code)


def _code_of_written(answer: Any) -> int:
    return int(answer.responses[0].partition_responses[0].error_code)


def _code_of_committed(answer: Any) -> int:
    return int(answer.topics[0].partitions[0].error_code)


def _code_of_fetched(answer: Any) -> int:
    group = answer.groups[0]
    return int(group.error_code or group.topics[0].partitions[0].error_code)


def start_transactional(world: World) -> list[TransactionalProducer | OffsetReader]:
    """Start the transactional clients. Call this outside the context of any node."""
    shape = world.shape.transactions
    if shape is None:
        return []
    clients: list[TransactionalProducer | OffsetReader] = [TransactionalProducer(world, one) for one in shape.clients]
    clients += [OffsetReader(world, one) for one in shape.copies]
    for client in clients:
        task = world.loop.create_task(client.run())
        task.add_done_callback(partial(report_end, world, client))
    return clients


def unsettled_transactions(clients: list[TransactionalProducer | OffsetReader]) -> str | None:
    for client in clients:
        if not client.is_settled:
            return f"{client.name} still waits for the end of its transaction"
    return None
