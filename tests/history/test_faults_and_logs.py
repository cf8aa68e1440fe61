"""The seed alone determines a plan of faults; replicas that differ are reported."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.history.fault_injector import FaultInjector
from tests.history.faults import Abilities, Fault, FaultKind, plan
from tests.history.log_files import batch_at, compare_replicas, compare_topics

BROKERS = ("broker-1", "broker-2", "broker-3")
CONTROLLERS = ("controller-3001", "controller-3002", "controller-3003")


@pytest.mark.parametrize("seed", range(10))
def test_a_seed_determines_the_faults_and_all_end_in_time(seed: int) -> None:
    abilities = Abilities(disks=True, clocks=True)
    tracks = plan(seed, 100, BROKERS, CONTROLLERS, abilities)
    assert tracks == plan(seed, 100, BROKERS, CONTROLLERS, abilities)
    assert tracks != plan(seed + 1, 100, BROKERS, CONTROLLERS, abilities)
    for track in tracks:
        ends = 0.0
        for fault in track:
            assert fault.begins_s >= ends, "one after the other"
            ends = fault.begins_s + fault.lasts_s
        assert ends <= 100


def test_a_plan_has_every_fault_that_the_machine_supports_and_no_other() -> None:
    def kinds(abilities: Abilities) -> set[FaultKind]:
        tracks = plan(1, 3600, BROKERS, CONTROLLERS, abilities)
        return {fault.kind for track in tracks for fault in track}

    assert kinds(Abilities(disks=True, clocks=True)) == set(FaultKind)
    assert kinds(Abilities()) == set(FaultKind) - {FaultKind.FULL_DISK, FaultKind.CLOCK}


def test_faults_after_a_long_one_start_later_or_are_omitted(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, begun_s = [0.0], []

    class Clock:
        def monotonic(self) -> float:
            return now_s[0]

        def sleep(self, seconds: float) -> None:
            now_s[0] += seconds

    class Slow(FaultInjector):
        def _do(self, fault: Fault) -> None:
            begun_s.append(now_s[0])
            now_s[0] += 5 * fault.lasts_s

    monkeypatch.setattr("tests.history.fault_injector.time", Clock())
    injector = Slow(cast("Any", SimpleNamespace(nodes=[])), {"history": 4}, seed=1)
    track = [Fault(begins_s, 1.0, FaultKind.FREEZE) for begins_s in (2.0, 5.0, 8.0, 11.0)]
    injector.run([track], 15.0)
    assert begun_s == [2.0, 9.0]
    assert (injector.latest_s, injector.counts["left out for want of time"]) == (8.0, 2)


def test_no_node_is_cut_off_from_itself() -> None:
    cuts = [
        fault.nodes
        for seed in range(20)
        for track in plan(seed, 300, BROKERS, CONTROLLERS, Abilities())
        for fault in track
        if fault.kind is FaultKind.CUT
    ]
    assert len(cuts) > 20
    assert all(source != destination for source, destination in cuts)


def batch(text: bytes) -> bytes:
    return text.ljust(61, b".")


EQUAL = {0: batch(b"a"), 3: batch(b"b"), 5: batch(b"c")}


@pytest.mark.parametrize(
    ("other", "is_equal"),
    [
        (dict(EQUAL), True),
        ({3: EQUAL[3], 5: EQUAL[5]}, True),  # Its head is already deleted.
        ({0: EQUAL[0], 3: EQUAL[3]}, False),
        ({**EQUAL, 7: batch(b"d")}, False),
        ({**EQUAL, 3: batch(b"x")}, False),
        ({0: EQUAL[0], 4: EQUAL[3], 5: EQUAL[5]}, False),
    ],
)
def test_replicas_are_compared_batch_by_batch(other: dict[int, bytes], is_equal: bool) -> None:
    assert (compare_replicas("t-0", {"1": EQUAL, "2": other}) == []) is is_equal
    assert (compare_replicas("t-0", {"1": other, "2": EQUAL}) == []) is is_equal


def test_uncommitted_batches_are_not_compared() -> None:
    assert compare_replicas("t-0", {"1": EQUAL, "2": {0: EQUAL[0]}}, end=3) == []


def test_a_replica_that_a_broker_lacks_is_reported(tmp_path: Path) -> None:
    for broker in "12":
        (tmp_path / broker / "t-0").mkdir(parents=True)
    (tmp_path / "1" / "other-0").mkdir()
    folders = {broker: tmp_path / broker for broker in "12"}
    (tmp_path / "1" / "t-0" / f"{0:020}.log").write_bytes(_real_batch())
    count, found = compare_topics(folders, lambda topic: topic == "t")
    assert (count, len(found)) == (1, 1)
    assert compare_topics(folders, lambda topic: topic == "t", ends={"t-0": 0}) == (1, [])
    assert len(compare_topics(folders, lambda topic: topic == "t", ends={"t-0": 1, "t-1": 0})[1]) == 1


def test_the_writer_of_a_batch_is_reported(tmp_path: Path) -> None:
    (tmp_path / f"{0:020}.log").write_bytes(_real_batch())
    assert batch_at(tmp_path, 0).startswith("0 in 0 to 0: producer -1, epoch -1, sequence -1, leader epoch ")
    assert batch_at(tmp_path, 1) == "1: nothing"


def _real_batch() -> bytes:
    from tests.unit.storage.log_driver import batch as real_batch

    return bytes(real_batch(b"a"))
