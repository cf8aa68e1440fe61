"""A controller, a broker's metadata and a standby in one process. Each piece of work is timed separately.

The active controller appends to a log in memory. ``CommitDelivery`` delivers committed records, as in a node: to the
broker's publishers (image, rules, replicas) and to the controller, and from the encoded bytes to a standby. Times are
CPU time of the thread, because other work may run on the machine.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, cast

from barnabas.broker.metadata_cache import MetadataCache
from barnabas.broker.replica_manager import ReplicaManager
from barnabas.common.topic_config import TopicConfig
from barnabas.metadata.image.metadata_image import MetadataImage
from barnabas.metadata.loader import MetadataLoader
from barnabas.metadata.snapshot import pieces_of, records_of
from barnabas.protocol.stepped_writing import write_in_steps
from barnabas.raft.batch_accumulator import BatchAccumulator
from barnabas.raft.ready import AppendedBatch, LeaderAndEpoch
from barnabas.raft.replica_key import OffsetAndEpoch
from barnabas.security.authorizer.acl_publisher import AclPublisher
from barnabas.security.authorizer.standard_authorizer import StandardAuthorizer
from barnabas.security.principal import ANONYMOUS
from barnabas.server.metadata_log.commit_listener import MetadataListener
from barnabas.server.metadata_log.record_serde import MetadataRecordSerde
from barnabas.server.quorum.commit_delivery import CommitDelivery
from barnabas.storage.log_manager import LogManager
from barnabas.storage.snapshot_file import RawSnapshotWriter, SnapshotWriter
from tests.unit.controller.controller_harness import ControllerHarness, context

__all__ = ["BROKERS", "SESSION_MS", "Stage", "Turns"]

SESSION_MS = 9_000
BROKERS = (1, 2, 3, 4)
_BATCH_MAX_BYTES = 8 * 1024 * 1024
_NOTICEABLE_MS = 0.1
_HERE = 1
"""The broker whose replicas follow the metadata."""


class Turns(NamedTuple):
    """Of one kind of event: the longest turn in ms, what it was, how many there were, and all of them in ms."""

    longest_ms: float
    piece: str
    turns: int
    total_ms: float


class _Log:
    """What delivery reads besides memory: gaps where nothing was written, and a snapshot."""

    start_offset = 0
    latest_snapshot_id: OffsetAndEpoch | None = None

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def batches(self, offset: int, end_offset: int) -> Iterator[AppendedBatch]:
        yield _Gap(
            base_offset=offset,
            last_offset=end_offset - 1,
            epoch=0,
            timestamp_ms=0,
            data=b"",
            is_control=True,
            records=(),
        )


class _Gap(AppendedBatch):
    @property
    def next_offset(self) -> int:
        return self.last_offset + 1


class _Replicated:
    """The replicas that broker 1 leads for others: what their leaders do is not measured."""

    def lead(self, partition: object, registration: object) -> None:
        pass

    def end(self, partition: object, error: object) -> None:
        pass

    def follow_cluster(self, cluster: object) -> None:
        pass

    def stop(self) -> None:
        pass


class Stage(ControllerHarness):
    def __init__(self, folder: Path) -> None:
        super().__init__(broker_session_timeout_ms=SESSION_MS)
        self.pieces: list[tuple[float, str]] = []
        self.rules = StandardAuthorizer()
        self.rules.configure({"super.users": str(ANONYMOUS)})
        self.rules.complete_initial_load()
        self.cache = MetadataCache()
        self.replicas = ReplicaManager(
            broker_id=_HERE,
            logs=LogManager([str(folder / "logs")]),
            clock=self.clock,
            defaults=TopicConfig({}),
            new_leader_replicas=lambda cluster: cast("Any", _Replicated()),
        )
        self.loader = MetadataLoader()
        for publisher in (AclPublisher(self.rules), self.cache, self.replicas):
            self.loader.install(publisher)
        self.standby = ControllerHarness().controller
        self._log_file = _Log(str(folder))
        self._deliveries = (
            ("commit", self._delivery(self.loader, self.controller)),
            ("standby", self._delivery(MetadataLoader(), self.standby)),
        )

    def _delivery(self, loader: MetadataLoader, controller: Any) -> CommitDelivery:
        serde = MetadataRecordSerde()
        delivery = CommitDelivery(cast("Any", self._log_file), serde, 1)
        listener = MetadataListener(
            node_id=1,
            loader=loader,
            controller=controller,
            serde=serde,
            next_offset=lambda: self.end_offset,
            kraft_version=lambda: 1,
        )
        delivery.register(listener, None, LeaderAndEpoch(None, 0))
        return delivery

    # --- measuring

    def timed(self, piece: str, work: Callable[[], Any]) -> Any:
        began = time.thread_time()
        result = work()
        self.pieces.append(((time.thread_time() - began) * 1000, piece))
        return result

    def take_steps(self, piece: str, steps: Iterator[Any]) -> None:
        done = object()
        while self.timed(piece, partial(next, steps, done)) is not done:
            pass

    def measured(self, event: Callable[[], Any]) -> Turns:
        self.pieces.clear()
        event()
        longest_ms, piece = max(self.pieces, default=(0.0, "nothing"))
        return Turns(longest_ms, piece, len(self.pieces), sum(ms for ms, _ in self.pieces))

    # --- what a node does, timed

    def append(self) -> None:
        for append in self.controller.take_appends():
            batches = self.timed("append", partial(self._batches, append))
            self.controller.handle_appended([append], batches[0].base_offset)
            self._uncommitted.extend(batches)

    def _batches(self, append: Any) -> list[AppendedBatch]:
        accumulator = BatchAccumulator(
            epoch=self.epoch,
            base_offset=self.end_offset,
            serde=MetadataRecordSerde(),
            batch_max_bytes=_BATCH_MAX_BYTES,
            batch_max_records=10_000,
        )
        accumulator.append(append.records, self.clock.ms, is_atomic=append.is_atomic, values=append.values)
        return accumulator.drain()

    def commit(self, count: int | None = None) -> None:
        batches, self._uncommitted = cast("list[AppendedBatch]", self._uncommitted), []
        if batches:
            self.log[:] = cast("Any", batches[-1:])
            self._deliver(batches, batches[-1].last_offset + 1)

    def _deliver(self, batches: list[AppendedBatch], high_watermark: int) -> None:
        for piece, delivery in self._deliveries:
            handed_on = batches if piece == "commit" else list(map(_as_fetched, batches))
            self.timed(piece, partial(delivery.deliver, handed_on, high_watermark))
            while delivery.is_behind:
                self.timed(piece, delivery.advance)

    def load_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        """As a node that starts, or a replica that has fallen far behind."""
        self._log_file.latest_snapshot_id = snapshot_id
        self._log_file.start_offset = snapshot_id.offset
        gap = next(self._log_file.batches(snapshot_id.offset - 1, snapshot_id.offset))
        self.log[:] = [cast("Any", gap)]
        self._deliver([], snapshot_id.offset)

    def write_snapshot(self, image: MetadataImage) -> OffsetAndEpoch:
        provenance = image.provenance
        snapshot_id = OffsetAndEpoch(provenance.last_contained_offset + 1, provenance.last_contained_epoch)
        writer = SnapshotWriter(
            RawSnapshotWriter(self._log_file.directory, snapshot_id, token="bench"),
            last_contained_log_timestamp=0,
            now_ms=self.clock.ms,
            serde=MetadataRecordSerde(),
        )
        for records in pieces_of(records_of(image)):
            writer.append(records)
        writer.freeze()
        return snapshot_id

    def save_snapshot(self) -> None:
        """A node does it on a thread: what holds the event loop is each call of C code, which nothing interrupts.

        The calls are timed with a profiler, which counts what they call in turn, too. Those of the system let others go
        on meanwhile.
        """
        began: list[float] = []

        def profile(frame: FrameType, event: str, argument: object) -> None:
            if event == "c_call":
                began.append(time.thread_time())
            elif event in {"c_return", "c_exception"} and began:
                took_ms = (time.thread_time() - began.pop()) * 1000
                if took_ms > _NOTICEABLE_MS and getattr(argument, "__module__", None) != "posix":
                    self.pieces.append((took_ms, "thread"))

        sys.setprofile(profile)
        try:
            self.write_snapshot(self.loader.image)
        finally:
            sys.setprofile(None)

    # --- what a test's harness does, timed

    def answer(self, deferred: Any) -> Any:
        if hasattr(deferred, "work"):
            while self.timed("search", deferred.work.advance):
                pass
            deferred = self.timed("decision", deferred.decide)
        self.settle()
        self.take_turns()
        return deferred.value

    def call(self, handle: Callable[..., Any], request: Any, api_version: int = 7) -> Any:
        asked = context(api_version)
        deferred = self.timed("decision", lambda: handle(self.controller, asked, request, self.rules))
        response = self.answer(deferred)
        self.take_steps("answer", write_in_steps(response, min(api_version, response.MAX_VERSION), []))
        return response

    def take_turns(self) -> None:
        while (due_ms := self.controller.next_tick_ms()) is not None and due_ms <= self.clock.ms:
            self.timed("tick", partial(self.controller.tick, self.clock.ms))
            self.settle()

    # --- brokers

    def fall_silent(self, *brokers: int) -> None:
        """The sessions of these end; heartbeats of the others are not what is measured."""
        registered = self.controller.state.image.cluster.brokers
        for broker_id in BROKERS:
            if not registered[broker_id].fenced:
                self.heartbeat(broker_id)
        self.clock.ms += SESSION_MS // 2
        for broker_id in set(BROKERS).difference(brokers):
            if not registered[broker_id].fenced:
                self.heartbeat(broker_id)
        self.clock.ms += SESSION_MS - SESSION_MS // 2
        self.pieces.clear()
        self.take_turns()

    def comes_back(self, broker_id: int) -> None:
        self.heartbeat(broker_id)
        self.take_turns()

    def shuts_down(self, broker_id: int) -> None:
        self.heartbeat(broker_id, want_shut_down=True)
        self.take_turns()
        for other in set(BROKERS) - {broker_id}:
            self.heartbeat(other)
        self.heartbeat(broker_id, want_shut_down=True)
        self.take_turns()


def _as_fetched(batch: AppendedBatch) -> AppendedBatch:
    """As another replica has it: bytes alone."""
    return AppendedBatch(
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        epoch=batch.epoch,
        timestamp_ms=batch.timestamp_ms,
        data=batch.data,
        is_control=batch.is_control,
    )
