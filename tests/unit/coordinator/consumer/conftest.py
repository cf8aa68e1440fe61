"""A group of the consumer protocol on a cluster with two topics."""

from __future__ import annotations

import pytest

from tests.unit.coordinator.consumer_group_driver import ConsumerGroupDriver


@pytest.fixture
def driver() -> ConsumerGroupDriver:
    driver = ConsumerGroupDriver()
    driver.load()
    driver.metadata.create_topic("orders", 6)
    driver.metadata.create_topic("prices", 3)
    return driver
