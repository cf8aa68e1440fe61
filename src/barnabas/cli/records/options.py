"""Options of the verbs that write and read records: Kafka's client properties, the schema registry, and Ctrl-C.

The first Ctrl-C (or SIGTERM) ends the work in order: records in hand are written or committed, and a summary is
printed. The second one ends it immediately.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from barnabas.cli.arguments.cluster_options import ClusterOptions, UsageError, open_admin
from barnabas.cli.arguments.parameter import Parameter
from barnabas.cli.arguments.stop_signals import stop_at_signals
from barnabas.cli.output.advice import UnknownName, nearest, problem_of
from barnabas.cli.output.answer import Answer, Problem
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_name import topic_name_problem

if TYPE_CHECKING:
    from barnabas.clients.client_config import ClientConfig
    from barnabas.clients.errors import InvalidClientConfig
    from barnabas.clients.schema_registry.registry_client import SchemaRegistry

__all__ = ["RecordOptions", "Work", "hint", "one_topic", "put", "usage_error"]

Work = Callable[["ClientConfig", asyncio.Event], Awaitable[Answer]]
"""It receives the settings and the event that Ctrl-C sets."""

_OBJECTS_PER_COLLECTION = 100_000

_REGISTRY_URL = "schema.registry.url"
_REGISTRY_USER = ("schema.registry.basic.auth.user.info", "basic.auth.user.info")
_REGISTRY_TOKEN = ("schema.registry.bearer.auth.token", "bearer.auth.token")
_REGISTRY_PROPERTIES = frozenset(
    {
        _REGISTRY_URL,
        *_REGISTRY_USER,
        *_REGISTRY_TOKEN,
        "basic.auth.credentials.source",
        "bearer.auth.credentials.source",
    }
)
"""Properties of Confluent's serializers, in the same file as those of the client."""


_OutputFormat = Annotated[Literal["text", "table", "json", "yaml"] | None, Parameter(name=["--output", "-o"])]


@dataclass(kw_only=True)
class RecordOptions(ClusterOptions):
    """The cluster to contact, and the output format."""

    timeout: float | None = None
    """Time limit in seconds for everything before the first record. Default: default.api.timeout.ms, else 60."""
    bootstrap_controller: Annotated[str | None, Parameter(show=False)] = None
    """Refused, because controllers don't serve records."""
    command_property: Annotated[
        list[str] | None,
        Parameter(name=["--command-property", "--producer-property", "--consumer-property"]),
    ] = None
    """A Kafka client property as key=value, which overrides the file. May be repeated."""
    schema_registry: str | None = None
    """URL of a schema registry; separate several with commas. Default: schema.registry.url of the properties."""
    output: _OutputFormat = None  # type: ignore[assignment]
    """Format of the output: text; table, for people; json, or yaml. Default: text."""
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"], show_default=False)] = False
    """Print no counts and rates to standard error."""

    def properties(
        self, own: Mapping[str, str | None], known: Collection[str], instead: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Return the properties of the file, overridden by the command line. ``own`` are properties with options.

        Raise UsageError for a name that is not ``known`` to the verb or to Kafka's clients, or for which ``instead``
        names an option.
        """
        if self.bootstrap_controller:
            raise UsageError("--bootstrap-controller: controllers don't serve records; use --bootstrap-server")
        given = self._given()
        for name, option in (instead or {}).items():
            if name in given:
                raise UsageError(f"--command-property {name}={given[name]}: use {option}")
        for name, value in own.items():
            if value is not None and given.setdefault(name, value) != value:
                raise UsageError(
                    f"--command-property {name}={given[name]}: another option sets it to {value}; omit one of the two"
                )
        _check_names(given, known)
        return self._properties()[0] | given

    @property
    def source(self) -> str:
        """The source of the properties, for error messages."""
        return self.command_config or "the command line"

    def run_until_stopped(self, work: Work, topic: str, *, right: str, advice: Mapping[ErrorCode, str]) -> Answer:
        """Run ``work`` and return its result; errors become problems. ``right`` is the required right."""
        from barnabas.clients.admin.errors import AdminError
        from barnabas.clients.errors import ClientError

        config = self._config()

        async def worked() -> Answer:
            with stop_at_signals("") as stop:
                try:
                    return await work(config, stop)
                except AdminError as error:
                    names = await _topics(config) if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else ()
                    return Answer({}, problems=[problem_of(error, right=right, names=names, advice=advice)])
                except (ClientError, UnknownName) as error:
                    return Answer({}, problems=[problem_of(error, right=right, advice=advice)])
                except OSError as error:
                    if isinstance(error, BrokenPipeError):
                        raise
                    return Answer({}, problems=[Problem(error.strerror or str(error), str(error.filename or ""))])

        with _rare_collections():
            answer = asyncio.run(worked())
        answer.notes = [*config.warnings, *answer.notes]
        return answer

    def registry(self) -> SchemaRegistry | None:
        """Return the schema registry, if one is set. Raise UsageError."""
        properties = super()._properties()[0] | self._given()
        urls = self.schema_registry or properties.get(_REGISTRY_URL, "")
        if not urls.strip():
            return None
        try:
            from barnabas.clients.schema_registry.errors import SchemaError
            from barnabas.clients.schema_registry.registry_client import (
                RegistryAccess,
                RegistryAdvice,
                SchemaRegistry,
            )
        except ModuleNotFoundError as error:
            raise UsageError(f"--schema-registry needs pip install 'barnabas[schemas]' ({error.name})") from error
        token = next((properties[name] for name in _REGISTRY_TOKEN if name in properties), "")
        access = RegistryAccess(
            user_info=next((properties[name] for name in _REGISTRY_USER if name in properties), ""),
            token=(lambda: token) if token else None,
            advice=RegistryAdvice(
                url="check that it runs at the URL of --schema-registry",
                credentials="set basic.auth.user.info=user:password in the file of --command-config",
                no_latest="--value-schema FILE registers a schema, --value-schema ID uses another one",
            ),
        )
        try:
            return SchemaRegistry([url.strip() for url in urls.split(",")], access)
        except SchemaError as error:
            raise UsageError(f"--schema-registry {error}") from error

    def _properties(self) -> tuple[dict[str, str], tuple[str, ...]]:
        properties, warnings = super()._properties()
        all_given = properties | self._given()
        return {name: all_given[name] for name in all_given if name not in _REGISTRY_PROPERTIES}, warnings

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


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Look for cyclic garbage rarely: records have none, and looking at each several times costs as much as parsing."""
    before = gc.get_threshold()
    gc.set_threshold(_OBJECTS_PER_COLLECTION, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def one_topic(topic: str | None) -> str:
    """Return the topic. Raise UsageError without one, or for an invalid name."""
    if topic is None:
        raise UsageError("no topic given: name it as an argument or with --topic")
    problem = topic_name_problem(topic)
    if problem is not None:
        raise UsageError(f"--topic {topic}: {problem}")
    return topic


def _check_names(given: Mapping[str, str], known: Collection[str]) -> None:
    from barnabas.clients.client_config import is_client_property

    for name in given:
        if name not in known and name not in _REGISTRY_PROPERTIES and not is_client_property(name):
            near = nearest(name, known)
            advice = f"did you mean {near}?" if near else "Kafka's clients don't have this property"
            raise UsageError(f"--command-property {name}: {advice}")


async def _topics(config: ClientConfig) -> list[str]:
    """Return the topics that the caller may see, to suggest one; none if they can't be read."""
    from barnabas.cli.arguments.topic_selection import topic_names
    from barnabas.clients.admin.errors import AdminError
    from barnabas.clients.errors import ClientError

    try:
        async with await open_admin(config) as admin:
            return await topic_names(admin)
    except (AdminError, ClientError):
        return []


def hint(text: str, options: RecordOptions) -> None:
    """Tell a person at a terminal what the command waits for."""
    if not options.quiet and sys.stderr.isatty():
        sys.stderr.write(f"note: {text}\n")


def usage_error(error: InvalidClientConfig) -> UsageError:
    """Return an error with all problems in one line."""
    return UsageError("; ".join(error.problems))


def put(value: object) -> str | None:
    """Return an option as the text of a property, or None if the option is missing."""
    return None if value is None else str(value)
