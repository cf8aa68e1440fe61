"""Members of a share group, in three client libraries: ours, librdkafka's and Java's.

Each receives records, holds them for a while, says what becomes of them, and reports to a ``SharesCheck`` what it
received and what was confirmed. Members leave and are replaced; processes of Java's are killed. What a member does with
a record depends on its offset, so that all members agree.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import threading
import time
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from confluent_kafka import AcknowledgeType as LibrdkafkaType
from confluent_kafka import KafkaException, ShareConsumer

from barnabas.clients.admin.errors import AdminError
from barnabas.clients.client_config import client_config
from barnabas.clients.errors import ClientError
from barnabas.clients.membership.acknowledgements import AcknowledgeType
from barnabas.clients.network_client import NetworkClient
from barnabas.clients.share.acquired_records import AcquiredRecord
from barnabas.clients.share.acquired_records import RecordId as AcquiredId
from barnabas.clients.share.config import share_config
from barnabas.clients.share.share_consumer import ShareConsumer as OurConsumer
from barnabas.common.uuid import Uuid
from tests.history.clients import CLIENT_SETTINGS, Client
from tests.history.java_clients import compiled
from tests.history.payload import RecordId, Spoilt, decode
from tests.history.records_check import RecordsCheck
from tests.history.shares_check import Acknowledgement, AckType, Delivery, SharedRecord, SharesCheck
from tests.peers import require_peer

__all__ = ["JavaShareMembers", "LibrdkafkaShareMember", "OurShareMember", "Reports", "treatment"]

_WAIT_S = 0.5
_COMMIT_S = 10.0
_RECORDS_MAX = 50
_LIFE_S = (5.0, 30.0)
_PAUSE_S = (0.3, 1.5)
_PAUSES, _PAUSES_TOO_LONG = 0.05, 0.01
"""The parts of all deliveries that a member holds for a while, and longer than their locks."""
_PROCESS_LIVES_S = (10.0, 40.0)
"""From the first records that a process of Java's receives until it is killed."""


def treatment(offset: int, count: int) -> AckType:
    """Return what a member does with a record at this delivery. Some are released until they reach the limit."""
    if offset % 397 == 13 or (offset % 29 == 7 and count <= 2):
        return AckType.RELEASE
    if offset % 97 == 5:
        return AckType.REJECT
    return AckType.RENEW if offset % 41 == 3 else AckType.ACCEPT


@dataclass(frozen=True, slots=True)
class Received:
    """A record as a client library returns it. ``record`` is None if its value is spoilt."""

    partition: int
    offset: int
    count: int
    record: RecordId | None


class Reports:
    """What the members of one group report. A record is reported to the check of records, too."""

    def __init__(self, group: str, shares: SharesCheck, records: RecordsCheck) -> None:
        self.group, self._shares, self._records = group, shares, records

    def delivered(self, member: str, received: Received, *, requested_s: float, received_s: float) -> Delivery:
        partition, offset = received.partition, received.offset
        if received.record is None:
            self._records.seen_spoilt(member, partition, offset, "a spoilt value")
        else:
            self._records.reader_begins(member, partition, None)  # A share group delivers in any order.
            self._records.seen(member, partition, offset, received.record)
        shared = SharedRecord(self.group, partition, offset)
        return self._shares.delivered(
            shared, member, requested_s=requested_s, received_s=received_s, count=received.count
        )


Deliveries = dict[tuple[int, int], Delivery]
"""By partition and offset."""
Asked = dict[tuple[int, int], Acknowledgement]


class _Lives(Client):
    """A member that leaves after some seconds, whereupon another one joins."""

    def __init__(self, bootstrap: str, topic: str, reports: Reports, *, name: str, seed: int, lock_s: float) -> None:
        super().__init__(name)
        self._bootstrap, self._topic, self._reports, self._lock_s = bootstrap, topic, reports, lock_s
        self._rng = random.Random(f"{seed} {name}")

    def _run(self) -> None:
        while not self._ends.is_set():
            self.counts["lives of share members"] += 1
            self._live(f"{self.name}/{self.counts['lives of share members']}")

    @abstractmethod
    def _live(self, member: str) -> None: ...

    def _ends_at_s(self) -> float:
        return time.monotonic() + self._rng.uniform(*_LIFE_S)

    def _goes_on(self, until_s: float) -> bool:
        return not self._ends.is_set() and time.monotonic() < until_s

    def _pause_s(self) -> float:
        drawn = self._rng.random()
        if drawn < _PAUSES_TOO_LONG:
            return self._lock_s + 1
        return self._rng.uniform(*_PAUSE_S) if drawn < _PAUSES else 0.0

    def _report(self, member: str, received: Iterable[Received], requested_s: float) -> Deliveries:
        received_s = time.monotonic()
        found = {
            (one.partition, one.offset): self._reports.delivered(
                member, one, requested_s=requested_s, received_s=received_s
            )
            for one in received
        }
        self.counts[f"shared records of {type(self).__name__}"] += len(found)
        return found


def _asks(deliveries: Deliveries, types: Mapping[tuple[int, int], AckType]) -> Asked:
    asked_s = time.monotonic()
    return {place: deliveries[place].acknowledges(type_, asked_s) for place, type_ in types.items()}


class OurShareMember(_Lives):
    def _live(self, member: str) -> None:
        try:
            asyncio.run(self._work(member))
        except (AdminError, ClientError) as error:
            self.counts[f"share member ended: {type(error).__name__}"] += 1
            self._ends.wait(0.2)

    async def _work(self, member: str) -> None:
        properties = {"share.acquire.mode": "record_limit", "share.acknowledgement.mode": "explicit"}
        until_s = self._ends_at_s()
        async with NetworkClient(client_config({}, bootstrap=self._bootstrap)) as network:
            member_id = str(Uuid(os.urandom(16)))
            consumer = OurConsumer(
                network, self._reports.group, [self._topic], share_config(properties), member_id=member_id
            )
            consumer.start()
            try:
                while self._goes_on(until_s):
                    await self._take(member, consumer)
            finally:
                await consumer.close()

    async def _take(self, member: str, consumer: OurConsumer) -> None:
        requested_s = time.monotonic()
        records = await consumer.receive(_RECORDS_MAX, _WAIT_S)
        deliveries = self._report(member, map(_received_by_us, records), requested_s)
        ids = {(record.partition.partition, record.record.offset): record.id for record in records}
        types = {place: treatment(place[1], delivery.count) for place, delivery in deliveries.items()}
        await asyncio.sleep(self._pause_s())
        await self._say(consumer, deliveries, ids, types)
        renewed = {place: AckType.ACCEPT for place, type_ in types.items() if type_ is AckType.RENEW}
        if renewed:
            await asyncio.sleep(self._pause_s())
            await self._say(consumer, deliveries, ids, renewed)

    async def _say(
        self,
        consumer: OurConsumer,
        deliveries: Deliveries,
        ids: Mapping[tuple[int, int], AcquiredId],
        types: Mapping[tuple[int, int], AckType],
    ) -> None:
        asked = _asks(deliveries, types)
        results = await consumer.acknowledge(
            {ids[place]: AcknowledgeType[type_.name] for place, type_ in types.items()}
        )
        confirmed_s = time.monotonic()
        for place, ack in asked.items():
            error = results[ids[place]]
            if error is None:
                ack.confirmed_s = confirmed_s
            else:
                self.counts[f"acknowledgements: {error.code.name}"] += 1


def _received_by_us(acquired: AcquiredRecord) -> Received:
    record = acquired.record
    return Received(acquired.partition.partition, record.offset, acquired.delivery_count, _decoded(record.value))


def _decoded(value: bytes | None) -> RecordId | None:
    try:
        return decode(value or b"")[0]
    except Spoilt:
        return None


class LibrdkafkaShareMember(_Lives):
    """It can't renew. A poll may return what the library has had for a while, so only the begin of a life is known to
    precede the request."""

    def _live(self, member: str) -> None:
        settings = {
            **CLIENT_SETTINGS,
            "bootstrap.servers": self._bootstrap,
            "client.id": member,
            "group.id": self._reports.group,
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": _RECORDS_MAX,
        }
        began_s, until_s = time.monotonic(), self._ends_at_s()
        try:
            with closing(ShareConsumer(settings)) as consumer:
                consumer.subscribe([self._topic])
                while self._goes_on(until_s):
                    self._take(member, consumer, began_s)
        except KafkaException as error:
            self.counts[f"share member ended: {error.args[0].name()}"] += 1

    def _take(self, member: str, consumer: Any, began_s: float) -> None:
        messages = [message for message in consumer.poll(_WAIT_S) if message.error() is None]
        deliveries = self._report(member, map(_received_by_librdkafka, messages), began_s)
        types = {place: treatment(place[1], delivery.count) for place, delivery in deliveries.items()}
        types = {place: AckType.ACCEPT if type_ is AckType.RENEW else type_ for place, type_ in types.items()}
        self._ends.wait(self._pause_s())
        for message in messages:
            type_ = types[message.partition(), message.offset()]
            consumer.acknowledge(message, LibrdkafkaType[type_.name])
        if messages:
            self._commit(consumer, _asks(deliveries, types))

    def _commit(self, consumer: Any, asked: Asked) -> None:
        results = {partition.partition: error for partition, error in consumer.commit_sync(_COMMIT_S).items()}
        confirmed_s = time.monotonic()
        for (partition, _), ack in asked.items():
            if partition in results and results[partition] is None:
                ack.confirmed_s = confirmed_s
            else:
                self.counts[f"acknowledgements: {_name(results.get(partition))}"] += 1


def _name(error: KafkaException | None) -> str:
    return "no result" if error is None else str(error.args[0].name())


def _received_by_librdkafka(message: Any) -> Received:
    count = message.delivery_count()
    return Received(message.partition(), message.offset(), count or 0, _decoded(message.value()))


class JavaShareMembers(Client):
    """A process of ``HistoryShareMember.java`` with some members. It is killed from time to time, and started again."""

    def __init__(
        self, bootstrap: str, topic: str, reports: Reports, folder: Path, *, members: int, seed: int, lock_s: float
    ) -> None:
        super().__init__("java-share-members")
        self._reports = reports
        self._rng = random.Random(f"{seed} {self.name}")
        arguments = [bootstrap, topic, reports.group, str(members), str(seed), str(int(lock_s * 1000))]
        self._command = [*compiled("HistoryShareMember", require_peer(), folder), *arguments]
        self._log_path = folder / f"{self.name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._deliveries: dict[str, Deliveries] = {}
        self._asked: dict[str, Asked] = {}
        self._is_left_alone = threading.Event()

    def ask_to_stop(self) -> None:
        super().ask_to_stop()
        if self._process is not None:
            self._process.kill()

    def _run(self) -> None:
        with self._log_path.open("ab") as log:
            while not self._ends.is_set():
                self.counts["lives of Java's share members"] += 1
                self._live(log)

    def let_live(self) -> None:
        """Kill no process from now on."""
        self._is_left_alone.set()

    def _live(self, log: Any) -> None:
        kills_at_s = inf
        with subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log
        ) as self._process:
            assert self._process.stdout is not None
            if self._ends.is_set():
                self._process.kill()
            for line in self._process.stdout:
                if line.endswith(b"\n"):  # The last line of a killed process may be cut.
                    self._handle(line.decode().split())
                if kills_at_s == inf:
                    kills_at_s = time.monotonic() + self._rng.uniform(*_PROCESS_LIVES_S)
                if self._ends.is_set() or (time.monotonic() > kills_at_s and not self._is_left_alone.is_set()):
                    self._process.kill()  # What it has printed before is read all the same.

    def _handle(self, words: Sequence[str]) -> None:
        match words:
            case ["received", member, requested, now, *records]:
                self._received(member, int(requested) / 1e9, int(now) / 1e9, records)
            case ["asks", member, now, *types]:
                self._asks(member, int(now) / 1e9, types)
            case ["answered", member, now, *results]:
                self._answered(member, int(now) / 1e9, results)
            case ["failed", _, error, *_]:
                self.counts[f"Java's share member ended: {error.split('.')[-1].rstrip(':')}"] += 1

    def _received(self, member: str, requested_s: float, received_s: float, records: Sequence[str]) -> None:
        deliveries: Deliveries = {}
        for record in records:
            partition, offset, count, producer, number = record.split(":")
            received = Received(int(partition), int(offset), int(count), RecordId(producer, int(number)))
            deliveries[int(partition), int(offset)] = self._reports.delivered(
                member, received, requested_s=requested_s, received_s=received_s
            )
        self.counts[f"shared records of {type(self).__name__}"] += len(deliveries)
        self._deliveries[member] = deliveries

    def _asks(self, member: str, asked_s: float, types: Sequence[str]) -> None:
        asked: Asked = {}
        for word in types:
            partition, offset, type_ = word.split(":")
            place = int(partition), int(offset)
            asked[place] = self._deliveries[member][place].acknowledges(AckType(type_), asked_s)
        self._asked[member] = asked

    def _answered(self, member: str, confirmed_s: float, results: Sequence[str]) -> None:
        errors = {int(partition): error for partition, error in (word.split(":") for word in results)}
        for (partition, _), ack in self._asked.pop(member).items():
            if errors.get(partition) == "none":
                ack.confirmed_s = confirmed_s
            else:
                self.counts[f"acknowledgements: {errors.get(partition, 'no result')}"] += 1
