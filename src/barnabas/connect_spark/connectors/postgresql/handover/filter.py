"""Leave out events that the reading of tables has covered already. Decides what to ask the database; no I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass

from barnabas.connect_spark.connectors.postgresql.debezium.events import Event
from barnabas.connect_spark.connectors.postgresql.handover.progress import Key, TableProgress

__all__ = ["KeyComparison", "uncovered"]

KeyComparison = Callable[[str, tuple[str, ...], Key, list[Key]], list[bool]]
"""Receives a table, the columns of its key, a key, and other keys. Returns which of these are after the first."""


@dataclass(frozen=True, slots=True)
class _Question:
    """Events of these keys are kept if the key is not after ``until``."""

    table: str
    columns: tuple[str, ...]
    until: Key


def uncovered(events: list[Event], progress: Mapping[str, TableProgress], are_after: KeyComparison) -> list[Event]:
    """Return the events that no run has covered, in their order."""
    if not any(found.runs for found in progress.values()):
        return events
    verdicts = [_verdict(event, progress.get(event.table.full_name)) for event in events]
    answers = _answers(zip(events, verdicts, strict=True), are_after)
    return [event for event, verdict in zip(events, verdicts, strict=True) if _is_kept(event, verdict, answers)]


def _verdict(event: Event, progress: TableProgress | None) -> bool | _Question:
    if progress is None or event.origin.xid is None:
        return True
    number = progress.first_run_that_sees(event.origin.xid)
    if number is None:
        return True
    until = progress.runs[number - 1].until if number else None
    if until is None or event.key is None:
        return False
    return _Question(event.table.full_name, event.table.key, until)


def _text_key(event: Event) -> Key:
    return tuple([str(cell) for cell in event.key or ()])


def _answers(
    pairs: Iterable[tuple[Event, bool | _Question]], are_after: KeyComparison
) -> dict[_Question, dict[Key, bool]]:
    keys: MutableMapping[_Question, dict[Key, None]] = {}
    for event, verdict in pairs:
        if isinstance(verdict, _Question):
            keys.setdefault(verdict, {})[_text_key(event)] = None
    return {
        question: dict(zip(asked, are_after(question.table, question.columns, question.until, [*asked]), strict=True))
        for question, asked in keys.items()
    }


def _is_kept(event: Event, verdict: bool | _Question, answers: Mapping[_Question, Mapping[Key, bool]]) -> bool:
    if isinstance(verdict, _Question):
        return not answers[verdict][_text_key(event)]
    return verdict
