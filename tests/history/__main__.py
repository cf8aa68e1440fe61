"""``python -m tests.history --seconds 60 --seed 1 --kind ours``: run a cluster under faults and check the histories of
its clients.

Kinds: ours, kafka, mixed (both among brokers and among controllers), our-brokers, our-controllers.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.history.cluster import KINDS, TooLittleMemory
from tests.history.java_clients import has_java
from tests.history.run import Options, Report, run_history
from tests.history.violations import Broken

_SHOWN = 10
"""Of each kind of violation."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.history", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long faults continue")
    parser.add_argument("--seed", type=int, default=None, help="seed of the plan of faults; random by default")
    parser.add_argument("--kind", choices=KINDS, default="ours")
    parser.add_argument("--rate", type=int, default=200, help="records a second from each of the two producers")
    parser.add_argument("--data", type=Path, default=None, help="a new folder for logs and data, which is kept")
    parser.add_argument("--no-disks", action="store_true", help="disks don't fill up")
    parser.add_argument("--no-clocks", action="store_true", help="clocks don't jump")
    parser.add_argument("--no-transactions", action="store_true", help="no transactional clients")
    parser.add_argument("--no-shares", action="store_true", help="no share group")
    parser.add_argument("--no-java", action="store_true", help="no clients in Java, and so no streams application")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # The nodes are then stopped, as by Ctrl-C.
    seed = given.seed if given.seed is not None else int(time.time())
    options = Options(
        seed, given.seconds, given.kind, given.rate, not given.no_disks, not given.no_clocks, not given.no_transactions,
        not given.no_shares, java=has_java() and not given.no_java,
    )  # fmt: skip
    folder = given.data or Path(tempfile.mkdtemp(prefix="barnabas-history-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"seed {seed}, {given.seconds:.0f} s, {given.kind}; logs of the nodes: {folder}", flush=True)
    try:
        report = run_history(folder, options, lambda text: print(text, flush=True))
    except TooLittleMemory as error:
        sys.exit(str(error))
    _show(report)
    return 1 if report.violations else 0


def _show(report: Report) -> None:
    if report.violations:
        print("\n".join(["", "Faults and observations:", *report.log]))
    print("\n".join(f"{count:9} {what}" for what, count in sorted(report.counts.items())))
    for broken in Broken:
        found = [violation for violation in report.violations if violation.broken is broken]
        print("".join(f"{violation}\n" for violation in found[:_SHOWN]), end="")
        if len(found) > _SHOWN:
            print(f"... and {len(found) - _SHOWN} more of {broken.name}")
    print(f"{len(report.violations)} violations")


if __name__ == "__main__":
    sys.exit(main())
