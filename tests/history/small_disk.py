"""A disk of a few megabytes for one node, which can be filled: a tmpfs in its own mount namespace.

A process that only sleeps holds the namespace, so that the disk outlives the node. No privileges are needed where the
system lets users create namespaces; elsewhere ``SmallDisk.mount`` returns None and disks don't fill up.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

__all__ = ["SmallDisk"]

_BALLAST = ".ballast"


class SmallDisk:
    """Mounted at ``folder``, for the processes that are started with ``command_prefix``."""

    def __init__(self, folder: Path, holder: subprocess.Popen[bytes]) -> None:
        self._folder = folder
        self._holder = holder
        self._seen_from_here = Path(f"/proc/{holder.pid}/root{folder}")

    @classmethod
    def mount(cls, folder: Path, megabytes: int) -> SmallDisk | None:
        if not shutil.which("unshare") or not shutil.which("nsenter"):
            return None
        folder.mkdir(parents=True)
        script = f'mount -t tmpfs -o size={megabytes}m tmpfs "$0" && echo mounted && exec sleep 1000000'
        holder = subprocess.Popen(
            ["unshare", "--map-root-user", "--mount", "sh", "-c", script, str(folder)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert holder.stdout is not None
        disk = cls(folder, holder)
        if holder.stdout.readline() != b"mounted\n" or not disk._seen_from_here.is_dir():
            disk.unmount()
            return None
        return disk

    @property
    def command_prefix(self) -> list[str]:
        """The prefix replaces itself with the command, so its process id is that of the node."""
        return ["nsenter", "--target", str(self._holder.pid), "--user", "--mount", "--preserve-credentials", "--"]

    @property
    def path(self) -> Path:
        """The path of the disk as this process sees it."""
        return self._seen_from_here

    def fill(self) -> None:
        with (self.path / _BALLAST).open("wb", buffering=0) as ballast:
            for size in (1 << 20, 1 << 12):
                try:
                    while ballast.write(bytes(size)) == size:
                        pass
                except OSError:
                    continue

    def free(self) -> None:
        (self.path / _BALLAST).unlink(missing_ok=True)

    def unmount(self) -> None:
        self._holder.kill()
        self._holder.wait()
        if self._holder.stdout is not None:
            self._holder.stdout.close()
