"""``barnabas connect dead-letters``: look at the records that a sink could not use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from barnabas.cli.arguments.parameter import Number, Parameter
from barnabas.cli.connect.options import WorkerOptions, problem_of_request
from barnabas.cli.output.answer import Answer, Problem
from barnabas.cli.output.moment import moment
from barnabas.cli.output.table import Sheet

if TYPE_CHECKING:
    from barnabas.connect.rest.connect_client import ConnectClient, Document, RequestRefused

__all__ = ["dead_letters"]

_NOT_FOUND = 404
_SHOWN = 60


def dead_letters(
    connector: str,
    *,
    count: Annotated[int, Parameter(validator=Number(gte=1, lte=100))] = 20,
    options: WorkerOptions | None = None,
) -> int:
    """Show the latest dead letters of a sink: records that it could not use, with the reasons.

    The reasons are headers that errors.deadletterqueue.context.headers.enable=true adds. --output json shows all of a
    record; keys and values longer than 1000 bytes are cut.

    For example:

        barnabas connect dead-letters orders-to-files
        barnabas connect dead-letters orders-to-files --count 1 --output json

    Parameters
    ----------
    connector
        The name of the connector.
    count
        Maximum number of dead letters, up to 100.
    """

    def work(worker: ConnectClient) -> Answer:
        from barnabas.connect.rest.connect_client import RequestRefused

        try:
            found = worker.dead_letters(connector, count)
        except RequestRefused as error:
            return Answer({}, problems=[_refusal(error, connector)])
        letters = found["letters"]
        return Answer({"connector": connector, **found}, [_sheet(letters)] if letters else [], _notes(found))

    return (options or WorkerOptions()).run(work)


def _sheet(letters: list[Document]) -> Sheet:
    sheet = Sheet(columns=("place", "time", "record", "reason", "value"))
    for letter in letters:
        error = letter["error"]
        record = f"{error['topic']}-{error.get('partition')} {error.get('offset')}" if "topic" in error else ""
        reason = f"{error.get('stage')}: {error.get('exception.message')}" if error else ""
        place = f"{letter['partition']} {letter['offset']}"
        sheet.add(place, moment(letter["time"]), record, _one_line(reason), _one_line(letter["value"] or "null"))
    return sheet


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"


def _notes(found: Document) -> list[str]:
    topic = found["topic"]
    if not found["exists"]:
        return [f"topic {topic} does not exist yet: the task creates it"]
    if not found["letters"]:
        return [f"topic {topic} has no dead letters of this connector"]
    notes = [f"topic {topic} has {found['total']} records, of all connectors that write to it"]
    if any(not letter["error"] for letter in found["letters"]):
        notes.append("records without a reason: set errors.deadletterqueue.context.headers.enable=true")
    return notes


def _refusal(error: RequestRefused, connector: str) -> Problem:
    if error.status == _NOT_FOUND and error.message == "HTTP 404 Not Found":
        return Problem(
            "the worker does not show dead letters",
            connector,
            advice="'barnabas topics tail' shows the records of the topic",
        )
    return problem_of_request(error, connector)
