"""Runs a command line of ``packaging/`` as its container, unit or pod would: without privileges, with a read-only root.

The command has its own mount and network namespaces. In them the files that an image or a package installs are at their
real places (/opt/barnabas, /etc/barnabas, /var/lib/...). Everything but the data folder and /tmp is read-only, and the
process has an unprivileged user without any capability. Only root can make such namespaces; the command is not root.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

__all__ = ["USER", "Confined", "Place", "can_confine", "make_switch", "run_confined", "start_confined"]

USER = 10001
_PROGRAMS = ("unshare", "nsenter", "setpriv", "mount", "ip")
_BARRED = ["--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--clear-groups"]


@dataclass
class Place:
    """What the process sees. ``program`` becomes /opt/barnabas, ``settings`` /etc/barnabas, ``data`` the folder
    ``data_at``, which it owns. ``hosts`` maps names to addresses."""

    program: Path
    settings: Path
    data: Path
    data_at: str = "/var/lib/barnabas"
    hosts: Mapping[str, str] = field(default_factory=dict)


class Confined:
    """A running command. ``finish`` sends SIGTERM and returns the exit status."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.log = log

    def printed(self) -> str:
        return self.log.read_text(errors="replace")

    def finish(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
            raise

    def run_inside(self, command: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """Run another command in the same namespaces, as the same user: a health check, or a client."""
        inside = ["nsenter", "--target", str(self.process.pid), "--mount", "--net", "--"]
        user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", *_BARRED, "--"]
        return subprocess.run(
            [*inside, *user, *command], env=dict(environment), capture_output=True, text=True, timeout=60, check=False
        )


def can_confine() -> str:
    """Return why this machine can't, or an empty string."""
    if os.geteuid() != 0:
        return "only root can make the namespaces"
    missing = [program for program in _PROGRAMS if shutil.which(program) is None]
    if missing:
        return f"{', '.join(missing)} is missing"
    tried = subprocess.run(["unshare", "--mount", "--net", "true"], capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else f"namespaces are not allowed here: {tried.stderr.strip()}"


def start_confined(
    command: Sequence[str],
    environment: Mapping[str, str],
    place: Place,
    folder: Path,
    *,
    network_of: Confined | None = None,
    address: str = "",
) -> Confined:
    """Start the command. ``folder`` receives its log and its /etc.

    With ``address`` its network is connected to that of ``network_of`` (``make_switch``). Otherwise it uses the network
    of ``network_of``, or has only a loopback interface.
    """
    os.chown(place.data, USER, USER)
    what = {**asdict(place), "etc": _make_etc(place, folder / "etc"), "command": command, "environment": environment}
    shares = network_of is not None and not address
    enter = ["nsenter", "--target", str(network_of.process.pid), "--net", "--"] if network_of and shares else []
    own = ["unshare", "--mount"] if shares else ["unshare", "--mount", "--net"]
    log = folder / "process.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*enter, *own, sys.executable, "-S", "-E", __file__, json.dumps(what, default=str)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            bufsize=0,
        )
    started = Confined(process, log)
    assert process.stdin is not None
    try:
        if network_of is not None and address:
            _wait_for_namespace(process.pid)
            _connect(network_of.process.pid, process.pid, address)
        process.stdin.write(b"go\n")
        process.stdin.close()
    except BaseException:
        process.kill()
        process.wait(10)
        raise
    return started


def _make_etc(place: Place, etc: Path) -> Path:
    """Write the /etc of the process: its settings, the names of the hosts, and what the system's libraries need."""
    shutil.rmtree(etc, ignore_errors=True)
    shutil.copytree(place.settings, etc / "barnabas")
    for name in ("passwd", "group", "nsswitch.conf", "ld.so.cache"):
        shutil.copy(f"/etc/{name}", etc / name)
    names = "".join(f"{ip} {name}\n" for name, ip in place.hosts.items())
    (etc / "hosts").write_text(f"127.0.0.1 localhost\n{names}")
    return etc


def _wait_for_namespace(pid: int) -> None:
    import time

    own = os.readlink("/proc/self/ns/net")
    deadline = time.monotonic() + 10
    while os.readlink(f"/proc/{pid}/ns/net") == own:
        assert time.monotonic() < deadline, "the network namespace was not made"
        time.sleep(0.01)


def _connect(switch: int, pid: int, address: str) -> None:
    """Connect the process's network to the bridge of the switch."""
    name = f"v{address.rpartition('.')[2]}"
    there, here = ["nsenter", "--target", str(switch), "--net"], ["nsenter", "--target", str(pid), "--net"]
    subprocess.run([*there, "ip", "link", "delete", name], check=False, capture_output=True)  # Of an earlier process.
    for command in (
        [*there, "ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", str(pid)],
        [*there, "ip", "link", "set", name, "master", "switch", "up"],
        [*here, "ip", "address", "add", f"{address}/24", "dev", "eth0"],
        [*here, "ip", "link", "set", "eth0", "up"],
    ):
        subprocess.run(command, check=True, capture_output=True)


def make_switch(folder: Path) -> Confined:
    """Start a process whose network connects those of others."""
    script = "ip link add switch type bridge && ip link set switch up && echo ready && exec sleep 300"
    log = folder / "switch.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["unshare", "--net", "sh", "-ec", script], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
    _wait_for_namespace(process.pid)
    while "ready" not in log.read_text():
        assert process.poll() is None, log.read_text()
    return Confined(process, log)


def run_confined(command: Sequence[str], environment: Mapping[str, str], place: Place, folder: Path) -> tuple[int, str]:
    """Run the command until it ends. Return its status and its output."""
    started = start_confined(command, environment, place, folder)
    try:
        status = started.process.wait(60)
    finally:
        if started.process.poll() is None:
            started.process.kill()
    return status, started.printed()


def _become(what: dict[str, object]) -> None:
    """Inside the namespaces: mount what the process may see, and replace this process with it."""

    def mount(*arguments: str) -> None:
        subprocess.run(["mount", *arguments], check=True)

    sys.stdin.readline()  # The network is ready.
    data_at = str(what["data_at"])
    mount("--make-rprivate", "/")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for parent, source, target in (
        ("/opt", str(what["program"]), "/opt/barnabas"),
        ("/var/lib", str(what["data"]), data_at),
    ):
        mount("--bind", source, "/mnt")  # The source may lie below the parent or below /tmp.
        mount("-t", "tmpfs", "none", parent)
        os.makedirs(target)
        mount("--move", "/mnt", target)
    mount("--bind", str(what["etc"]), "/etc")
    mount("-t", "tmpfs", "-o", "mode=1777", "none", "/tmp")
    for path in ("/", "/opt", "/opt/barnabas", "/var/lib", "/etc"):
        mount("-o", "remount,bind,ro", path)
    os.chdir(data_at)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    command, environment = what["command"], what["environment"]
    assert isinstance(command, list)
    assert isinstance(environment, dict)
    user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", *_BARRED, "--"]
    os.execvpe("setpriv", [*user, *command], environment)


if __name__ == "__main__":
    _become(json.loads(sys.argv[1]))
