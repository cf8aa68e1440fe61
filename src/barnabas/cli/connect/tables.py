"""Tables and documents of connectors and their states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from barnabas.cli.connect.options import problem_of_request
from barnabas.cli.output.answer import Problem
from barnabas.cli.output.table import Sheet

if TYPE_CHECKING:
    from barnabas.connect.rest.connect_client import Document

__all__ = ["failure_notes", "first_line", "request_each", "status_document", "status_sheet", "tasks_text"]

T = TypeVar("T")

_LINES_OF_TRACE = 3


def request_each(names: Sequence[str], request: Callable[[str], T]) -> tuple[dict[str, T], list[Problem]]:
    """Return the response for each name. An error for one name does not stop the others."""
    from barnabas.connect.rest.connect_client import RequestRefused

    found: dict[str, T] = {}
    problems = []
    for name in dict.fromkeys(names):
        try:
            found[name] = request(name)
        except RequestRefused as error:
            problems.append(problem_of_request(error, name))
    return found, problems


def status_document(status: Document) -> Document:
    connector = status.get("connector") or {}
    return {
        "connector": status["name"],
        "type": status.get("type") or "",
        "state": connector.get("state") or "UNKNOWN",
        "worker": connector.get("worker_id") or "",
        "trace": connector.get("trace") or "",
        "tasks": [
            {
                "task": task["id"],
                "state": task["state"],
                "worker": task.get("worker_id") or "",
                "trace": task.get("trace") or "",
            }
            for task in status.get("tasks") or ()
        ],
    }


def status_sheet(statuses: Sequence[Document]) -> Sheet:
    sheet = Sheet(columns=("connector", "task", "state", "worker"))
    for status in statuses:
        document = status_document(status)
        name, state = document["connector"], document["state"]
        sheet.add(name, "", state, document["worker"], style=_style(state))
        for task in document["tasks"]:
            sheet.add(name, str(task["task"]), task["state"], task["worker"], style=_style(task["state"]))
    return sheet


def failure_notes(statuses: Iterable[Document]) -> list[str]:
    """Return the reason of each failure, in a few lines. The document contains the whole stack trace."""
    notes = []
    for status in statuses:
        document = status_document(status)
        if document["trace"]:
            notes.append(f"{document['connector']}: {first_line(document['trace'])}")
        notes += [
            f"{document['connector']} task {task['task']}: {first_line(task['trace'])}"
            for task in document["tasks"]
            if task["trace"]
        ]
    return notes


def first_line(trace: str) -> str:
    """Return the first line of a stack trace, and the causes that Java prints below it."""
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    causes = [line for line in lines[1:] if line.startswith("Caused by:")]
    return " ".join([*lines[:1], *causes][:_LINES_OF_TRACE])


def tasks_text(tasks: Sequence[Document]) -> str:
    """Summarize tasks, as in ``2 RUNNING, 1 FAILED``."""
    return ", ".join(f"{count} {state}" for state, count in Counter(task["state"] for task in tasks).most_common())


def _style(state: str) -> str:
    return "red" if state == "FAILED" else ""
