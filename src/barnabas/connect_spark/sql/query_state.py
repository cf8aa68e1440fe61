"""Decide whether the state of a query may be used: what its checkpoint has, and which batch was delivered last.

A batch changes the state and is then delivered: to topics in one transaction with its number, to a table in the
table's own commit. Spark notes it as finished after that. So of the last delivered batch only the note may be missing:
it is run once more for its state, and not delivered. All other differences mean that the folder is not the one in
which the pipeline ran last, or that it lost something. Such a state is refused: rows would be missing or counted
twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from barnabas.connect.plugins.api import TerminalError
from barnabas.connect_spark.positions.checkpoints import CheckpointState

__all__ = ["NEW_START", "changes", "refuse_changes", "refuse_unusable"]

NEW_START = (
    'stop the connector, and delete its offset of {"pipeline": "state"} to begin with an empty state where the inputs '
    "are, or reset all of its offsets to read them from the beginning"
)


def refuse_unusable(state: CheckpointState | None, delivered: int, folder: str) -> None:
    """Check the checkpoint of a run whose last delivered batch is ``delivered``, -1 for none. Raise TerminalError."""
    if state is None:
        raise TerminalError(
            f"the state of this pipeline was in {folder}, and is not there. If another worker has it, set "
            f"state.location to a folder that all workers share, and copy it there. To go on without it, {NEW_START}."
        )
    planned = -1 if state.planned is None else state.planned
    finished = -1 if state.finished is None else state.finished
    is_usable = finished in (delivered - 1, delivered) and planned in (finished, finished + 1) and planned >= delivered
    if not is_usable:
        raise TerminalError(
            f"the state in {folder} belongs to batch {finished}, and batch {delivered} was delivered: the folder is an "
            f"older copy, or has lost files. Restore it, or {NEW_START}."
        )


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return what differs between two descriptions of a query's state (``plan_facts``), in words."""
    found = [
        _different(what, before.get(name), after.get(name))
        for name, what in (
            ("sources", "the inputs, in the order of the query"),
            ("watermarks", "the event times and watermarks"),
            ("partitions", "shuffle.partitions"),
        )
        if before.get(name) != after.get(name)
    ]
    old, new = list(before.get("operators", ())), list(after.get("operators", ()))
    if len(old) != len(new):
        kinds = [", ".join(str(operator["kind"]) for operator in operators) or "nothing" for operators in (old, new)]
        return [*found, f"what has state: it was {kinds[0]}, and is {kinds[1]}"]
    for number, (operator, other) in enumerate(zip(old, new, strict=True), 1):
        for part in sorted({*operator, *other}):
            if operator.get(part) != other.get(part):
                what = f"the {part} of the {operator['kind']}" + (f" (number {number})" if len(old) > 1 else "")
                found.append(_different(what, operator.get(part), other.get(part)))
    return found


def refuse_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Refuse a query whose state differs from the one that its pipeline has. Raise TerminalError."""
    found = changes(before, after)
    if found:
        raise TerminalError(
            f"the query no longer fits the state of this pipeline. Changed: {'; '.join(found)}. Nothing was read and "
            f"nothing deleted. Restore the query, or {NEW_START}."
        )


def _different(what: str, old: object, new: object) -> str:
    return f"{what}: {_shown(old)} became {_shown(new)}"


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {text}" for name, text in value.items()) or "none"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)
