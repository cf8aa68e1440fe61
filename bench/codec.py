"""The codec on both sides in one run: Metadata v12 of 10,000 topics x 3 partitions.

Java encodes the whole answer; ours is timed three ways: from declared objects, from kept segments as the broker
does, and with an authorized-operations mask per topic.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from barnabas.broker.apis.metadata import handle_metadata
from barnabas.broker.broker_settings import BrokerSettings
from barnabas.broker.metadata_cache import MetadataCache
from barnabas.common.uuid import Uuid
from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage, MetadataProvenance
from barnabas.network.api_handler import Access
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.records.partition_record import PartitionRecord
from barnabas.protocol.records.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from barnabas.protocol.records.topic_record import TopicRecord
from barnabas.security.authorizer.authorizer import AllowAllAuthorizer
from barnabas.security.request_context import RequestContext
from tests.peers import peer_lib

__all__ = ["measure_codec", "measure_ours"]

_VERSION = 12


class _BenchBroker:
    broker_id = 1
    cluster_id = "bench"
    settings = BrokerSettings()

    def __init__(self, metadata: MetadataCache) -> None:
        self.metadata = metadata


def measure_codec(topics: int = 10_000) -> dict[str, float]:
    """Median microseconds; the Java figure comes from a JVM that is warm."""
    figures = {"Java encode, us": _java(topics)}
    figures |= measure_ours(topics)
    return figures


def measure_ours(topics: int) -> dict[str, float]:
    """The same without Java."""
    broker = _BenchBroker(_cache(topics))
    plain = MetadataRequest(topics=None)
    masked = MetadataRequest(topics=None, include_topic_authorized_operations=True)
    figures: dict[str, float] = {}
    with asyncio.Runner() as runner:
        message = MetadataResponse.decode(_answer(broker, plain, runner), _VERSION)
        gc.freeze()
        figures["ours from objects, us"] = _median(lambda: message.encode(_VERSION), 15)
        figures["ours from kept segments, us"] = _median(lambda: _answer(broker, plain, runner), 100)
        figures["ours with a mask per topic, us"] = _median(lambda: _answer(broker, masked, runner), 50)
        gc.unfreeze()
    return figures


def _answer(broker: _BenchBroker, request: MetadataRequest, runner: asyncio.Runner) -> bytes:
    context = RequestContext(api_key=ApiKey.METADATA, api_version=_VERSION, listener_name="PLAINTEXT")
    handler = handle_metadata.api_handler  # type: ignore[attr-defined]
    response = handler.function(broker, request, Access(AllowAllAuthorizer(), context, handler.acl))
    if inspect.isawaitable(response):  # A large answer is worked out in turns.
        response = runner.run(_awaited(response))
    chunks: list[bytes] = []
    response.write(_VERSION, chunks)
    return b"".join(chunks)


async def _awaited(response: Awaitable[MetadataResponse]) -> MetadataResponse:
    return await response


def _cache(topics: int) -> MetadataCache:
    delta = MetadataDelta(MetadataImage.EMPTY)
    endpoint = BrokerEndpoint(name="PLAINTEXT", host="localhost", port=9092)
    delta.replay(RegisterBrokerRecord(broker_id=1, end_points=[endpoint], fenced=False))
    for number in range(topics):
        topic_id = Uuid.from_int((7 << 64) + number)
        delta.replay(TopicRecord(name=f"bench-{number:06d}", topic_id=topic_id))
        for partition in range(3):
            delta.replay(
                PartitionRecord(
                    partition_id=partition,
                    topic_id=topic_id,
                    replicas=[1],
                    isr=[1],
                    leader=1,
                    leader_epoch=0,
                    partition_epoch=0,
                    directories=[Uuid.from_int(1000)],
                )
            )
    cache = MetadataCache()
    cache.image = delta.apply(MetadataProvenance(1, 1, 0))
    return cache


def _median(work: Callable[[], object], rounds: int) -> float:
    for _ in range(max(3, rounds // 5)):
        work()
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e6


def _java(topics: int) -> float:
    import subprocess

    source = Path(__file__).parent / "java" / "MetadataCodec.java"
    done = subprocess.run(
        ["java", "-Xmx1g", "-cp", f"{peer_lib()}/*", str(source), str(topics)],
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return float(done.stdout.split()[-1])
