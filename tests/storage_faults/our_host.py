"""A process that has loaded our node and forks for each start: loading takes most of the time of a start.

It reads ``LOG PROPERTIES`` lines, and prints the process id of the node that it started with them.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from typing import NoReturn

import barnabas.cli.node
import barnabas.server.node  # noqa: F401 (what each start would load)
from barnabas.cli.main import main


def serve() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # The kernel reaps nodes that have ended.
    for line in sys.stdin:
        log, properties = line.split()
        pid = os.fork()
        if not pid:
            _become_node(log, properties)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


def _become_node(log: str, properties: str) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    printed = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    status = 1
    try:
        sys.argv = ["barnabas", "node", properties]
        status = main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


if __name__ == "__main__":
    serve()
