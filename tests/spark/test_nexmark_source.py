"""NEXMark's events are the published ones: their proportions, ids and references; and always the same."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.connect.plugins.testing import ConnectorKit
from barnabas.connect_spark.connectors.nexmark.event_columns import auction_ms_max
from barnabas.connect_spark.connectors.nexmark.nexmark_source import NexmarkSource

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

    from barnabas.connect.plugins.api import SourceOffset

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

EVENTS = 20_030
"""Not whole blocks."""
FULL_SPEED = {"events": str(EVENTS), "events.per.second": "0"}
Run = tuple[list["Row"], list["SourceOffset"]]


def run(spark: SparkSession, settings: dict[str, str], *, offsets: Any = (), tasks: int = 1, task: int = 0) -> Run:
    """Return what a task finds until it finds no more, and its last positions."""
    kit = ConnectorKit(NexmarkSource, settings)
    assert kit.errors == {}
    source: Any = kit.task(task, max_tasks=tasks, offsets=offsets)
    source.start(spark)
    rows: list[Row] = []
    positions: list[SourceOffset] = [*offsets]
    while (found := source.poll(spark)) is not None:
        frames = [frame.collect() for frame in found.frames]
        assert [len(frame) for frame in frames] == found.counts
        assert {row.topic for frame in frames for row in frame} == found.topics
        rows += [row for frame in frames for row in frame]
        positions = found.offsets
    return rows, positions


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> dict[str, list[Any]]:
    rows, _ = run(spark, FULL_SPEED)
    found: dict[str, list[Any]] = {}
    for row in rows:
        assert row.key == str(row.value.auction if row.topic == "nexmark-bid" else row.value.id)
        found.setdefault(row.topic.removeprefix("nexmark-"), []).append(row.value)
    return found


def test_the_proportions_are_the_published_ones_and_ids_have_no_gaps(events: dict[str, list[Any]]) -> None:
    assert {kind: len(values) for kind, values in events.items()} == {"person": 401, "auction": 1203, "bid": 18_426}
    assert [person.id for person in events["person"]] == list(range(1000, 1401))
    assert [auction.id for auction in events["auction"]] == list(range(1000, 2203))


def test_event_time_advances_by_the_events_number(events: dict[str, list[Any]]) -> None:
    first = events["person"][0].dateTime
    assert [person.dateTime - first for person in events["person"]] == [
        timedelta(milliseconds=5 * index) for index in range(401)
    ]
    for values in events.values():
        times = [value.dateTime for value in values]
        assert times == sorted(times)


def test_auctions_end_in_time_and_belong_to_persons_who_exist_or_come_soon(events: dict[str, list[Any]]) -> None:
    longest = timedelta(milliseconds=auction_ms_max(10_000))
    for index, auction in enumerate(events["auction"]):
        assert timedelta(0) < auction.expires - auction.dateTime <= longest
        assert 1000 <= auction.seller <= 1000 + index // 3 + 10
        assert auction.reserve > auction.initialBid >= 100
    assert {auction.category for auction in events["auction"]} == {10, 11, 12, 13, 14}


def test_bids_are_for_open_auctions_and_half_of_them_for_the_hot_one(events: dict[str, list[Any]]) -> None:
    hot_auctions = hot_bidders = 0
    for index, bid in enumerate(events["bid"]):
        last_auction, last_person = 1000 + index // 46 * 3 + 2, 1000 + index // 46
        assert max(last_auction - 100, 1000) <= bid.auction <= last_auction + 10
        assert 1000 <= bid.bidder <= last_person + 10
        assert 100 <= bid.price <= 100_000_000
        hot_auctions += bid.auction % 100 == 0
        hot_bidders += bid.bidder % 100 == 1
    assert hot_auctions / len(events["bid"]) == pytest.approx(0.505, abs=0.02)
    assert hot_bidders / len(events["bid"]) == pytest.approx(0.7525, abs=0.02)


def test_events_have_about_the_published_size_and_states_that_the_queries_name(events: dict[str, list[Any]]) -> None:
    for kind, size in (("person", 200), ("auction", 500), ("bid", 100)):
        texts = [
            "".join(str(value) for name, value in event.asDict().items() if name not in ("dateTime", "expires"))
            for event in events[kind]
        ]
        assert sum(map(len, texts)) / len(texts) == pytest.approx(size, rel=0.2)
    states = Counter(person.state for person in events["person"])
    assert states.keys() == {"AZ", "CA", "ID", "OR", "WA", "WY"}
    assert all(count > 30 for count in states.values())


def test_tasks_share_the_events_and_continue_where_others_ended(spark: SparkSession) -> None:
    settings = {"topic": "all", "event.time.type": "text", "events.per.second": "0"}
    whole, _ = run(spark, {**settings, "events": "3030"})
    of_two = [run(spark, {**settings, "events": "1234"}, tasks=2, task=task) for task in range(2)]
    positions = [offset for _, offsets in of_two for offset in offsets]
    of_three = [run(spark, {**settings, "events": "3030"}, offsets=positions, tasks=3, task=task) for task in range(3)]
    together = [row for rows, _ in of_two + of_three for row in rows]
    assert sorted(map(str, together)) == sorted(map(str, whole))
    assert len({len(rows) for rows, _ in of_three}) > 1
    bid = whole[49].value
    assert (bid.event_type, bid.person, bid.auction) == (2, None, None)
    assert bid.bid.dateTime == "2015-07-15T00:00:00.004Z"


def test_another_seed_makes_other_events(spark: SparkSession) -> None:
    settings = {"events": "50", "events.per.second": "0"}
    (one, _), (other, _) = run(spark, settings), run(spark, {**settings, "seed": "1"})
    assert one != other
