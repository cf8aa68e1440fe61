from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common import stepped_sort
from barnabas.common.stepped_sort import sorted_in_steps


@given(st.lists(st.text(max_size=3), max_size=60), st.integers(1, 9))
def test_items_come_in_order(items: list[str], run: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stepped_sort, "ITEMS_A_RUN", run)
        steps = sorted_in_steps(items)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                assert end.value == sorted(items)
                return


def test_a_few_items_take_no_step() -> None:
    assert list(sorted_in_steps(["b", "a"])) == []
