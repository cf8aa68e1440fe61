"""Wait until a connector is in the requested state, or has failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.cli.connect.tables import first_line, status_document, tasks_text
from barnabas.cli.output.answer import Problem

if TYPE_CHECKING:
    from barnabas.connect.rest.connect_client import ConnectClient, Document

__all__ = ["wait_for"]

_PAUSE_S = 0.5
_OLD_FAILURE_S = 3.0
"""Within this time after the command, a reported failure may be older than the command."""
_NOT_FOUND = 404


def wait_for(worker: ConnectClient, name: str, state: str) -> list[Problem]:
    """Wait until connector and tasks are in ``state`` (RUNNING, PAUSED or STOPPED). Return problems, if any."""
    from barnabas.connect.rest.connect_client import RequestRefused

    began = worker.clock()
    while True:
        try:
            document = status_document(worker.status(name))
        except RequestRefused as error:
            if error.status != _NOT_FOUND:  # A new connector has no status at first.
                raise
            document = status_document({"name": name})
        if _is_reached(document, state):
            return []
        waited = worker.clock() - began
        failures = _failures(document)
        if failures and waited > _OLD_FAILURE_S:
            return failures
        if waited > worker.timeout_s:
            return [_too_long(document, state, worker.timeout_s)]
        worker.sleep(_PAUSE_S)


def _is_reached(document: Document, state: str) -> bool:
    """Return whether the state is reached. A STOPPED connector has no tasks; a new connector has no tasks yet."""
    states = {task["state"] for task in document["tasks"]}
    return document["state"] == state and states == (set() if state == "STOPPED" else {state})


def _failures(document: Document) -> list[Problem]:
    name = document["connector"]
    advice = f"'barnabas connect status {name} -o json' shows the stack trace; 'barnabas connect restart' restarts it"
    problems = []
    if document["state"] == "FAILED":
        problems.append(Problem(f"the connector has failed: {first_line(document['trace'])}", name, advice=advice))
    for task in document["tasks"]:
        if task["state"] == "FAILED":
            text = f"task {task['task']} has failed: {first_line(task['trace'])}"
            problems.append(Problem(text, name, advice=advice))
    return problems


def _too_long(document: Document, state: str, timeout_s: float) -> Problem:
    tasks = tasks_text(document["tasks"]) or "none"
    waiting = f", and it waits for the topics {', '.join(document['waits_for'])}" if document["waits_for"] else ""
    return Problem(
        f"not {state} within {timeout_s:g} s: the connector is {document['state']}, its tasks are {tasks}{waiting}",
        str(document["connector"]),
        advice="'barnabas connect status' shows the progress; a larger --timeout waits longer",
    )
