from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.controller.replica_placer import place_replicas
from barnabas.metadata.image.cluster import BrokerRegistration


def broker(broker_id: int, rack: str | None = None, fenced: bool = False) -> BrokerRegistration:
    return BrokerRegistration(
        id=broker_id, epoch=1, incarnation_id=Uuid.ONE, listeners={}, features={}, rack=rack, fenced=fenced
    )


CLUSTERS = st.lists(st.tuples(st.sampled_from([None, "a", "b", "c"]), st.booleans()), min_size=1, max_size=9).map(
    lambda kinds: [broker(number, rack, fenced) for number, (rack, fenced) in enumerate(kinds)]
)


@given(CLUSTERS, st.integers(1, 20), st.integers(1, 9), st.integers(0, 2**31))
def test_every_goal_that_can_be_reached_is_reached(
    brokers: list[BrokerRegistration], partitions: int, factor: int, seed: int
) -> None:
    unfenced = {b.id for b in brokers if not b.fenced}
    racks = {b.id: b.rack for b in brokers}
    if not unfenced or factor > len(brokers):
        with pytest.raises(ApiException) as refused:
            place_replicas(brokers, partitions, factor, Random(seed).randrange)
        assert refused.value.code == ErrorCode.INVALID_REPLICATION_FACTOR
        return
    placed = list(place_replicas(brokers, partitions, factor, Random(seed).randrange))
    assert len(placed) == partitions
    for replicas in placed:
        assert len(set(replicas)) == factor
        assert replicas[0] in unfenced
        assert len(unfenced & set(replicas)) == min(factor, len(unfenced)), "unfenced brokers come first"
        spread = len({racks[replica] for replica in replicas if replica in unfenced})
        assert spread == min(len({racks[b] for b in unfenced}), factor), "as many racks as exist"


def test_leaders_are_spread_evenly() -> None:
    brokers = [broker(number, rack) for number, rack in enumerate(["a", "a", "b", "b", "c", "c"])]
    placed = list(place_replicas(brokers, 600, 3, Random(1).randrange))
    leaders = Counter(replicas[0] for replicas in placed)
    assert max(leaders.values()) - min(leaders.values()) <= 2
    everywhere = Counter(replica for replicas in placed for replica in replicas)
    assert max(everywhere.values()) < 1.6 * min(everywhere.values())


@pytest.mark.parametrize(
    ("count", "racks", "factor"), [(3, 3, 3), (3, 1, 2), (6, 1, 2), (6, 3, 2), (6, 3, 3), (9, 3, 3)]
)
def test_leaderships_of_a_failed_broker_move_to_several_brokers(count: int, racks: int, factor: int) -> None:
    brokers = [broker(number, f"rack {number % racks}") for number in range(count)]
    placed = list(place_replicas(brokers, 600, factor, Random(1).randrange))
    for leader in range(count):
        successors = Counter(replicas[1] for replicas in placed if replicas[0] == leader)
        assert max(successors.values()) < 0.7 * sum(successors.values())
    everywhere = Counter(replica for replicas in placed for replica in replicas)
    assert max(everywhere.values()) - min(everywhere.values()) <= 2


def test_topics_of_one_partition_do_not_all_start_on_the_same_broker() -> None:
    brokers = [broker(number) for number in range(4)]
    random = Random(7)
    leaders = Counter(next(place_replicas(brokers, 1, 1, random.randrange))[0] for _ in range(400))
    assert set(leaders) == {0, 1, 2, 3}
    assert min(leaders.values()) > 50


@pytest.mark.parametrize("factor", [0, -1])
def test_a_factor_below_one_is_refused(factor: int) -> None:
    with pytest.raises(ApiException, match="the replication factor must be positive"):
        place_replicas([broker(1)], 1, factor, Random(0).randrange)
