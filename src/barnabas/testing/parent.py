"""The socket by which the process of a node or of a worker obeys its parent: lines of JSON in both directions."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path

from barnabas.testing.folders import remove_folder
from barnabas.testing.launch import Launch

__all__ = ["Parent"]


class Parent:
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

    def receive_launch(self) -> Launch:
        """Wait for the first line. End the process if the parent has died before."""
        # When the parent of a stopped process dies, the system sends SIGHUP and SIGCONT: it must survive to clean up.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        text = self.next_line()
        if not text:
            os._exit(1)
        return Launch.from_json(text)

    def obey(self, launch: Launch, perform: Callable[[str], None]) -> None:
        """Perform commands on a thread. When the parent dies, it removes the folder and ends the process."""
        threading.Thread(target=self._obey, args=(launch, perform), name="parent", daemon=True).start()

    def _obey(self, launch: Launch, perform: Callable[[str], None]) -> None:
        while line := self.next_line():
            command = json.loads(line)["command"]
            perform(command)
            self.send(event="done", command=command)
        if launch.to_remove is not None:
            remove_folder(Path(launch.to_remove))
        os._exit(1)
