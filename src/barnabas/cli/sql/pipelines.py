"""The pipelines of the workers, through their REST API: connectors whose rows come from a query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from barnabas.cli.connect.connector_configs import checked_settings
from barnabas.cli.connect.options import WorkerOptions, open_worker, problem_of_request
from barnabas.cli.connect.tables import attention_text, failure_notes, status_document, tasks_text
from barnabas.cli.output.advice import nearest
from barnabas.cli.output.answer import Problem
from barnabas.cli.sql.statement_errors import StatementError, explained_extra
from barnabas.cli.sql.statements import PipelineAction

if TYPE_CHECKING:
    from barnabas.connect.rest.connect_client import ConnectClient, Document

__all__ = ["Pipelines"]

T = TypeVar("T")

_CLASSES = ("SqlPipeline", "PythonPipeline")
_NOT_FOUND = 404


class Pipelines:
    """Every method raises StatementError for an error of the worker, or if none can be reached."""

    def __init__(self, options: WorkerOptions) -> None:
        self._options = options

    def listing(self) -> list[Document]:
        """Return name, state, tasks, class, output and what needs attention of each pipeline."""

        def listed(worker: ConnectClient) -> list[Document]:
            found = sorted(worker.connectors().items())
            return [_row(name, document) for name, document in found if is_pipeline(_config(document))]

        return self._ask(listed)

    def config(self, name: str) -> dict[str, str] | None:
        """Return the settings of a pipeline; None if no pipeline has the name."""

        def requested(worker: ConnectClient) -> dict[str, str] | None:
            return _pipeline_config(worker, name)

        return self._ask(requested)

    def description(self, name: str) -> tuple[Document, list[str]]:
        """Return the status of a pipeline, and notes about its failures."""

        def described(worker: ConnectClient) -> tuple[Document, list[str]]:
            status = worker.status(name)
            return status_document(status), failure_notes([status])

        return self._ask(described)

    def create(
        self, name: str, config: Mapping[str, str], *, replaces: bool, if_not_exists: bool
    ) -> tuple[str, list[str]]:
        """Return what was done (created, replaced, unchanged), and warnings about settings."""

        def created(worker: ConnectClient) -> tuple[str, list[str]]:
            before = worker.connectors().get(name)
            if before is not None and not replaces:
                if if_not_exists:
                    return "unchanged", [f"{name} exists already"]
                raise StatementError(
                    f"the pipeline {name} exists already",
                    advice="choose another name, or write CREATE OR REPLACE PIPELINE, or CREATE PIPELINE IF NOT EXISTS",
                )
            if before is not None and not is_pipeline(_config(before)):
                raise StatementError(f"{name} is a connector of another kind: choose another name")
            notes = _check(worker, name, config)
            if before is None:
                worker.create(name, config)
                return "created", notes
            worker.put_config(name, config)
            return "replaced", notes

        return self._ask(created)

    def alter(self, name: str, change: Callable[[dict[str, str]], dict[str, str]]) -> tuple[str, list[str]]:
        """Return what was done, and warnings. ``change`` returns the settings that take the place of its argument."""

        def altered(worker: ConnectClient) -> tuple[str, list[str]]:
            before = self._existing(worker, name)
            after = change(dict(before))
            if after == before:
                return "unchanged", []
            notes = _check(worker, name, after)
            worker.put_config(name, after)
            return "altered", notes

        return self._ask(altered)

    def act(self, name: str, action: PipelineAction) -> None:
        def acted(worker: ConnectClient) -> None:
            self._existing(worker, name)
            if action is PipelineAction.RESTART:
                worker.restart(name, include_tasks=True)
            else:
                worker.change_state(name, action.value)

        self._ask(acted)

    def drop(self, name: str, *, if_exists: bool) -> bool:
        """Return whether the pipeline existed."""

        def dropped(worker: ConnectClient) -> bool:
            if if_exists and _pipeline_config(worker, name) is None:
                return False
            self._existing(worker, name)
            worker.delete(name)
            return True

        return self._ask(dropped)

    @staticmethod
    def _existing(worker: ConnectClient, name: str) -> dict[str, str]:
        found = _pipeline_config(worker, name)
        if found is None:
            names = [known for known, document in worker.connectors().items() if is_pipeline(_config(document))]
            near = nearest(name, names)
            advice = f"did you mean {near}?" if near else "SHOW PIPELINES lists the pipelines"
            raise StatementError(f"no pipeline is called {name}", advice=advice)
        return found

    def _ask(self, work: Callable[[ConnectClient], T]) -> T:
        with explained_extra("pipelines need"):
            from barnabas.connect.rest.connect_client import RequestRefused, WorkerUnreachable

        with open_worker(self._options) as worker:
            try:
                return work(worker)
            except RequestRefused as error:
                problem = problem_of_request(error)
                raise StatementError(problem.lines()[0], advice=problem.advice) from error
            except WorkerUnreachable as error:
                advice = "pipelines run on a Connect worker; --worker or BARNABAS_CONNECT_URL names it"
                raise StatementError(str(error), advice=advice) from error


def is_pipeline(config: Mapping[str, str]) -> bool:
    """Return whether a connector is one, by its class in any of the forms that users may write."""
    name = (config.get("connector.class") or "").replace(":", ".").rpartition(".")[2]
    return name.removesuffix("Connector") in _CLASSES


def _config(document: Document) -> dict[str, str]:
    return dict((document.get("info") or {}).get("config") or {})


def _pipeline_config(worker: ConnectClient, name: str) -> dict[str, str] | None:
    """Return the settings; None if no connector has the name, or one of another kind."""
    from barnabas.connect.rest.connect_client import RequestRefused

    try:
        config = {key: str(value) for key, value in worker.config(name).items()}
    except RequestRefused as error:
        if error.status == _NOT_FOUND:
            return None
        raise
    return config if is_pipeline(config) else None


def _row(name: str, document: Document) -> Document:
    config, status = _config(document), status_document(document.get("status") or {"name": name})
    return {
        "pipeline": name,
        "state": status["state"],
        "tasks": tasks_text(status["tasks"]),
        "inputs": config.get("inputs", ""),
        "output": config.get("output.topic") or config.get("output.table") or "",
        "attention": attention_text(status),
    }


def _check(worker: ConnectClient, name: str, config: Mapping[str, str]) -> list[str]:
    """Return warnings. Raise StatementError with every setting that the worker refuses."""
    problems, notes = checked_settings(worker, name, config)
    if problems:
        raise StatementError(
            _joined(problems), advice=next((problem.advice for problem in problems if problem.advice), "")
        )
    return notes


def _joined(problems: list[Problem]) -> str:
    lines = [problem.lines()[0] for problem in problems]
    return lines[0] if len(lines) == 1 else "\n  ".join(["the worker refuses these settings:", *lines])
