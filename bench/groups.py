"""``python -m bench.groups PART``: measure a part of the comparison of groups again, and write its page.

- rebalance: 100 and 1,000 members of each kind of group join together, one leaves, one joins;
- share: consuming with 1, 10 and 100 members of a share group, and the time from producing to acquiring;
- commits: OffsetCommit by members of classic and consumer groups;
- memory: of a member on the node;
- large: groups of 10,000 members and 100,000 partitions in our coordinator, without Kafka.

Each round of a part starts a new node of each side, in turn. The load is one process with an event loop, and the same
for both sides; its CPU is measured too. The page is written from the figures of all parts.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from bench.groups_commits import CommitSizes, measure_commits
from bench.groups_memory import MemorySizes, measure_memory
from bench.groups_node import Figures, running_node
from bench.groups_rebalance import RebalanceSizes, measure_rebalances
from bench.groups_report import RoundsOfParts, read_groups, write_groups_report
from bench.groups_share import ShareSizes, measure_share_consuming
from bench.large_groups import measure_large_groups
from bench.sides import SIDES

__all__ = ["LARGE", "PARTS", "QUICK", "GroupSizes", "measure_groups"]

PARTS = ("rebalance", "share", "commits", "memory")
LARGE = "large"


class GroupSizes(NamedTuple):
    rebalance: RebalanceSizes = RebalanceSizes()
    share: ShareSizes = ShareSizes()
    commits: CommitSizes = CommitSizes()
    memory: MemorySizes = MemorySizes()
    large_members: int = 10_000


QUICK = GroupSizes(
    RebalanceSizes((20,), 1, 1.0),
    ShareSizes((1, 3), (1,), 20_000, 200, 200),
    CommitSizes((1, 3), 5, 1.0),
    MemorySizes(50, (1,)),
    500,
)
"""Shows that everything works, and no more."""


def measure_groups(rounds: int, sizes: GroupSizes, parts: tuple[str, ...] = (*PARTS, LARGE)) -> RoundsOfParts:
    """Return the figures of each part by side, for each round."""
    found: dict[str, Mapping[str, list[Figures]]] = {}
    for part in parts:
        if part == LARGE:
            found[part] = {"barnabas": [measure_large_groups(members=sizes.large_members)]}
            continue
        of_sides: dict[str, list[Figures]] = {side: [] for side in SIDES}
        for number in range(rounds):
            for side in SIDES if number % 2 == 0 else reversed(SIDES):
                of_sides[side].append(_measure_part(part, side, sizes))
                print(f"groups, {part}, round {number + 1} of {rounds}, {side}", flush=True)
                for name, value in of_sides[side][-1].items():
                    print(f"  {name:70} {value:12.3f}", flush=True)
        found[part] = of_sides
    return found


def _measure_part(part: str, side: str, sizes: GroupSizes) -> Figures:
    if part == "memory":
        return measure_memory(side, sizes.memory)
    with running_node(side) as node:
        if part == "rebalance":
            return measure_rebalances(node, sizes.rebalance)
        if part == "share":
            return measure_share_consuming(node, sizes.share)
        return measure_commits(node, sizes.commits)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.groups", description=__doc__)
    parser.add_argument("part", choices=[*PARTS, LARGE])
    parser.add_argument("--rounds", type=int, default=2, help="rounds of each side (default 2)")
    parser.add_argument("--output", type=Path, default=Path("docs/benchmarks"), help="folder of the page")
    options = parser.parse_args()
    sizes = GroupSizes()
    known = read_groups(options.output)
    found = measure_groups(options.rounds, sizes, (options.part,))
    print(f"written: {write_groups_report(options.output, {**known, **found})}", flush=True)


if __name__ == "__main__":
    main()
