"""A private MariaDB: a new data folder, a free loopback port, an unprivileged user; all is deleted afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.peers.postgresql_server import _as, _free_port, _unprivileged

__all__ = ["MariadbServer", "mariadb_programs", "running_mariadb"]

_START_TIMEOUT_S = 120
_NEEDED = ("mariadbd", "mariadb-install-db", "mariadb")


def mariadb_programs() -> dict[str, str] | None:
    """Return the paths of the programs, or None if this machine has no server."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin"
    found = {name: shutil.which(name, path=path) for name in _NEEDED}
    return {name: place for name, place in found.items() if place} if all(found.values()) else None


@dataclass(frozen=True)
class MariadbServer:
    programs: dict[str, str]
    folder: Path
    port: int
    user: str = "barnabas"
    password: str = "barnabas-password"

    @property
    def settings(self) -> dict[str, str]:
        return {
            "connection.url": f"jdbc:mariadb://127.0.0.1:{self.port}/shop",
            "connection.user": self.user,
            "connection.password": self.password,
        }

    def sql(self, statements: str, *, session: str = "SET SESSION time_zone = '+00:00';") -> list[list[str]]:
        """Return rows as text, with NULL for nulls. Statements of one call share a session."""
        command = [self.programs["mariadb"], "--no-defaults", "-h", "127.0.0.1", "-P", str(self.port)]
        command += [
            "-u",
            self.user,
            "-D",
            "shop",
            "--batch",
            "--skip-column-names",
            "--raw",
            "--default-character-set=utf8mb4",
        ]
        environment = {**os.environ, "MYSQL_PWD": self.password}
        answer = subprocess.run(
            command,
            input=session + statements,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert answer.returncode == 0, answer.stderr
        return [line.split("\t") for line in answer.stdout.splitlines()]


@contextmanager
def running_mariadb(programs: dict[str, str]) -> Iterator[MariadbServer]:
    folder = Path(tempfile.mkdtemp(prefix="barnabas-mariadb-"))
    account = _unprivileged()
    try:
        server = MariadbServer(programs, folder, _free_port())
        if account is not None:
            os.chown(folder, account.pw_uid, account.pw_gid)
        data = folder / "data"
        install = [programs["mariadb-install-db"], "--no-defaults", f"--datadir={data}", "--skip-test-db"]
        install += ["--auth-root-authentication-method=normal", "--innodb-log-file-size=8M"]
        done = subprocess.run(install, capture_output=True, timeout=180, cwd=folder, check=False, **_as(account))
        assert done.returncode == 0, (done.stdout + done.stderr).decode(errors="replace")[-2000:]
        first = folder / "first.sql"
        first.write_text(
            "CREATE DATABASE shop CHARACTER SET utf8mb4;"
            f"CREATE USER '{server.user}'@'%' IDENTIFIED BY '{server.password}';\n"
            f"GRANT ALL ON shop.* TO '{server.user}'@'%';\n".replace(";", ";\n", 1)
        )
        first.chmod(0o644)
        command = [programs["mariadbd"], "--no-defaults", f"--datadir={data}", f"--port={server.port}"]
        command += ["--bind-address=127.0.0.1", f"--socket={folder / 'socket'}", f"--init-file={first}"]
        command += ["--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=16M", "--skip-name-resolve"]
        command += [f"--pid-file={folder / 'pid'}", "--innodb-log-file-size=8M"]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, **_as(account))
        try:
            _wait_until_ready(server, process, folder / "log")
            yield server
        finally:
            process.terminate()
            process.wait(60)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait_until_ready(server: MariadbServer, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            server.sql("SELECT 1")
        except AssertionError:
            time.sleep(0.2)
            continue
        return
    raise AssertionError(f"MariaDB did not start: {log.read_text(errors='replace')[-2000:]}")
