"""Reports that a node serves clients: to a file or a descriptor as a line of JSON, and to systemd.

The file appears in one step, with all its content, and disappears when the node stops. The protocol of systemd is one
datagram to the socket in ``NOTIFY_SOCKET`` (sd_notify(3)); a unit uses it with ``Type=notify``.
"""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Mapping

__all__ = ["Readiness", "UnusableReadyFile", "notify_systemd"]

log = logging.getLogger(__name__)

_SOCKET = "NOTIFY_SOCKET"


class UnusableReadyFile(Exception):
    """The ready file or descriptor can't be written. The message names the option."""


class Readiness:
    """Where a process reports that it is ready. ``file`` is a path, ``fd`` a descriptor that the parent opened."""

    def __init__(self, file: str | None = None, fd: int | None = None) -> None:
        self._file = file
        self._fd = fd

    def prepare(self) -> None:
        """Delete the file of an earlier run. Raise UnusableReadyFile if the line can't be written later."""
        if self._file is not None:
            folder = os.path.dirname(self._file) or "."
            if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
                raise UnusableReadyFile(f"--ready-file {self._file}: {folder} is not a folder that can be written")
            if os.path.isdir(self._file):
                raise UnusableReadyFile(f"--ready-file {self._file}: this is a folder; name a file in it")
            self._remove()
        if self._fd is not None:
            try:
                os.fstat(self._fd)
            except OSError as error:
                raise UnusableReadyFile(f"--ready-fd {self._fd}: {error.strerror}; the parent must open it") from error

    def ready(self, facts: Mapping[str, object]) -> None:
        """Write the line, and tell systemd. A failure is logged: the node serves anyway."""
        line = json.dumps({"event": "ready", "pid": os.getpid(), **facts}) + "\n"
        try:
            if self._file is not None:
                with open(f"{self._file}.{os.getpid()}.tmp", "w", encoding="utf-8") as file:
                    file.write(line)
                os.replace(file.name, self._file)
            if self._fd is not None:
                with os.fdopen(self._fd, "w", encoding="utf-8") as stream:
                    stream.write(line)
                self._fd = None
        except OSError as error:
            log.error("the ready line can't be written: %s", error.strerror or error)
        notify_systemd(f"READY=1\nMAINPID={os.getpid()}")

    def stopping(self) -> None:
        """Delete the file, and tell systemd."""
        if self._file is not None:
            self._remove()
        notify_systemd("STOPPING=1")

    def _remove(self) -> None:
        try:
            os.remove(self._file or "")
        except FileNotFoundError:
            pass
        except OSError as error:
            log.error("the ready file %s can't be deleted: %s", self._file, error.strerror or error)


def notify_systemd(state: str) -> bool:
    """Send a state to the service manager. Return False if none listens."""
    address = os.environ.get(_SOCKET, "")
    if not address.startswith(("/", "@")):
        return False
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
            notified.connect("\0" + address[1:] if address[0] == "@" else address)
            notified.sendall(state.encode())
    except OSError as error:
        log.warning("systemd can't be notified over %s: %s", address, error.strerror or error)
        return False
    return True
