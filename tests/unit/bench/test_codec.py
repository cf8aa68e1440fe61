"""The bench of the codec measures a handler whose answer is ready at once, and one that works it out in turns."""

from __future__ import annotations

import pytest

from bench.codec import measure_ours


@pytest.mark.parametrize("topics", [3, 3000])
def test_our_side_is_measured(topics: int) -> None:
    assert all(value > 0 for value in measure_ours(topics).values())
