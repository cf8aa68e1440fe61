"""Runs some seeds of a simulated Connect group, and proves that its checks find defects. ``__main__`` runs more."""

from __future__ import annotations

import pytest

from tests.simulation.connect.__main__ import find
from tests.simulation.connect.defects import DEFECTS

pytestmark = pytest.mark.simulation

_SEEDS = 15


def test_all_seeds_pass_the_checks() -> None:
    found = find(range(_SEEDS))
    assert found is None, f"python -m tests.simulation.connect --seed {found[0]}: {found[1]}"


@pytest.mark.long
@pytest.mark.parametrize("defect", DEFECTS)
def test_every_defect_is_found(defect: str) -> None:
    with DEFECTS[defect]():
        assert find(range(60)) is not None
