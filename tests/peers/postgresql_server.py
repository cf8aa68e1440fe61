"""A private PostgreSQL: a new data folder, a free loopback port, an unprivileged user; all is deleted afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["PostgresqlServer", "postgresql_programs", "running_postgresql"]

_START_TIMEOUT_S = 60


def postgresql_programs() -> Path | None:
    """Return the folder with ``initdb`` and ``postgres``, or None if this machine has no server."""
    on_path = shutil.which("initdb")
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = [*folders, *([Path(on_path).resolve().parent] if on_path else [])]
    return next((folder for folder in found if (folder / "initdb").exists() and (folder / "postgres").exists()), None)


@dataclass
class PostgresqlServer:
    programs: Path
    folder: Path
    port: int
    user: str = "barnabas"
    password: str = "barnabas-password"
    settings_of_server: Sequence[str] = ()
    """Such as ``wal_level=logical``."""
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"

    @property
    def settings(self) -> dict[str, str]:
        return {
            "connection.url": self.url,
            "connection.user": self.user,
            "connection.password": self.password,
        }

    def start(self) -> None:
        """Start the server in a process group of its own, and wait until it accepts connections."""
        command = [str(self.programs / "postgres"), "-D", str(self.folder / "data"), "-p", str(self.port)]
        command += ["-h", "127.0.0.1", "-k", str(self.folder), "-c", "fsync=off", "-c", "shared_buffers=16MB"]
        command += ["-c", "max_connections=20", *(word for text in self.settings_of_server for word in ("-c", text))]
        log = self.folder / "log"
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command, stdout=output, stderr=output, cwd=self.folder, start_new_session=True, **_as(_unprivileged())
            )
        _wait_until_ready(self, self.process, log)

    def kill(self) -> None:
        """Kill the server and all processes of its connections."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(30)

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)  # Fast shutdown: clients are disconnected.
            self.process.wait(30)

    def sql(self, statements: str) -> list[list[str]]:
        """Return rows as psql prints them, unaligned."""
        command = [
            str(self.programs / "psql"),
            "-h",
            "127.0.0.1",
            "-p",
            str(self.port),
            "-U",
            self.user,
            "-d",
            "postgres",
        ]
        command += ["-v", "ON_ERROR_STOP=1", "-A", "-t", "-q", "-F", "\t", "-c", statements]
        environment = {**os.environ, "PGPASSWORD": self.password, "PGTZ": "UTC"}
        answer = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert answer.returncode == 0, answer.stderr
        return [line.split("\t") for line in answer.stdout.splitlines()]


@contextmanager
def running_postgresql(programs: Path, settings: Sequence[str] = ()) -> Iterator[PostgresqlServer]:
    folder = Path(tempfile.mkdtemp(prefix="barnabas-postgresql-"))
    account = _unprivileged()
    try:
        server = PostgresqlServer(programs, folder, _free_port(), settings_of_server=settings)
        secret = folder / "password"
        secret.write_text(server.password)
        if account is not None:
            for path in (folder, secret):
                os.chown(path, account.pw_uid, account.pw_gid)
        data = folder / "data"
        initialize = [str(programs / "initdb"), "-D", str(data), "-U", server.user, "-A", "scram-sha-256"]
        initialize += ["--pwfile", str(secret), "-E", "UTF8", "--locale", "C", "--no-sync"]
        subprocess.run(initialize, check=True, capture_output=True, timeout=120, cwd=folder, **_as(account))
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unprivileged() -> pwd.struct_passwd | None:
    """PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return None
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    return known.get("postgres") or known["nobody"]


def _as(account: pwd.struct_passwd | None) -> dict[str, Any]:
    return {} if account is None else {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_ready(server: PostgresqlServer, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        ready = [str(server.programs / "pg_isready"), "-h", "127.0.0.1", "-p", str(server.port)]
        if subprocess.run(ready, capture_output=True, check=False).returncode == 0:
            return
        time.sleep(0.1)
    raise AssertionError(f"PostgreSQL did not start: {log.read_text(errors='replace')[-2000:]}")
