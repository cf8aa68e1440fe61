"""What holds for every test against a running peer."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _kafka_python_is_quiet(caplog: pytest.LogCaptureFixture) -> None:
    """A captured error of kafka-python holds its client, whose sockets would be collected during a later test."""
    caplog.set_level(logging.CRITICAL, "kafka")


@pytest.fixture(autouse=True)
def _no_client_is_left_running() -> Iterator[None]:
    """A thread of a kafka-python client goes on connecting: its sockets and random numbers disturb later tests."""
    yield
    left = [thread.name for thread in threading.enumerate() if thread.name.startswith("kafka-io-")]
    assert left == [], "a client of kafka-python was not closed"
