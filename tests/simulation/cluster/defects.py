"""Mistakes that somebody could make in the product, to be put into it: the simulator has to find each of them.

A defect replaces one named piece of the product. When that piece is gone or has another name, applying the defect
fails: none of them may silently become no defect at all.
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
    """What a run must have so that it could be found there, as its plan or the shape in it calls it: "standstill",
    "groups", "changes_quorum"."""

    def seeds(self, within: int) -> Iterator[int]:
        """So many, of those that could find it."""
        from tests.simulation.cluster.plan import draw_plan  # Plans are drawn of the product too.

        def could_find(seed: int) -> bool:
            plan = draw_plan(seed)
            return bool(getattr(plan, self.needs, None) or getattr(plan.shape, self.needs, None))

        return islice((seed for seed in count() if not self.needs or could_find(seed)), within)


DEFECTS: dict[str, Defect] = {}


def defect(name: str, what: str, needs: str = "") -> Callable[[Callable[[], None]], Callable[[], None]]:
    def add(apply: Callable[[], None]) -> Callable[[], None]:
        if name in DEFECTS:
            raise ValueError(f"two defects are called {name}")
        DEFECTS[name] = Defect(what, apply, needs)
        return apply

    return add


def apply_defect(name: str) -> None:
    """For the rest of this process."""
    DEFECTS[name].apply()


def replace_in(module: str, path: str, make: Callable[[Original], Any]) -> None:
    """Put ``make(original)`` in the place of ``module.path``; properties and static methods keep their kind.

    Raises AttributeError when there is nothing of that name, and ValueError when ``make`` gives the original back.
    """
    owner: Any = import_module(f"barnabas.{module}")
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    original = owner.__dict__.get(name) if isinstance(owner, type) else getattr(owner, name)
    if original is None:
        raise AttributeError(f"barnabas.{module} has no {path} any more: the defect needs another place")
    made = make(original)
    if made is original:
        raise ValueError(f"{path} was not changed")
    setattr(owner, name, made)


def _load() -> None:
    """The lists, one module for each part of the product."""
    for module in (
        "raft",
        "quorum",
        "disk",
        "metadata",
        "access",
        "controller",
        "groups",
        "replication",
        "in_sync",
        "rot",
        "disk_errors",
    ):
        import_module(f"tests.simulation.defects.{module}")
    import_module("tests.simulation.defects.turns")
    import_module("tests.simulation.defects.standstill")


_load()
