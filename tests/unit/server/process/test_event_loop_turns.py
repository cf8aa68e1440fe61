"""How a running node reports the longest delays of its event loop."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.common.acl import AclBinding
from barnabas.common.uuid import Uuid
from barnabas.metadata.image.acls import acl_record
from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage, MetadataProvenance
from barnabas.protocol.record_serde import decode_metadata_record, encode_metadata_record
from barnabas.protocol.records.partition_record import PartitionRecord
from barnabas.protocol.records.topic_record import TopicRecord
from barnabas.server.metrics.collector import NodeCollector
from barnabas.server.process import garbage_collection
from barnabas.server.process.event_loop_turns import LONG_TURN_S, LoopTurns, TurnTimes, measured_loop, turns_of
from barnabas.server.process.garbage_collection import BoundedPauses, least_extent_of


class Watch:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def test_the_longest_turn_is_kept_for_a_minute_at_least_and_two_at_most() -> None:
    watch = Watch()
    turns = LoopTurns(watch)
    turns.took(0.5, watch.now_s)
    for _ in range(6):
        watch.now_s += 9.9
        turns.took(0.001, watch.now_s)
        assert turns.longest_s == 0.5
    for _ in range(8):
        watch.now_s += 9.9
        turns.took(0.001, watch.now_s)
    assert turns.longest_s == 0.001


def test_an_idle_loop_forgets_its_longest_turn() -> None:
    watch = Watch()
    turns = LoopTurns(watch)
    turns.took(0.5, watch.now_s)
    watch.now_s += 200
    assert turns.longest_s == 0.0


def test_long_turns_are_counted() -> None:
    turns = LoopTurns(Watch())
    turns.took(LONG_TURN_S, 0)
    turns.took(LONG_TURN_S * 2, 0)
    assert turns.long_turns == 1


def test_decisions_are_reported_by_kind_including_failed_ones() -> None:
    watch = Watch()
    times = TurnTimes(watch)
    with times.of("CreateTopics"):
        watch.now_s += 0.25

    def fails() -> None:
        with times.of("tick"):
            watch.now_s += 0.5
            raise ValueError("cannot decide")

    with pytest.raises(ValueError, match="cannot decide"):
        fails()
    assert times.longest_s() == {"CreateTopics": 0.25, "tick": 0.5}


def test_a_running_node_reports_its_longest_turns() -> None:
    watch = Watch()
    turns, times = LoopTurns(watch), TurnTimes(watch)
    turns.took(0.25, watch.now_s)
    with times.of("tick"):
        watch.now_s += 0.125
    node: Any = SimpleNamespace(core=SimpleNamespace(loop_turns=turns, turn_times=times))
    reported = {
        (sample.name, *sample.labels.values()): sample.value
        for metric in NodeCollector(node)._turns()
        for sample in metric.samples
    }
    assert reported == {
        ("barnabas_event_loop_longest_turn_seconds",): 0.25,
        ("barnabas_event_loop_long_turns_total",): 1,
        ("barnabas_controller_longest_decision_seconds", "tick"): 0.125,
    }


def test_a_measured_loop_has_turns_and_another_has_none() -> None:
    async def turns() -> LoopTurns | None:
        await asyncio.sleep(0)
        return turns_of(asyncio.get_running_loop())

    with asyncio.Runner(loop_factory=measured_loop) as runner:
        found = runner.run(turns())
    assert found is not None
    assert found.longest_s > 0
    assert asyncio.run(turns()) is None


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Capture the calls to the collector; the tests' own objects are not frozen."""
    calls: list[str] = []
    monkeypatch.setattr(gc, "freeze", lambda: calls.append("freeze"))
    monkeypatch.setattr(gc, "unfreeze", lambda: calls.append("unfreeze"))
    monkeypatch.setattr(garbage_collection, "_survivor_count", int)
    monkeypatch.setattr(garbage_collection, "_frozen_count", int)
    monkeypatch.setattr(garbage_collection, "_give_back_freed_memory", lambda: calls.append("give back"))
    return calls


def collect(pauses: BoundedPauses, watch: Watch, took_s: float, generation: int = 2) -> None:
    pauses._on_collection("start", {"generation": generation})
    watch.now_s += took_s
    pauses._on_collection("stop", {"generation": generation})


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    made = Watch()
    monkeypatch.setattr(garbage_collection, "perf_counter", made)
    return made


@pytest.fixture
def resident(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    size = [1_000_000_000]
    monkeypatch.setattr(garbage_collection, "_resident_bytes", lambda: size[0])
    return size


def test_objects_that_survive_a_long_full_collection_are_frozen(
    frozen: list[str], watch: Watch, resident: list[int]
) -> None:
    pauses = installed(list)
    collect(pauses, watch, 0.001)
    collect(pauses, watch, 0.5, generation=1)
    assert frozen == []
    collect(pauses, watch, 0.5)
    assert frozen == ["freeze"]
    assert pauses.longest_s == 0.5


def test_a_process_that_grew_by_half_is_fully_collected_again(
    frozen: list[str], watch: Watch, resident: list[int]
) -> None:
    pauses = installed(list)
    resident[0] = 1_400_000_000
    collect(pauses, watch, 0.5)
    assert frozen == ["freeze"]
    resident[0] = 1_600_000_000
    collect(pauses, watch, 0.5)
    assert frozen == ["freeze", "freeze", "unfreeze"]
    collect(pauses, watch, 2.0)
    assert frozen == ["freeze", "freeze", "unfreeze", "freeze", "give back"], "growth is now measured from this size"


def installed(images: Callable[[], Iterable[MetadataImage]]) -> BoundedPauses:
    pauses = BoundedPauses(images)
    pauses.install()
    pauses.remove()
    return pauses


def test_objects_read_at_the_start_do_not_count_as_growth(frozen: list[str], watch: Watch, resident: list[int]) -> None:
    pauses = BoundedPauses(list)
    resident[0] *= 3
    pauses.install()
    pauses.remove()
    collect(pauses, watch, 0.5)
    assert frozen == ["freeze"]


def image_of(topics: int, partitions: int = 1, rules: int = 0) -> MetadataImage:
    """Build an image as from a snapshot: each value is a separate object."""
    delta = MetadataDelta(MetadataImage.EMPTY)
    records: list[Any] = []
    for number in range(topics):
        topic_id = Uuid.from_int(number + 1)
        records.append(TopicRecord(name=f"orders.of.a.shop-{number:05}", topic_id=topic_id))
        records += [
            PartitionRecord(partition_id=index, topic_id=topic_id, replicas=[1, 2, 3], isr=[1, 2, 3], leader=1)
            for index in range(partitions)
        ]
    for number in range(rules):
        binding = AclBinding(2, f"orders.of.a.shop-{number:05}", 3, "User:alice", "*", 3, 3)
        records.append(acl_record(Uuid.from_int(number + 1), binding))
    for record in records:
        delta.replay(decode_metadata_record(encode_metadata_record(record, 0))[0])
    return delta.apply(MetadataProvenance(1, 1, 1))


PROJECT = Path(__file__).resolve().parents[4]
MEASURED_IMAGE = """
import gc, json, sys, tracemalloc
from barnabas.server.process.garbage_collection import least_extent_of
from tests.unit.server.process.test_event_loop_turns import image_of

image_of(*map(int, sys.argv[1:]))  # Codecs are compiled and the table of interned texts grows, once.
gc.collect()
gc.disable()
tracemalloc.start()
before = tracemalloc.get_traced_memory()[0], len(gc.get_objects())
image = image_of(*map(int, sys.argv[1:]))
gc.collect()
after = tracemalloc.get_traced_memory()[0], len(gc.get_objects())
print(json.dumps([(least, now - was) for least, now, was in zip(least_extent_of(image), after, before)]))
"""
"""Measured in a separate process: objects left by other tests are not part of an image."""


@pytest.mark.parametrize("shape", [(3_000, 1, 0), (30, 100, 0), (0, 0, 3_000)])
def test_metadata_uses_at_least_the_assumed_size_and_not_much_more(shape: tuple[int, int, int]) -> None:
    """At most half more; otherwise growth by metadata alone would cause a full collection."""
    program = [sys.executable, "-c", MEASURED_IMAGE, *map(str, shape)]
    ended = subprocess.run(program, capture_output=True, text=True, check=True, cwd=PROJECT)
    for assumed, taken in json.loads(ended.stdout):
        assert assumed <= taken < 1.5 * assumed


def test_frozen_objects_count_as_long_as_they_live(
    frozen: list[str], watch: Watch, resident: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory that a full collection freed is filled with new garbage without any growth."""
    alive = [4_000_000]
    monkeypatch.setattr(garbage_collection, "_frozen_count", lambda: alive[0])
    monkeypatch.setattr(garbage_collection, "_survivor_count", lambda: 1_500_000)
    pauses = installed(list)
    alive[0] = 4_100_000
    for _ in range(10):
        collect(pauses, watch, 0.5)
    assert frozen == ["freeze"] * 10, "most of them were freed again"
    alive[0] = 6_100_000
    while "unfreeze" not in frozen and len(frozen) < 20:
        collect(pauses, watch, 0.5)
    assert frozen[-1] == "unfreeze"


def test_growth_of_the_metadata_causes_no_full_collection(frozen: list[str], watch: Watch, resident: list[int]) -> None:
    images = [MetadataImage.EMPTY]
    resident[0] = 60_000_000
    pauses = installed(lambda: images)
    images[:] = [image_of(3_000)] * 100
    of_metadata = 100 * least_extent_of(images[0]).memory
    assert of_metadata > 150_000_000
    resident[0] += of_metadata
    collect(pauses, watch, 0.5)
    assert frozen == ["freeze"]
    resident[0] += of_metadata
    collect(pauses, watch, 0.5)
    assert frozen == ["freeze", "freeze", "unfreeze"], "growth that the metadata does not explain may be garbage"


LEAK = """
import gc
from barnabas.server.process import garbage_collection
from barnabas.server.process.garbage_collection import BoundedPauses

garbage_collection._LONG_S = 0
garbage_collection._GROWTH_MIN = (8 << 20, 10_000)
BoundedPauses(list).install()
gc.disable()
largest = 0
for _ in range(120):
    in_use = []
    for _ in range({count}):
        cycle = [{content}]
        cycle.append(cycle)
        in_use.append(cycle)
    gc.collect()
    largest = max(largest, garbage_collection._resident_bytes())
print(largest)
"""


@pytest.mark.parametrize(
    ("count", "content", "bound"),
    [(100, "bytearray(40_000)", 60_000_000), (10_000, "object(), (object(),) * 30", 35_000_000)],
)
def test_memory_stays_bounded_even_if_all_frozen_objects_become_garbage(count: int, content: str, bound: int) -> None:
    """Half a gigabyte in total, as large values or small objects."""
    program = LEAK.format(count=count, content=content)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(ended.stdout) < bound


def test_collections_are_observed_until_the_hook_is_removed() -> None:
    pauses = BoundedPauses(list)
    pauses.install()
    assert pauses._on_collection in gc.callbacks
    pauses.remove()
    pauses.remove()
    assert pauses._on_collection not in gc.callbacks
