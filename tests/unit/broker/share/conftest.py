from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.broker.share.share_broker import Member, ShareBroker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ShareBroker]:
    """Groups start at the earliest record, so that tests may produce first."""
    made = ShareBroker(tmp_path)
    made.set_config("share.auto.offset.reset", "earliest")
    yield made
    made.close()


@pytest.fixture
def alice(broker: ShareBroker) -> Member:
    return Member(broker, "alice")


@pytest.fixture
def bob(broker: ShareBroker) -> Member:
    return Member(broker, "bob")
