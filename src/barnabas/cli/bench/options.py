"""Options of the verbs of ``barnabas bench``: Kafka's client properties, and the end of a measurement.

The first Ctrl-C (or SIGTERM) ends a measurement in order: the command prints the results so far, removes the topics and
ACLs that it created, and exits with status 130. The second one ends it immediately.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal  # noqa: F401 (inherited annotations are evaluated here)

from barnabas.cli.arguments.cluster_options import ClusterOptions, UsageError, running_command
from barnabas.cli.arguments.parameter import Parameter
from barnabas.cli.arguments.stop_signals import stop_at_signals
from barnabas.cli.bench.advice import ADVICE
from barnabas.cli.output.advice import UnknownName, nearest, problem_of
from barnabas.cli.output.answer import Answer
from barnabas.cli.output.exit_status import INTERRUPTED

if TYPE_CHECKING:
    from barnabas.clients.client_config import ClientConfig
    from barnabas.clients.errors import InvalidClientConfig
    from barnabas.common.error_code import ErrorCode

__all__ = ["BenchOptions", "Measurement", "RecordOptions", "put", "until_stopped", "usage_error"]

Measurement = Callable[["ClientConfig", asyncio.Event], Awaitable[Answer]]
"""A measurement receives the settings and the event that Ctrl-C sets."""


@dataclass(kw_only=True)
class BenchOptions(ClusterOptions):
    """The cluster to contact, and the output format."""

    timeout: float | None = None
    """Timeout of each metadata and admin request, in seconds. The measurement as a whole has no limit."""

    def measure(self, work: Measurement, *, right: str = "", advice: Mapping[ErrorCode, str] = ADVICE) -> int:
        """Run ``work`` and return the exit status. ``right`` is the required right, as in "WRITE on Topic:{item}"."""
        from barnabas.clients.admin.errors import AdminError
        from barnabas.clients.errors import ClientError

        config = self._config()
        interrupted = False

        async def measured() -> Answer:
            nonlocal interrupted
            with stop_at_signals("stopping; press Ctrl-C again to end immediately\n") as stop:
                try:
                    return await work(config, stop)
                except (AdminError, ClientError, UnknownName, ValueError) as error:
                    return Answer({}, problems=[problem_of(error, right=right, advice=advice)])
                finally:
                    interrupted = stop.is_set()

        answer = asyncio.run(measured())
        answer.notes = [*config.warnings, *answer.notes]
        if interrupted:
            answer.notes = [*answer.notes, "interrupted: these are the results so far"]
        status = answer.give(running_command.get(), self.output)
        return INTERRUPTED if interrupted else status


@dataclass(kw_only=True)
class RecordOptions(BenchOptions):
    """The same options, for verbs that write and read records."""

    bootstrap_controller: Annotated[str | None, Parameter(show=False)] = None
    """Refused, because controllers don't serve records."""
    command_property: Annotated[
        list[str] | None,
        Parameter(name=["--command-property", "--producer-props", "--consumer-props"], consume_multiple=True),
    ] = None
    """A Kafka client property as key=value, which overrides the file. May be repeated."""

    def properties(self, own: Mapping[str, str | None], known: Collection[str]) -> dict[str, str]:
        """Return the properties of the file, overridden by the command line. ``own`` are properties with options.

        Raise UsageError for a name that is not ``known`` to the verb or to Kafka's clients.
        """
        given = self._given()
        for name, value in own.items():
            if value is not None and given.setdefault(name, value) != value:
                raise UsageError(
                    f"--command-property {name}={given[name]}: another option sets it to {value}; omit one of the two"
                )
        _check_names(given, known)
        if self.bootstrap_controller:
            raise UsageError("--bootstrap-controller: controllers don't serve records; use --bootstrap-server")
        return self._properties()[0] | given

    @property
    def source(self) -> str:
        """The source of the properties, for error messages."""
        return self.command_config or "the command line"

    def _properties(self) -> tuple[dict[str, str], tuple[str, ...]]:
        properties, warnings = super()._properties()
        return properties | self._given(), warnings

    def _given(self) -> dict[str, str]:
        """Parse the properties of the command line. Raise UsageError."""
        found: dict[str, str] = {}
        for pair in self.command_property or ():
            name, equals, value = pair.partition("=")
            if not equals or not name.strip():
                raise UsageError(f"--command-property {pair}: write a property as key=value, for example linger.ms=0")
            if name.strip() in found:
                raise UsageError(f"--command-property {pair}: {name.strip()} is given twice")
            found[name.strip()] = value.strip()
        return found


def _check_names(given: Mapping[str, str], known: Collection[str]) -> None:
    from barnabas.clients.client_config import is_client_property

    for name in given:
        if name not in known and not is_client_property(name):
            near = nearest(name, known)
            hint = f"did you mean {near}?" if near else "Kafka's clients don't have this property"
            raise UsageError(f"--command-property {name}: {hint}")


async def until_stopped(work: Awaitable[object], stop: asyncio.Event, *, grace_s: float = 0) -> bool:
    """Return True when the work ends. After a stop, wait for ``grace_s``, then cancel the work and return False."""
    task = asyncio.ensure_future(work)
    waiting = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
        if not task.done() and grace_s:
            await asyncio.wait([task], timeout=grace_s)
        if not task.done():
            return False
        await task
        return True
    finally:
        waiting.cancel()
        task.cancel()
        await asyncio.gather(task, waiting, return_exceptions=True)


def usage_error(error: InvalidClientConfig) -> UsageError:
    """Return an error with all problems in one line."""
    return UsageError("; ".join(error.problems))


def put(value: object) -> str | None:
    """Return an option as the text of a property, or None if the option is missing."""
    return None if value is None else str(value)
