"""A simulated cluster: mocks of the admin client's operations with their signatures."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import create_autospec

import pytest

from barnabas.clients.admin import AdminClient, Results, TopicListing
from barnabas.common.uuid import Uuid


class FakeAdmin:
    """``admin.create_topics`` and so on are mocks whose return values tests set; ``topics`` are the listed topics."""

    def __init__(self) -> None:
        self.mock: Any = create_autospec(AdminClient, instance=True)
        self.mock.describe_features_of_brokers.return_value = {}
        self.mock.describe_log_dirs.return_value = Results({}, {})
        self.topics = ["orders", "payments", "__consumer_offsets"]
        self.config: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.mock, name)

    async def list_topics(self, *, include_internal: bool = False) -> AsyncIterator[TopicListing]:
        for index, name in enumerate(sorted(self.topics)):
            is_internal = name.startswith("__")
            if include_internal or not is_internal:
                yield TopicListing(name, Uuid.from_int(index + 1 << 80), is_internal, index + 1, 3)

    async def __aenter__(self) -> FakeAdmin:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    """The admin client that every command uses."""
    fake = FakeAdmin()

    async def open_admin(config: Any) -> FakeAdmin:
        fake.config = config
        return fake

    monkeypatch.setattr("barnabas.cli.arguments.cluster_options.open_admin", open_admin)
    return fake
