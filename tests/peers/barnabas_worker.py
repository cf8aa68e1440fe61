"""A Connect worker of ours as a separate process, started as a user starts it; its tasks run on Spark."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import httpx

from tests.peers.node_process import NodeProcess

__all__ = ["BarnabasWorker"]


class BarnabasWorker(NodeProcess):
    """``settings`` are those of ``connect_worker.worker_settings``, and more. ``port`` is that of its REST API."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        super().__init__(folder)
        self._settings = {
            "listeners": self.url,
            "barnabas.connect.spark.directory": str(folder / "spark"),
            "barnabas.connect.spark.conf.spark.driver.memory": "1g",
            **settings,
        }

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        properties = self.folder / "worker.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in self._settings.items()))
        return [str(Path(sys.executable).parent / "barnabas"), "worker", str(properties)]

    def is_ready(self, printed: str) -> bool:
        time.sleep(0.1)
        with suppress(httpx.HTTPError):
            return httpx.get(f"{self.url}/health", timeout=15, trust_env=False).status_code == 200
        return False
