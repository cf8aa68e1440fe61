"""Registries for tests, each with an event loop on a thread of its own, at free ports of this machine."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from barnabas.connect.rest.password_hash import hash_password
from barnabas.registry.registry import RunningRegistry, start_registry
from barnabas.registry.settings.registry_config import registry_config_of

__all__ = ["RegistryThread", "running_registry", "write_users"]

_TIMEOUT_S = 60.0


class RegistryThread:
    """A running registry. ``call`` sends a request to it, and returns status and JSON."""

    def __init__(self, bootstrap: str, settings: dict[str, str]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="registry", daemon=True)
        self._thread.start()
        given = {
            "kafkastore.bootstrap.servers": bootstrap,
            "listeners": "http://127.0.0.1:0",
            "kafkastore.topic.replication.factor": "1",
            "schema.registry.group.id": settings.get("kafkastore.topic", "_schemas"),  # One group for each topic.
            **settings,
        }
        try:
            self.running: RunningRegistry = self._run(start_registry(registry_config_of(given)))
        except BaseException:
            self._end_loop()
            raise
        self.url = self.running.url

    @property
    def is_leader(self) -> bool:
        return self.running.leadership.is_leader

    @property
    def leader_url(self) -> str | None:
        leader = self.running.leadership.leader
        return None if leader is None else leader.url

    def call(self, method: str, path: str, body: Any = None, **options: Any) -> tuple[int, Any]:
        answer = httpx.request(method, f"{self.url}{path}", json=body, timeout=_TIMEOUT_S, **options)
        return answer.status_code, answer.json()

    def metric(self, name: str) -> float:
        """Return the sum of a metric, over all labels."""
        text = httpx.get(f"{self.url}/metrics", timeout=_TIMEOUT_S).text
        lines = [line for line in text.splitlines() if line.startswith((f"{name} ", f"{name}{{"))]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    def stop(self) -> None:
        if self._thread.is_alive():
            self._run(self.running.stop())
            self._end_loop()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_TIMEOUT_S)

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_TIMEOUT_S)
        self._loop.close()


@contextmanager
def running_registry(bootstrap: str, **settings: str) -> Iterator[RegistryThread]:
    """``settings`` have underscores for the dots of their names."""
    registry = RegistryThread(bootstrap, {name.replace("_", "."): value for name, value in settings.items()})
    try:
        yield registry
    finally:
        registry.stop()


def write_users(file: Path, *names: str) -> Path:
    """Write a users file in which each user's password is its name."""
    file.write_text("".join(f"{name}:read:{hash_password(name, b'0123456789abcdef')}\n" for name in names))
    return file
