"""Cycles: Tarjan's algorithm against a sorter of the standard library, and histories with and without cycles."""

from __future__ import annotations

import random
from graphlib import CycleError, TopologicalSorter

import pytest

from tests.history.dependency_check import check_cycles, count_cycles
from tests.history.strong_components import cyclic_components, shortest_cycle
from tests.history.transaction_history import Seen, Transaction
from tests.history.transactional_model import COPIES, Model, honest


@pytest.mark.parametrize("seed", range(200))
def test_components_are_those_of_mutually_reachable_nodes(seed: int) -> None:
    rng = random.Random(seed)
    size = rng.randint(2, 9)
    graph = {node: [other for other in range(size) if other != node and rng.random() < 0.2] for node in range(size)}
    reached = {node: {node} for node in graph}
    for _ in graph:
        for node in graph:
            for other in list(reached[node]):
                reached[node].update(graph[other])
    expected = {frozenset(other for other in reached[node] if node in reached[other]) for node in graph}
    found = cyclic_components(graph)
    assert {frozenset(component) for component in found} == {component for component in expected if len(component) > 1}
    assert len(found) == len({frozenset(component) for component in found})
    for component in found:
        cycle = shortest_cycle(graph, component)
        assert all(after in graph[before] for before, after in zip(cycle, [*cycle[1:], cycle[0]], strict=True))
    try:
        TopologicalSorter(graph).prepare()
    except CycleError:
        assert found
    else:
        assert not found


def test_a_long_chain_needs_no_recursion() -> None:
    graph = {node: [node + 1] for node in range(50_000)}
    assert cyclic_components(graph) == []
    assert len(cyclic_components(graph | {50_000: [0]})[0]) == 50_001


def violations(model: Model) -> list[str]:
    found = check_cycles(list(model.history.transactions.values()), model.topic_logs())
    return [str(violation).partition("): ")[2].partition(",")[0] for violation in found]


def two(model: Model) -> tuple[Transaction, Transaction]:
    return model.begin("appender-0"), model.begin("appender-1")


def test_opposite_orders_in_two_partitions_are_allowed_and_counted() -> None:
    model = Model()
    first, second = two(model)
    model.append(first, 0)
    model.append(second, 0)
    model.append(second, 1)
    model.append(first, 1)
    for transaction in (first, second):
        model.end(transaction, commit=True)
    assert violations(model) == []
    counts = count_cycles(list(model.history.transactions.values()), model.topic_logs())
    assert counts["transactions in allowed cycles of ww (G0)"] == 2


def test_an_append_before_one_of_an_earlier_transaction() -> None:
    """G0 in real time: the producer of the first had learnt its commit before the second began."""
    model = Model()
    first = model.begin("appender-0")
    model.append(first, 0)
    model.end(first, commit=True)
    second = model.begin("appender-1")
    model.append(second, 0)
    model.end(second, commit=True)
    assert violations(model) == []
    first.sends_from_s, first.ended_s, second.sends_from_s, second.ended_s = 3.0, 4.0, 1.0, 2.0
    assert violations(model) == ["G0 in real time"]
    second.ended_s = 3.5
    assert violations(model) == [], "they overlap"


def test_transactions_that_read_each_other() -> None:
    """G1c: each received a record of the other, so one of them was visible before its commit."""
    model = Model()
    first, second = two(model)
    places = [model.append(transaction, number) for number, transaction in enumerate((first, second))]
    for transaction in (first, second):
        model.end(transaction, commit=True)
    first.received = [Seen(1, places[1], second.appended[0].record)]
    assert violations(model) == []
    second.received = [Seen(0, places[0], first.appended[0].record)]
    assert violations(model) == ["G1c"]


def test_an_append_before_one_that_was_read() -> None:
    """G1c of wr and ww: a transaction's record precedes, in one partition, one that it had received before."""
    model = Model()
    first, second = two(model)
    model.append(first, 0)
    place = model.append(second, 0)
    for transaction in (first, second):
        model.end(transaction, commit=True)
    assert violations(model) == []
    first.received = [Seen(0, place, second.appended[0].record)]
    assert violations(model) == ["G1c"]


def test_copies_that_continue_from_each_other() -> None:
    """G1c: two transactions each replaced the offset that the other committed."""
    model = Model()
    first, second = two(model)
    for transaction in (first, second):
        model.append(transaction, 0, topic=COPIES)
        model.end(transaction, commit=True)
    first.sends_from_s, second.sends_from_s = 1.0, 1.0
    first.offsets, second.offsets = {0: (0, 5)}, {0: (5, 9)}
    assert violations(model) == []
    first.offsets = {0: (9, 5)}
    assert violations(model) == ["G1c"]


def test_what_an_aborted_transaction_read_counts_too() -> None:
    model = Model()
    first, second = two(model)
    model.append(first, 0)
    place = model.append(second, 0)
    model.end(first, commit=False)
    model.end(second, commit=True)
    first.received = [Seen(0, place, second.appended[0].record)]
    assert violations(model) == ["G1c"]


def test_honest_histories_contain_allowed_cycles() -> None:
    """Otherwise the correct histories would show little."""
    counts = [
        count_cycles(list(model.history.transactions.values()), model.topic_logs()) for model in map(honest, range(10))
    ]
    for name in ("ww (G0)", "ww, wr (G1c)", "ww, wr, rw (G2)"):
        assert sum(count[f"transactions in allowed cycles of {name}"] for count in counts) > 0
