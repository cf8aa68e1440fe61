"""A private S3 server (moto) on a free loopback port, in a process of its own; its objects are in memory."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.peers import lacking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["S3Server", "running_s3"]

_START_TIMEOUT_S = 120


@dataclass(frozen=True)
class S3Server:
    url: str

    def create_bucket(self, name: str) -> None:
        request = urllib.request.Request(f"{self.url}/{name}", method="PUT")
        _direct().open(request, timeout=30).close()

    def settings(self, bucket: str) -> dict[str, str]:
        """Return Hadoop's settings for a bucket of this server."""
        given = {
            "endpoint": self.url,
            "endpoint.region": "us-east-1",
            "path.style.access": "true",
            "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
            "access.key": "a-name",
            "secret.key": "a-secret",
        }
        return {f"fs.s3a.bucket.{bucket}.{name}": text for name, text in given.items()}

    def provide(self, spark: SparkSession, bucket: str) -> None:
        """Create a bucket, and configure a session that runs already for it."""
        self.create_bucket(bucket)
        context: Any = spark._jsc
        for name, text in self.settings(bucket).items():
            context.hadoopConfiguration().set(name, text)


def _direct() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))


@contextmanager
def running_s3() -> Iterator[S3Server]:
    """Run a server. Skip the test if `make dev` has not installed one; in CI that is a failure."""
    folder = Path(os.environ.get("BARNABAS_S3_SERVER") or Path(sys.prefix) / "s3-server")
    if not (folder / "moto").exists():
        lacking(f"needs moto in {folder}, which `make dev` installs")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        server = S3Server(f"http://127.0.0.1:{port}")
        _wait_for(server, process)
        yield server
    finally:
        process.kill()
        process.wait()


def _wait_for(server: S3Server, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while True:
        try:
            _direct().open(server.url, timeout=5).close()
        except (urllib.error.URLError, OSError):
            assert process.poll() is None, "the S3 server has ended"
            assert time.monotonic() < deadline, "the S3 server does not answer"
            time.sleep(0.1)
        else:
            return
