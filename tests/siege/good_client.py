"""A well-behaved client: it produces, fetches and asks for metadata at a steady rate, and notes how long each took."""

from __future__ import annotations

import threading
import time
from statistics import median
from typing import NamedTuple

from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from tests.siege.stage import ALICE, TOPIC, Scene, logged_in

__all__ = ["GoodClient", "Latencies"]

_INTERVAL_S = 0.01


class Latencies(NamedTuple):
    median_s: float
    worst_s: float
    requests: int


class GoodClient:
    """Works on a thread of its own. A failed request ends it, and is raised by ``since``."""

    def __init__(self, scene: Scene) -> None:
        self._client = logged_in(scene.ports["SASL_PLAINTEXT"], ALICE)
        self._topic_id = Uuid(scene.topic_id)
        self._times: list[tuple[float, float]] = []
        self._failure: BaseException | None = None
        self._began: float | None = None
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_stopping = True
        self._thread.join(60)
        self._client.close()

    def between(self, start: float, end: float) -> Latencies:
        """Of the requests that began in this span (``time.perf_counter``). One that is still waiting counts so far."""
        if self._failure is not None:
            raise RuntimeError("the well-behaved client failed") from self._failure
        times = [taken for began, taken in list(self._times) if start <= began < end]
        waiting_since = self._began
        if waiting_since is not None and waiting_since < end:
            times.append(time.perf_counter() - waiting_since)
        if not times:
            return Latencies(end - start, end - start, 0)
        return Latencies(median(times), max(times), len(times))

    def is_idle(self) -> bool:
        """Whether the last request has been answered."""
        began = self._began
        return began is None or time.perf_counter() - began < 0.05

    def _run(self) -> None:
        turns = (self._produce, self._fetch, self._metadata)
        number = 0
        try:
            while not self._is_stopping:
                began = self._began = time.perf_counter()
                turns[number % len(turns)](number)
                self._began = None
                taken = time.perf_counter() - began
                self._times.append((began, taken))
                number += 1
                time.sleep(max(_INTERVAL_S - taken, 0))
        except BaseException as failure:
            self._failure = failure

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
