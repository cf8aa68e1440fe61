"""Which replica a leader sends a consumer to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas.broker.replication.replica_selector import RackAwareReplicaSelector
from barnabas.broker.replication.replica_state import ReplicaState


def replica(broker_id: int, start: int, end: int, caught_up_ms: int | None = 0) -> ReplicaState:
    made = ReplicaState(broker_id)
    made.log_start_offset, made.log_end_offset, made.last_caught_up_ms = start, end, caught_up_ms
    return made


class Stage:
    """Broker 1 leads in rack a; 2, 3 and 4 are in rack b; 5 is in rack c and not in sync."""

    def __init__(self) -> None:
        racks = {1: "a", 2: "b", 3: "b", 4: "b", 5: "c"}
        brokers = {broker_id: SimpleNamespace(rack=rack) for broker_id, rack in racks.items()}
        self.without_listener: set[int] = set()
        metadata = SimpleNamespace(
            image=SimpleNamespace(cluster=SimpleNamespace(brokers=brokers)),
            endpoint=lambda broker, listener: None if broker in self.without_listener else object(),
        )
        self.replicas = {
            follower.broker_id: follower
            for follower in (replica(2, 0, 50), replica(3, 10, 90, 5), replica(4, 0, 90, 9), replica(5, 0, 99))
        }
        leadership = SimpleNamespace(isr={1, 2, 3, 4}, replicas=self.replicas)
        self.leader = SimpleNamespace(leadership=leadership)
        self.selector = RackAwareReplicaSelector(cast("Any", metadata), 1)

    def select(self, offset: int, rack: str) -> int:
        return self.selector.select(cast("Any", self.leader), offset, rack, "PLAINTEXT")


@pytest.mark.parametrize(
    ("offset", "rack", "chosen"),
    [
        (20, "", -1),
        (20, "a", -1),
        (20, "nowhere", -1),
        (20, "c", -1),  # Not in sync.
        (20, "b", 4),  # 3 has the same offset, but caught up longer ago.
        (90, "b", 4),
        (91, "b", -1),
    ],
)
def test_the_most_up_to_date_replica_in_the_clients_rack_is_chosen(offset: int, rack: str, chosen: int) -> None:
    assert Stage().select(offset, rack) == chosen


def test_replicas_without_the_listener_or_the_offset_are_not_chosen() -> None:
    stage = Stage()
    stage.without_listener = {4}
    assert stage.select(20, "b") == 3
    assert stage.select(5, "b") == 2
    stage.without_listener = {2, 3, 4}
    assert stage.select(20, "b") == -1
