"""``barnabas connect pause|resume|stop|restart``: change the states of connectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from barnabas.cli.arguments.cluster_options import Flag, UsageError
from barnabas.cli.arguments.parameter import Number, Parameter
from barnabas.cli.connect.options import WorkerChangeOptions
from barnabas.cli.connect.tables import request_each, status_document, tasks_text
from barnabas.cli.connect.wait import wait_for
from barnabas.cli.output.answer import Answer, Change, change_answer

if TYPE_CHECKING:
    from barnabas.connect.rest.connect_client import ConnectClient

__all__ = ["pause", "restart", "resume", "stop"]

TaskNumber = Annotated[int, Parameter(validator=Number(gte=0, lte=2**31 - 1))]


def pause(connector: list[str] | None = None, *, wait: Flag = False, options: WorkerChangeOptions | None = None) -> int:
    """Pause connectors. Their tasks keep their resources, but don't process records.

    For example:

        barnabas connect pause orders --wait

    Parameters
    ----------
    connector
        The name of a connector. May be repeated.
    wait
        Return when all their tasks are paused.
    """
    return _change(connector, options, lambda worker: _to(worker, "pause"), "paused", "PAUSED", wait=wait)


def resume(
    connector: list[str] | None = None, *, wait: Flag = False, options: WorkerChangeOptions | None = None
) -> int:
    """Resume paused or stopped connectors at their last offsets.

    For example:

        barnabas connect resume orders payments --wait

    Parameters
    ----------
    connector
        The name of a connector. May be repeated.
    wait
        Return when all their tasks are running, or one has failed.
    """
    return _change(connector, options, lambda worker: _to(worker, "resume"), "resumed", "RUNNING", wait=wait)


def stop(connector: list[str] | None = None, *, wait: Flag = False, options: WorkerChangeOptions | None = None) -> int:
    """Stop connectors. Their tasks end until they are resumed, and their offsets can be changed.

    For example:

        barnabas connect stop orders --wait

    Parameters
    ----------
    connector
        The name of a connector. May be repeated.
    wait
        Return when all their tasks have ended.
    """
    return _change(connector, options, lambda worker: _to(worker, "stop"), "stopped", "STOPPED", wait=wait)


def restart(
    connector: list[str] | None = None,
    *,
    task: list[TaskNumber] | None = None,
    include_tasks: Flag = False,
    only_failed: Flag = False,
    wait: Flag = False,
    options: WorkerChangeOptions | None = None,
) -> int:
    """Restart connectors, or their tasks.

    For example:

        barnabas connect restart orders --include-tasks --only-failed --wait
        barnabas connect restart orders --task 0

    Parameters
    ----------
    connector
        The name of a connector. May be repeated.
    task
        Only the task with this number. May be repeated.
    include_tasks
        Also restart the tasks of the connector.
    only_failed
        Only the connector and tasks that have failed.
    wait
        Return when the connector and all its tasks are running, or one has failed again.
    """
    if task and (include_tasks or only_failed or len(connector or ()) != 1):
        raise UsageError("--task needs exactly one connector, and can't be used with --include-tasks or --only-failed")

    def restarted(worker: ConnectClient) -> Callable[[str], object]:
        def restart(name: str) -> None:
            for number in task or ():
                worker.restart_task(name, number)
            if not task:
                worker.restart(name, include_tasks=include_tasks, only_failed=only_failed)

        return restart

    return _change(connector, options, restarted, "restarted", "RUNNING", wait=wait)


def _to(worker: ConnectClient, verb: str) -> Callable[[str], object]:
    return lambda name: worker.change_state(name, verb)


def _change(
    connector: list[str] | None,
    options: WorkerChangeOptions | None,
    request_of: Callable[[ConnectClient], Callable[[str], object]],
    done: str,
    state: str,
    *,
    wait: bool,
) -> int:
    """Send the request for each connector, and wait for the new state if requested."""
    if not connector:
        raise UsageError("no connector given: name one or more")
    options = options or WorkerChangeOptions()
    dry_run = options.dry_run

    def work(worker: ConnectClient) -> Answer:
        request: Callable[[str], object] = worker.status if dry_run else request_of(worker)
        found, problems = request_each(connector, request)
        changes = [Change("connector", name, done, _now(found[name]) if dry_run else "") for name in found]
        if wait and not dry_run:
            for name in found:
                problems += wait_for(worker, name, state)
        return change_answer(changes, problems, dry_run=dry_run)

    return options.run(work)


def _now(status: Any) -> str:
    document = status_document(status)
    return f"now {document['state']}, tasks: {tasks_text(document['tasks']) or 'none'}"
