"""A simulated cluster, of mocks of the admin client's operations with their signatures, and a simulated worker."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any
from unittest.mock import create_autospec

import httpx
import pytest

from barnabas.clients.admin import AdminClient, Results, TopicListing
from barnabas.common.uuid import Uuid
from barnabas.connect.rest.connect_client import ConnectClient

Reply = tuple[int, Any]


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


class FakeWorker:
    """``replies`` by method and path; the last of several is repeated. ``request_lines`` are the received requests."""

    def __init__(self) -> None:
        self.replies: dict[str, list[Reply]] = {}
        self.request_lines: list[str] = []
        self.bodies: dict[str, Any] = {}
        self.requests: list[httpx.Request] = []
        self.now = 0.0
        self.down: Exception | None = None

    def replies_to(self, line: str, *replies: Reply) -> None:
        self.replies[line] = list(replies)

    def answer(self, request: httpx.Request) -> httpx.Response:
        if self.down is not None:
            raise self.down
        path = request.url.copy_remove_param("details").raw_path.decode()  # Each query of a status has it.
        line = f"{request.method} {path}"
        self.requests.append(request)
        self.request_lines.append(line)
        if request.content:
            self.bodies[line] = json.loads(request.content)
        waiting = self.replies.get(line) or [(404, {"error_code": 404, "message": f"nothing at {line}"})]
        status, body = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        if isinstance(body, bytes):
            return httpx.Response(status, content=body)
        return httpx.Response(status) if body is None else httpx.Response(status, json=body)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    @property
    def changes(self) -> list[str]:
        return [line for line in self.request_lines if not line.startswith("GET") and not line.endswith("/validate")]


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> FakeWorker:
    fake = FakeWorker()
    client = partial(
        ConnectClient, transport=httpx.MockTransport(fake.answer), clock=lambda: fake.now, sleep=fake.sleep
    )
    monkeypatch.setattr("barnabas.connect.rest.connect_client.ConnectClient", client)
    for name in ("URL", "PASSWORD", "TOKEN"):
        monkeypatch.delenv(f"BARNABAS_CONNECT_{name}", raising=False)
    return fake
