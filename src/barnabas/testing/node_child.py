"""The process of a test node: ``barnabas node`` with a socket to its parent.

The parent sends the ``Launch`` as the first line, and then commands: ``disk_full`` and ``disk_free``. Each answer is a
line of JSON. The node reports ``ready``, or ``failed`` with the reason. When the parent's end of the socket closes,
however the parent died, the process removes the temporary folder and ends.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from functools import partial

from barnabas.common.settings.problem import InvalidSettings
from barnabas.server.node import run
from barnabas.server.storage_tool.formatter import FormatError
from barnabas.storage.errors import StorageError
from barnabas.testing.full_disk import fill_disk, free_disk
from barnabas.testing.launch import Launch
from barnabas.testing.parent import Parent
from barnabas.testing.preparation import prepare

__all__ = ["main"]

_NODE_LOGGER = "barnabas.server.node"
_READY = "barnabas node %d is ready in "


class _ReadyNotice(logging.Handler):
    """Reports the node's ready line, which ``run`` logs when all listeners serve, after the line is in the log."""

    def __init__(self, parent: Parent) -> None:
        super().__init__()
        self._parent = parent

    def emit(self, record: logging.LogRecord) -> None:
        if str(record.msg).startswith(_READY):
            report = partial(self._parent.send, event="ready", line=record.getMessage())
            asyncio.get_running_loop().call_soon(report)


def main() -> None:
    """Run the node until SIGTERM. The last argument is the descriptor of the socket."""
    parent = Parent(int(sys.argv[-1]))
    launch = parent.receive_launch()
    parent.obey(launch, partial(_perform, launch))
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


def _perform(launch: Launch, command: str) -> None:
    if command == "disk_full":
        fill_disk(launch.folder)
    elif command == "disk_free":
        free_disk(launch.folder)
