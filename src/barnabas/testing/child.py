"""The process of a test node: ``barnabas node`` with a socket to its parent.

The parent sends the ``Launch`` as the first line, and then commands: ``disk_full`` and ``disk_free``. Each answer is a
line of JSON. The node reports ``ready``, or ``failed`` with the reason. When the parent's end of the socket closes,
however the parent died, the process removes the temporary folder and ends.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import sys
import threading
from functools import partial
from pathlib import Path

from barnabas.common.settings.problem import InvalidSettings
from barnabas.server.node import run
from barnabas.server.storage_tool.formatter import FormatError
from barnabas.storage.errors import StorageError
from barnabas.testing.folders import remove_folder
from barnabas.testing.full_disk import fill_disk, free_disk
from barnabas.testing.launch import Launch
from barnabas.testing.preparation import prepare

__all__ = ["main"]

_NODE_LOGGER = "barnabas.server.node"
_READY = "barnabas node %d is ready in "


class _Parent:
    """The other end of the socket."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._lines = self._socket.makefile("r", encoding="utf-8")

    def next_line(self) -> str:
        """Wait for a line; return an empty text when the parent has closed its end, or died."""
        try:
            return self._lines.readline()
        except OSError:
            return ""

    def send(self, **message: object) -> None:
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass  # The thread that reads notices the same.


class _ReadyNotice(logging.Handler):
    """Reports the node's ready line, which ``run`` logs when all listeners serve, after the line is in the log."""

    def __init__(self, parent: _Parent) -> None:
        super().__init__()
        self._parent = parent

    def emit(self, record: logging.LogRecord) -> None:
        if str(record.msg).startswith(_READY):
            report = partial(self._parent.send, event="ready", line=record.getMessage())
            asyncio.get_running_loop().call_soon(report)


def main() -> None:
    """Run the node until SIGTERM. The last argument is the descriptor of the socket."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # A stopped process receives it when its parent dies, with SIGCONT.
    parent = _Parent(int(sys.argv[-1]))
    text = parent.next_line()
    if not text:
        sys.exit(1)
    launch = Launch.from_json(text)
    threading.Thread(target=_obey, args=(parent, launch), name="parent", daemon=True).start()
    if launch.is_disk_full:
        fill_disk(launch.folder)
    try:
        config = prepare(launch)
    except (InvalidSettings, FormatError, StorageError, OSError) as error:
        parent.send(event="failed", reason=str(error))
        sys.exit(1)
    logger = logging.getLogger(_NODE_LOGGER)
    logger.setLevel(logging.INFO)
    logger.addHandler(_ReadyNotice(parent))
    sys.exit(run(config))


def _obey(parent: _Parent, launch: Launch) -> None:
    while line := parent.next_line():
        command = json.loads(line)["command"]
        if command == "disk_full":
            fill_disk(launch.folder)
        elif command == "disk_free":
            free_disk(launch.folder)
        parent.send(event="done", command=command)
    if launch.to_remove is not None:
        remove_folder(Path(launch.to_remove))
    os._exit(1)
