"""A request as a route's handler sees it, the handler's services, and its reply."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from barnabas.connect.decide.herder.herder import Herder
from barnabas.connect.decide.registry.plugin_registry import PluginRegistry
from barnabas.connect.entities import DeadLetters
from barnabas.connect.rest.forwarding import Forwardable, Forwarder
from barnabas.connect.rest.group_reads import GroupReads
from barnabas.connect.rest.internal_client import Answer
from barnabas.connect.rest.internal_request_check import InternalRequestCheck
from barnabas.connect.rest.logger_levels import LoggerLevels
from barnabas.connect.rest.off_loop import off_loop
from barnabas.connect.rest.recent_log import RecentLog
from barnabas.connect.rest.roles import User

__all__ = ["ApiRequest", "DeadLetterSource", "Reply", "Services", "is_true"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """``path`` is as received, still encoded; ``parameters`` are its variable parts, decoded.

    Names in ``headers`` are case-insensitive. ``base_url`` is the worker's URL as the user sees it.
    """

    method: str
    path: str
    query_string: str
    query: Mapping[str, Sequence[str]]
    headers: Mapping[str, str]
    parameters: Mapping[str, str]
    body: bytes
    base_url: str
    user: User
    is_authenticated: bool = False

    async def parsed(self, read: Callable[[bytes], T]) -> T:
        """Parse the body with ``read``; a large one on a thread. Raises what ``read`` raises."""
        return await off_loop(len(self.body), lambda: read(self.body))

    @property
    def connector(self) -> str:
        return self.parameters["connector"]

    def last(self, name: str) -> str | None:
        values = self.query.get(name)
        return values[0] if values else None

    @property
    def forward(self) -> bool | None:
        text = self.last("forward")
        return None if text is None else is_true(text)

    def forwardable(
        self, method: str, path: str, body: bytes | None = None, query: Mapping[str, str] | None = None
    ) -> Forwardable:
        authorization = self.headers.get("authorization")
        role = self.user.role if self.is_authenticated and authorization is None else None
        return Forwardable(
            method=method,
            path=path,
            query=query or {},
            body=body,
            forward=self.forward,
            authorization=authorization,
            user="" if role is None else self.user.name,
            role="" if role is None else role.text,
        )


def is_true(text: str | None) -> bool:
    """Every value except ``true`` is false."""
    return text is not None and text.lower() == "true"


@dataclass(frozen=True, slots=True)
class Reply:
    """``value`` is encoded as JSON unless it is bytes, which are already JSON; None means no body."""

    status: int = 200
    value: object = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, outcome: T | Answer, make: Callable[[T], Reply]) -> Reply:
        """Create a reply from the local result, or from another worker's answer."""
        if isinstance(outcome, Answer):
            return cls(outcome.status, outcome.body or None)
        return make(outcome)

    def located(self, location: str) -> Reply:
        """Add the location of the created object, if any."""
        return replace(self, headers={**self.headers, "Location": location}) if self.status == 201 else self


Handler = Callable[["Services", ApiRequest], Awaitable[Reply]]


class DeadLetterSource(Protocol):
    async def read(self, connector: str, config: Mapping[str, str | None], count: int) -> DeadLetters:
        """Return the latest dead letters, the last first. Raise NotFound without a dead-letter topic, ConnectError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services of handlers."""

    herder: Herder
    plugins: PluginRegistry
    forwarder: Forwarder
    internal: InternalRequestCheck
    loggers: LoggerLevels
    version: str
    commit: str
    kafka_cluster_id: str
    """The id of the backing cluster."""
    is_topic_tracking_enabled: bool = True
    may_topic_tracking_be_reset: bool = True
    health_timeout_s: float = 10.0
    recent_log: RecentLog = field(default_factory=RecentLog)
    dead_letters: DeadLetterSource | None = None
    group_reads: GroupReads | None = None
