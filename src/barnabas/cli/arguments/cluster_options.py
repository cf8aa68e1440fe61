"""Options of all commands that contact a cluster, and the function that runs such a command.

A command is a coroutine function that takes the admin client and returns an ``Answer``. ``ClusterOptions.run`` opens
the client, runs the coroutine, prints the answer, and turns errors into messages and an exit status.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal

from barnabas.cli.arguments.parameter import Group, Number, Parameter
from barnabas.cli.arguments.properties_arguments import UsageError
from barnabas.cli.output.advice import UnknownName, problem_of
from barnabas.cli.output.answer import Answer

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient
    from barnabas.clients.client_config import ClientConfig

__all__ = [
    "AnswerOptions",
    "ChangeOptions",
    "ClusterOptions",
    "Count",
    "Flag",
    "Long",
    "NodeId",
    "UsageError",
    "open_admin",
    "running_command",
]

running_command: ContextVar[str] = ContextVar("running_command", default="barnabas")
"""The name of the command in messages: ``barnabas topics create``."""

Flag = Annotated[bool, Parameter(show_default=False)]
Count = Annotated[int, Parameter(validator=Number(gte=1, lte=2**31 - 1))]
NodeId = Annotated[int, Parameter(validator=Number(gte=0, lte=2**31 - 1))]
Long = Annotated[int, Parameter(validator=Number(gte=-(2**63), lte=2**63 - 1))]
_ANSWER = Group("Cluster and answer", sort_key=90)


@Parameter(name="*", group=Group("Answer", sort_key=90))
@dataclass(kw_only=True)
class AnswerOptions:
    """The output format, for commands that don't contact a cluster."""

    output: Annotated[Literal["table", "json", "yaml"], Parameter(name=["--output", "-o"])] = "table"
    """Output format: a table, or one document for programs."""

    def give(self, answer: Answer) -> int:
        return answer.give(running_command.get(), self.output)


@Parameter(name="*", group=_ANSWER)
@dataclass(kw_only=True)
class ClusterOptions:
    """The cluster to contact, and the output format."""

    bootstrap_server: str | None = None
    """The address of a broker, host:port; separate several with commas. Default: localhost:9092."""
    bootstrap_controller: str | None = None
    """The address of a controller instead of a broker, host:port; separate several with commas."""
    command_config: str | None = None
    """A file of Kafka client properties: TLS, SASL, bootstrap.servers, timeouts."""
    timeout: float | None = None
    """Timeout in seconds. Default: default.api.timeout.ms of the properties, else 60."""
    output: Annotated[Literal["table", "json", "yaml"], Parameter(name=["--output", "-o"])] = "table"
    """Output format: a table, or one document for programs."""

    def run(self, work: Callable[[AdminClient], Awaitable[Answer]], *, right: str = "") -> int:
        """Run ``work`` and return the exit status. ``right`` is the required right, as in "DESCRIBE on Cluster"."""
        from barnabas.clients.admin.errors import AdminError
        from barnabas.clients.errors import ClientError, UnsupportedVersion

        config = self._config()

        async def run_with_client() -> Answer:
            try:
                async with await open_admin(config) as admin:
                    return await work(admin)
            except (AdminError, ClientError, UnknownName, ValueError) as error:
                problem = problem_of(error, right=right)
                if isinstance(error, UnsupportedVersion):
                    problem = replace(problem, advice=_where_to_ask(str(error), config))
                return Answer({}, problems=[problem])

        answer = asyncio.run(run_with_client())
        answer.notes = [*config.warnings, *answer.notes]
        return answer.give(running_command.get(), self.output)

    def _config(self) -> ClientConfig:
        from barnabas.clients.client_config import client_config
        from barnabas.clients.errors import InvalidClientConfig

        if self.bootstrap_server and self.bootstrap_controller:
            raise UsageError("--bootstrap-server and --bootstrap-controller can't be used together")
        if self.timeout is not None and self.timeout <= 0:
            raise UsageError(f"--timeout {self.timeout:g}: the timeout is too short")
        properties, warnings = self._properties()
        if self.bootstrap_controller:
            properties.pop("bootstrap.servers", None)
            properties["bootstrap.controllers"] = self.bootstrap_controller
        if self.timeout is not None:
            properties["default.api.timeout.ms"] = str(max(1, int(self.timeout * 1000)))
        is_said = self.bootstrap_server or properties.keys() & {"bootstrap.servers", "bootstrap.controllers"}
        try:
            config = client_config(
                properties,
                bootstrap=self.bootstrap_server if is_said else "localhost:9092",
                source=self.command_config or "the command line",
            )
        except InvalidClientConfig as error:
            raise UsageError(str(error)) from error
        config.warnings = (*warnings, *config.warnings)
        return config

    def _properties(self) -> tuple[dict[str, str], tuple[str, ...]]:
        from barnabas.common.properties_file import MalformedProperties, read_properties_file

        if self.command_config is None:
            return {}, ()
        try:
            found = read_properties_file(self.command_config)
        except OSError as error:
            raise UsageError(f"--command-config: can't read {self.command_config}: {error.strerror}") from error
        except MalformedProperties as error:
            raise UsageError(f"--command-config: {self.command_config}: {error}") from error
        return dict(found.values), tuple(f"{self.command_config}: {warning}" for warning in found.warnings)


@Parameter(name="*", group=_ANSWER)
@dataclass(kw_only=True)
class ChangeOptions(ClusterOptions):
    """The same options, for commands that change something."""

    dry_run: Flag = False
    """Check and show the changes without making them."""


def _where_to_ask(text: str, config: ClientConfig) -> str:
    """Return advice for a request to the wrong kind of node: brokers and controllers have different options."""
    if "is a controller" in text:
        return "pass its address as --bootstrap-controller, or that of a broker as --bootstrap-server"
    if "is a broker" in text:
        return "pass its address as --bootstrap-server, or that of a controller as --bootstrap-controller"
    if config.asks_controllers and "does not offer" in text:
        return "controllers serve fewer requests than brokers: use --bootstrap-server with a broker"
    if "RaftVoter" in text:
        return "this broker does not forward the request: use --bootstrap-controller with a controller"
    return "this cluster does not support the request; nothing was changed"


async def open_admin(config: ClientConfig) -> AdminClient:
    """Return a connected client. If no node responds, fail soon on a terminal; elsewhere, wait for the whole timeout.

    Raise ClientError.
    """
    from barnabas.cli.arguments.lazy_admin import LazyAdmin
    from barnabas.clients.admin.errors import OperationTimedOut
    from barnabas.clients.network_client import NetworkClient

    network = NetworkClient(config)
    limit_s = config.values["default.api.timeout.ms"] / 1000
    try:
        async with asyncio.timeout(limit_s):
            await network.connect()
    except TimeoutError as error:
        await network.close()
        there = ", ".join(map(str, config.bootstrap))
        raise OperationTimedOut(f"no node answered at {there} within {limit_s:g} s") from error
    except BaseException:
        await network.close()
        raise
    return LazyAdmin(config, network)
