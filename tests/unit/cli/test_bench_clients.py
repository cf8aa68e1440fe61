"""Requests of several clients are counted, end with the first error or a stop, and respect a throttle."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas.cli.bench.clients import WatchedConnection, WatchedNetwork, measure_requests
from barnabas.cli.bench.consume import ConsumeResult
from barnabas.cli.bench.end_to_end import EndToEndLatencies
from barnabas.clients.client_config import Address
from barnabas.clients.consumer.completed_fetch import Fetched
from barnabas.clients.errors import Disconnected
from barnabas.clients.leader_tracker import ThrottleStatistics
from barnabas.clients.producer.batch import ProducerBatch, Run
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.record_batch import BatchView, Record
from barnabas.protocol.record_batch_builder import build_batch


def test_each_request_number_is_sent_once_by_one_of_the_clients() -> None:
    async def scenario() -> None:
        sent: list[tuple[str, int]] = []

        async def send_request(client: str, number: int) -> int:
            sent.append((client, number))
            await asyncio.sleep(0)
            return 2

        figures = await measure_requests("things", 7, ["a", "b", "c"], send_request, asyncio.Event())
        assert sorted(number for _, number in sent) == list(range(7))
        assert {client for client, _ in sent} == {"a", "b", "c"}
        assert (figures.requests, figures.items, figures.latencies.count) == (7, 14, 7)
        assert figures.document()["operation"] == "things"

    asyncio.run(scenario())


def test_the_first_error_ends_the_measurement() -> None:
    async def scenario() -> None:
        async def send_request(client: int, number: int) -> int:
            await asyncio.sleep(0)
            if number == 3:
                raise Disconnected("gone")
            return 1

        figures = await measure_requests("things", 1000, [1, 2], send_request, asyncio.Event())
        assert isinstance(figures.failure, Disconnected)
        assert figures.requests <= 5

    asyncio.run(scenario())


def test_after_a_stop_requests_in_flight_finish_and_no_new_ones_start() -> None:
    async def scenario() -> None:
        stop = asyncio.Event()
        done: list[int] = []

        async def send_request(client: int, number: int) -> int:
            if number == 2:
                stop.set()
            for _ in range(5):
                await asyncio.sleep(0)
            done.append(number)
            return 1

        figures = await measure_requests("things", 1000, [1, 2, 3], send_request, stop)
        assert sorted(done) == [0, 1, 2]
        assert figures.requests == 3

    asyncio.run(scenario())


class FakeConnection:
    def __init__(self, throttle_ms: int) -> None:
        self.address = Address("node", 9092)
        self.versions: dict[int, Any] = {}
        self.is_open = True
        self.in_flight = 0
        self.throttle_ms = throttle_ms
        self.request_count = 0

    def version_of(self, api_key: int) -> int:
        return 1

    async def request(self, message: Any, **options: Any) -> Any:
        self.request_count += 1
        return SimpleNamespace(throttle_time_ms=self.throttle_ms)


def test_a_throttled_client_waits_before_its_next_request() -> None:
    async def scenario() -> None:
        throttle = ThrottleStatistics()
        node = FakeConnection(3_600_000)
        connection = WatchedConnection(cast("Any", node), throttle)
        await connection.request(ApiVersionsRequest())
        again = asyncio.ensure_future(connection.request(ApiVersionsRequest()))
        for _ in range(10):
            await asyncio.sleep(0)
        assert node.request_count == 1
        again.cancel()
        assert (throttle.throttled_responses, throttle.throttle_max_s) == (1, 3600)

    asyncio.run(scenario())


def test_a_reopened_connection_is_watched_again() -> None:
    async def scenario() -> None:
        connections = [FakeConnection(0), FakeConnection(0)]
        network = SimpleNamespace(connection_to=None)

        async def connection_to(address: Address) -> FakeConnection:
            return connections[0]

        network.connection_to = connection_to
        watched = WatchedNetwork(cast("Any", network), ThrottleStatistics())
        first = await watched.connection_to(connections[0].address)
        assert await watched.connection_to(connections[0].address) is first
        connections.pop(0)
        assert await watched.connection_to(connections[0].address) is not first

    asyncio.run(scenario())


def fetched(*values: bytes | None) -> Fetched:
    batch = build_batch([Record(offset, 0, None, value) for offset, value in enumerate(values)])
    return Fetched("orders", 0, 0, [BatchView(batch)])


def test_latencies_count_only_records_of_their_own_run() -> None:
    async def scenario() -> None:
        trips = EndToEndLatencies(b"12345678", warmup=1)
        trips.sent_at = {0: 0.0, 1: 0.0, 2: 0.0}
        value = trips.value(1, 40)
        assert len(value) == 40
        trips.take(fetched(b"of another run", None, trips.value(0, 16), value, value))
        assert (trips.arrived, trips.again, trips.latencies.count) == (2, 1, 1)
        assert list(trips.sent_at) == [2]

    asyncio.run(scenario())


def test_acknowledgements_during_the_warm_up_are_not_counted() -> None:
    async def scenario() -> None:
        trips = EndToEndLatencies(b"12345678", warmup=2)
        for _ in range(5):
            batch = ProducerBatch(0, 0.0, 0)
            batch.append([b"x"], Run(1.0, 0.0, 1), 0)
            trips.acknowledge(batch, 1.5)
        assert (trips.acknowledged.count, trips.acknowledged.max_s) == (3, 0.5)

    asyncio.run(scenario())


def test_a_consumer_is_done_when_it_has_received_the_requested_number_of_records() -> None:
    async def scenario() -> None:
        received = ConsumeResult(0.0, 4, asyncio.Event())
        received.take(fetched(b"aa", b"bb", None))
        assert not received.enough.is_set()
        received.take(fetched(b"c"))
        assert received.enough.is_set()
        assert (received.records, received.size) == (4, 5)
        assert received.elapsed_s == pytest.approx(received.last_at)

    asyncio.run(scenario())
