"""Files and connections share the descriptors, with a reserve."""

from __future__ import annotations

import pytest

from barnabas.server.process.file_descriptors import RESERVED, descriptor_budget


@pytest.mark.parametrize("allowed", [256, 1024, 20_000, 1_000_000])
def test_files_and_connections_leave_the_reserve(allowed: int) -> None:
    files, connections = descriptor_budget(allowed)
    assert files + connections + RESERVED == allowed
    assert files >= 64
    assert connections >= 64


def test_the_setting_determines_the_number_of_files() -> None:
    assert descriptor_budget(1024, 100) == (100, 1024 - 100 - RESERVED)


def test_a_few_connections_are_always_possible() -> None:
    assert descriptor_budget(100).connections_max == 16
    assert descriptor_budget(1024, 5000) == (5000, 16)
