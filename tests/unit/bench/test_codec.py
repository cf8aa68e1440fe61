"""The bench of the codec measures the handler of a broker, whether its answer is ready at once or worked out in turns."""

from __future__ import annotations

import pytest

from bench.codec import measure_ours


@pytest.mark.parametrize("topics", [3, 3000])
def test_our_side_is_measured(topics: int) -> None:
    assert all(value > 0 for value in measure_ours(topics).values())
