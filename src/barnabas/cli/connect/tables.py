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

__all__ = [
    "attention_text",
    "failure_notes",
    "first_line",
    "request_each",
    "status_document",
    "status_sheet",
    "tasks_text",
]

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
        "last_failure": connector.get("last_failure"),
        "waits_for": connector.get("waits_for") or [],
        "dead_letter_topic": connector.get("dead_letter_topic") or "",
        "autoscaling": connector.get("autoscaling"),
        "tasks": [
            {
                "task": task["id"],
                "state": task["state"],
                "worker": task.get("worker_id") or "",
                "trace": task.get("trace") or "",
                "last_failure": task.get("last_failure"),
                "skipped_records": task.get("skipped_records") or 0,
                "dead_letters": task.get("dead_letters") or 0,
            }
            for task in status.get("tasks") or ()
        ],
    }


def status_sheet(statuses: Sequence[Document]) -> Sheet:
    """Return the states, with a column for what else needs attention if there is something."""
    documents = [status_document(status) for status in statuses]
    rows: list[tuple[str, str, str, str, str]] = []
    for document in documents:
        waiting = "waits for topics" if document["waits_for"] else ""
        attention = _joined(_failing(document["last_failure"]), waiting)
        rows.append((document["connector"], "", document["state"], document["worker"], attention))
        for task in document["tasks"]:
            attention = _joined(_failing(task["last_failure"]), _skipped(task))
            rows.append((document["connector"], str(task["task"]), task["state"], task["worker"], attention))
    has_attention = any(row[-1] for row in rows)
    columns = ("connector", "task", "state", "worker", *(("attention",) if has_attention else ()))
    sheet = Sheet(columns=columns)
    for row in rows:
        sheet.add(*row[: len(columns)], style=_style(row[2]))
    return sheet


def attention_text(document: Document) -> str:
    """Summarize what needs attention although the states may look healthy."""
    failing = [task for task in document["tasks"] if task["last_failure"]]
    tasks = f"{len(failing)} of {len(document['tasks'])} tasks failing" if failing else ""
    return _joined(
        _failing(document["last_failure"]),
        tasks,
        "waits for topics" if document["waits_for"] else "",
        _skipped(
            {
                "skipped_records": sum(task["skipped_records"] for task in document["tasks"]),
                "dead_letters": sum(task["dead_letters"] for task in document["tasks"]),
            }
        ),
    )


def _failing(failure: Document | None) -> str:
    if not failure:
        return ""
    return f"failing, restart {failure['restarts']} of {failure['restarts_max']}" if failure["restarts"] else "failing"


def _skipped(task: Document) -> str:
    if not task["skipped_records"]:
        return ""
    letters = f", {task['dead_letters']} dead letters" if task["dead_letters"] else ""
    return f"{task['skipped_records']} records skipped{letters}"


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def failure_notes(statuses: Iterable[Document]) -> list[str]:
    """Return the reason of each failure, in a few lines, and what autoscaling has decided. The document contains the
    whole stack trace."""
    notes = []
    for status in statuses:
        document = status_document(status)
        if document["trace"]:
            notes.append(f"{document['connector']}: {_reason(document)}")
        notes += [
            f"{document['connector']} task {task['task']}: {_reason(task)}"
            for task in document["tasks"]
            if task["trace"]
        ]
        if document["autoscaling"]:
            notes.append(f"{document['connector']}: autoscaling: {document['autoscaling']['reason']}")
        if any(task["dead_letters"] for task in document["tasks"]):
            notes.append(
                f"{document['connector']}: topic {document['dead_letter_topic']} has its dead letters; "
                f"'barnabas connect dead-letters {document['connector']}' shows them"
            )
    return notes


def _reason(document: Document) -> str:
    """Return the reason of a failure, and what follows or has happened since."""
    failure = document["last_failure"]
    return first_line(document["trace"]) + (f" {failure['next']}" if failure and failure["next"] else "")


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
