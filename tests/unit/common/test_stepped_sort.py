from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common import stepped_sort
from barnabas.common.stepped_sort import sorted_in_steps


@given(st.lists(st.text(max_size=3), max_size=60), st.integers(1, 9))
def test_items_are_sorted(items: list[str], run: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stepped_sort, "ITEMS_A_RUN", run)
        steps = sorted_in_steps(items)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                assert end.value == sorted(items)
                return


def test_few_items_need_no_step() -> None:
    assert list(sorted_in_steps(["b", "a"])) == []


class Counted(int):
    """Counts comparisons of all instances in ``compared``."""

    compared = 0

    def __lt__(self, other: int) -> bool:
        Counted.compared += 1
        return int(self) < int(other)


@pytest.mark.parametrize("key", [None, Counted])
@pytest.mark.parametrize("order", [sorted, reversed, Random(7).sample])
def test_no_step_takes_longer_than_another_run(
    monkeypatch: pytest.MonkeyPatch, order: Callable[..., Iterable[int]], key: Any
) -> None:
    monkeypatch.setattr(stepped_sort, "ITEMS_A_RUN", 16)
    numbers = list(range(2_000))
    mixed = order(numbers, 2_000) if order not in {sorted, reversed} else order(numbers)
    steps = sorted_in_steps(map(Counted if key is None else int, mixed), key)
    compared = []
    while True:
        Counted.compared = 0
        try:
            next(steps)
        except StopIteration as end:
            assert end.value == numbers
            break
        compared.append(Counted.compared)
    assert len(compared) > 200
    assert max(compared) <= 160
