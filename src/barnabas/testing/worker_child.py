"""The process of a test's Connect worker: ``barnabas worker`` with a socket to its parent, as in ``node_child``.

The settings of the ``Launch`` are those of the worker. It reports ``ready`` when its REST API returns a good health.
"""

from __future__ import annotations

import sys
import threading
import time
import urllib.error
import urllib.request
from importlib import import_module
from pathlib import Path

from barnabas.testing.launch import Launch
from barnabas.testing.parent import Parent

__all__ = ["main"]

_ASK_EVERY_S = 0.1
_ANSWER_TIMEOUT_S = 15.0


def main() -> None:
    """Run the worker until SIGTERM. The last argument is the descriptor of the socket."""
    parent = Parent(int(sys.argv[-1]))
    launch = parent.receive_launch()
    parent.obey(launch, lambda command: None)
    file = Path(launch.folder) / "worker.properties"
    file.touch(mode=0o600)  # It may contain passwords.
    file.write_text("".join(f"{name}={text}\n" for name, text in launch.settings.items()))
    threading.Thread(target=_report, args=(parent, launch), name="health", daemon=True).start()
    # The command line is an entry point of its own, beside this package, which may not import it.
    sys.exit(import_module("barnabas.cli.main").main(["worker", str(file)]))


def _report(parent: Parent, launch: Launch) -> None:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while True:
        try:
            with direct.open(f"{launch.settings['listeners']}/health", timeout=_ANSWER_TIMEOUT_S):
                break
        except (OSError, urllib.error.HTTPError):
            time.sleep(_ASK_EVERY_S)
    parent.send(event="ready")
