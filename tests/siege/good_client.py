"""A well-behaved client: it produces, fetches and requests metadata at a steady rate, and records the latencies.

On a machine with other work a request is also late because the client or the node's loop waited for a processor. Linux
counts these waits for each thread, so that every request is recorded twice: by the clock, and without these waits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from http.client import HTTPConnection
from statistics import median
from typing import NamedTuple, Protocol

from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from tests.siege.measure import CoreWaits
from tests.siege.stage import ALICE, REST, TOPIC, Scene, logged_in

__all__ = ["GoodClient", "GoodRequests", "KafkaRequests", "Latencies", "RestRequests"]

_INTERVAL_S = 0.01


class Latencies(NamedTuple):
    """Latencies of some requests. ``own``: without the time in which the client or the node's loop waited for a
    processor."""

    median_s: float
    worst_s: float
    own_median_s: float
    own_worst_s: float
    requests: int

    @classmethod
    def of(cls, times: list[tuple[float, float]]) -> Latencies:
        """Compute the latencies from (duration, wait for a processor) of each request."""
        taken = [took for took, _ in times]
        own = [max(took - waited, 0.0) for took, waited in times]
        return cls(median(taken), max(taken), median(own), max(own), len(times))


class GoodRequests(Protocol):
    """The requests of a well-behaved client, in turn."""

    def turns(self) -> Sequence[Callable[[int], None]]:
        """Return the requests. Each accepts an increasing number, and raises if the answer is wrong."""
        ...

    def close(self) -> None: ...


class GoodClient:
    """Works on its own thread. A failed request ends it, and ``between`` raises the error."""

    def __init__(self, requests: GoodRequests, loop_pid: int | None) -> None:
        """``loop_pid``: a process whose first thread answers all requests."""
        self._requests = requests
        self._loop_pid = loop_pid
        self._times: list[tuple[float, float, float]] = []
        self.failure: BaseException | None = None
        self._began: float | None = None
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_stopping = True
        self._thread.join(60)
        self._requests.close()

    def between(self, *spans: tuple[float, float]) -> Latencies:
        """Return the latencies of requests that began in these spans (``perf_counter``). A waiting request counts with
        its time so far."""
        if self.failure is not None:
            raise RuntimeError("the well-behaved client failed") from self.failure
        waiting_since = self._began
        times = [
            (taken, waited)
            for start, end in spans
            for began, taken, waited in list(self._times)
            if start <= began < end
        ]
        if waiting_since is not None and any(start <= waiting_since < end for start, end in spans):
            times.append((time.perf_counter() - waiting_since, 0.0))
        return Latencies.of(times or [(sum(end - start for start, end in spans), 0.0)])

    def is_idle(self) -> bool:
        """Return whether the last request has been answered, or has failed."""
        began = self._began
        return self.failure is not None or began is None or time.perf_counter() - began < 0.05

    def _run(self) -> None:
        turns = self._requests.turns()
        number = 0
        waits = CoreWaits(self._loop_pid)
        try:
            while not self._is_stopping:
                waited_before = waits.total_s()
                began = self._began = time.perf_counter()
                turns[number % len(turns)](number)
                taken = time.perf_counter() - began
                self._began = None
                self._times.append((began, taken, waits.total_s() - waited_before))
                number += 1
                time.sleep(max(_INTERVAL_S - taken, 0))
        except BaseException as failure:
            self.failure = failure


class KafkaRequests:
    """The requests of ``alice``: produce, fetch the produced record, and metadata."""

    def __init__(self, scene: Scene) -> None:
        self._client = logged_in(scene.ports["SASL_PLAINTEXT"], ALICE)
        self._topic_id = Uuid(scene.topic_id)
        self._offset = 0

    def turns(self) -> Sequence[Callable[[int], None]]:
        return self._produce, self._fetch, self._metadata

    def close(self) -> None:
        self._client.close()

    def _produce(self, number: int) -> None:
        batch = build_batch([Record(0, int(time.time() * 1000), None, b"value %d" % number, ())])
        data = TopicProduceData(topic_id=self._topic_id, partition_data=[PartitionProduceData(index=0, records=batch)])
        answer = self._client.call(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data]), 13)
        produced = answer.responses[0].partition_responses[0]
        assert produced.error_code == 0, produced
        self._offset = produced.base_offset

    def _fetch(self, number: int) -> None:
        partition = FetchPartition(partition=0, fetch_offset=self._offset, partition_max_bytes=100_000)
        topic = FetchTopic(topic_id=self._topic_id, partitions=[partition])
        answer = self._client.call(FetchRequest(max_wait_ms=1000, min_bytes=1, session_epoch=-1, topics=[topic]), 17)
        fetched = answer.responses[0].partitions[0]
        assert fetched.error_code == 0, fetched
        assert fetched.records, fetched

    def _metadata(self, number: int) -> None:
        answer = self._client.call(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 12)
        assert answer.topics[0].error_code == 0, answer


class RestRequests:
    """The requests of a tool to a Connect worker."""

    def __init__(self, scene: Scene) -> None:
        self._connection = HTTPConnection("127.0.0.1", scene.ports[REST], timeout=60)

    def turns(self) -> Sequence[Callable[[int], None]]:
        return tuple(partial(self._get, path) for path in ("/connectors", "/", "/connectors?expand=status"))

    def close(self) -> None:
        self._connection.close()

    def _get(self, path: str, number: int) -> None:
        self._connection.request("GET", path)
        answer = self._connection.getresponse()
        body = answer.read()
        assert answer.status == 200, (path, answer.status, body[:300])
