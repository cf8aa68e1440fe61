"""Defects that a developer could introduce into the product: the simulator must find each of them.

A defect replaces one named part of the product. Applying it fails if the part was deleted or renamed, so that it
cannot become ineffective unnoticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import count, islice
from typing import Any

__all__ = ["DEFECTS", "Defect", "apply_defect", "defect", "replace_in"]

Original = Any


@dataclass(frozen=True, slots=True)
class Defect:
    what: str
    apply: Callable[[], None]
    needs: str = ""
    """The attribute that the plan or shape of a run must have for the run to find the defect.

    Examples: "standstill", "groups", "changes_quorum".
    """

    def seeds(self, within: int) -> Iterator[int]:
        """Return the first ``within`` seeds that could find the defect."""
        from tests.simulation.cluster.plan import draw_plan  # Imported late: drawing a plan uses the product.

        def could_find(seed: int) -> bool:
            plan = draw_plan(seed)
            return bool(getattr(plan, self.needs, None) or getattr(plan.shape, self.needs, None))

        return islice((seed for seed in count() if not self.needs or could_find(seed)), within)


DEFECTS: dict[str, Defect] = {}


def defect(name: str, what: str, needs: str = "") -> Callable[[Callable[[], None]], Callable[[], None]]:
    def add(apply: Callable[[], None]) -> Callable[[], None]:
        if name in DEFECTS:
            raise ValueError(f"two defects have the name {name}")
        DEFECTS[name] = Defect(what, apply, needs)
        return apply

    return add


def apply_defect(name: str) -> None:
    """Insert the defect for the rest of this process."""
    DEFECTS[name].apply()


def replace_in(module: str, path: str, make: Callable[[Original], Any]) -> None:
    """Replace ``module.path`` by ``make(original)``; properties and static methods keep their kind.

    Raises AttributeError if the name does not exist, and ValueError if ``make`` returns the original.
    """
    owner: Any = import_module(f"barnabas.{module}")
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    original = owner.__dict__.get(name) if isinstance(owner, type) else getattr(owner, name)
    if original is None:
        raise AttributeError(f"{path} does not exist in barnabas.{module}: the defect needs another place")
    replacement = make(original)
    if replacement is original:
        raise ValueError(f"{path} was not changed")
    setattr(owner, name, replacement)


def _load() -> None:
    """Import the lists of defects, one module for each part of the product."""
    for module in (
        "raft",
        "quorum",
        "disk",
        "metadata",
        "access",
        "controller",
        "groups",
        "consumer_groups",
        "share_groups",
        "streams_groups",
        "replication",
        "in_sync",
        "rot",
        "disk_errors",
        "transactions",
        "transactional_records",
    ):
        import_module(f"tests.simulation.defects.{module}")
    import_module("tests.simulation.defects.turns")
    import_module("tests.simulation.defects.standstill")


_load()
