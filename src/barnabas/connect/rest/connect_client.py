"""A client of the REST API of Connect workers, barnabas' or Kafka's.

During a rebalance a worker may answer 409: the client repeats the request until ``timeout_s``. It raises every other
error immediately.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeAlias
from urllib.parse import quote

import httpx

__all__ = [
    "ConnectClient",
    "Credentials",
    "Document",
    "InvalidWorkerUrl",
    "RequestRefused",
    "WorkerUnreachable",
    "tls_context",
]

Document: TypeAlias = dict[str, Any]
"""An object of an answer: its fields are those of Kafka Connect's REST API."""

_PAUSE_S = 0.5
_CONFLICT = 409
_NOT_NOW = ("rebalanc", "stale configuration")
"""The text of a temporary 409. Another 409 means that a connector exists already."""


class RequestRefused(Exception):
    """The worker returned an error, with ``message``."""

    def __init__(self, status: int, message: str, document: Document | None = None) -> None:
        super().__init__(f"{message} ({status})")
        self.status = status
        self.message = message
        self.document = document or {}


class WorkerUnreachable(Exception):
    """No worker answered, or the answer is not that of a Connect worker."""


class InvalidWorkerUrl(ValueError):
    """The URL is not the address of a worker."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user with a password, or a token. A client certificate is in the TLS context."""

    user: str | None = None
    password: str = ""
    token: str | None = None


def tls_context(*, ca: str | None = None, certificate: str | None = None, key: str | None = None) -> ssl.SSLContext:
    """Create a TLS context from PEM files; without ``ca`` the system's authorities are trusted. Raise OSError."""
    context = ssl.create_default_context(cafile=ca)
    if certificate is not None:
        context.load_cert_chain(certificate, key)
    return context


class ConnectClient:
    """``with ConnectClient(url) as worker: worker.status("orders")``. Methods return the JSON of the response."""

    def __init__(
        self,
        url: str,
        *,
        credentials: Credentials = Credentials(),
        tls: ssl.SSLContext | None = None,
        timeout_s: float = 60.0,
        transport: httpx.BaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """``transport``, ``clock`` and ``sleep`` are for tests. Raise InvalidWorkerUrl."""
        self.url = _base(url)
        self.timeout_s = timeout_s
        self.clock = clock
        self.sleep = sleep
        headers = {"Accept": "application/json"}
        if credentials.token is not None:
            headers["Authorization"] = f"Bearer {credentials.token}"
        auth = None if credentials.user is None else httpx.BasicAuth(credentials.user, credentials.password)
        if tls is None and transport is None and self.url.startswith("https:"):
            tls = tls_context()
        self._client = httpx.Client(
            headers=headers,
            auth=auth,
            verify=tls or False,  # Only for http, which needs no verification.
            timeout=timeout_s,
            transport=transport,
            trust_env=False,  # Contact the worker directly: a web proxy does not know its name.
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    # ---- the worker

    def server_info(self) -> Document:
        return dict(self._ask("GET", "/"))

    def health(self) -> Document:
        """Return the health, even of an unhealthy worker. Raise RequestRefused (404) for workers before 3.9."""
        try:
            return dict(self._ask("GET", "/health", patience_s=0))
        except RequestRefused as error:
            if "status" not in error.document:
                raise
            return dict(error.document)

    def plugins(self, *, connectors_only: bool = True) -> list[Document]:
        return list(self._ask("GET", "/connector-plugins", query={"connectorsOnly": _flag(connectors_only)}))

    def plugin_config(self, plugin: str, version: str | None = None) -> list[Document]:
        query = {} if version is None else {"version": version}
        return list(self._ask("GET", f"/connector-plugins/{_part(plugin)}/config", query=query))

    def validate(self, config: Mapping[str, str | None]) -> Document:
        """Validate the settings with the class in ``connector.class``."""
        plugin = _part(config.get("connector.class") or "")
        return dict(self._ask("PUT", f"/connector-plugins/{plugin}/config/validate", body=dict(config)))

    def loggers(self) -> Document:
        return dict(self._ask("GET", "/admin/loggers"))

    def logger(self, name: str) -> Document:
        return dict(self._ask("GET", f"/admin/loggers/{_part(name)}"))

    def logs(self, *, lines: int, level: str | None = None, connector: str | None = None) -> list[Document]:
        """Return the last lines of the worker's log. Kafka's workers lack this path: RequestRefused with 404."""
        given = {"lines": str(lines), "level": level, "connector": connector}
        query = {name: text for name, text in given.items() if text is not None}
        return list(self._ask("GET", "/admin/logs", query=query))

    def set_logger(self, name: str, level: str, scope: str) -> list[str]:
        """Return the changed loggers; unknown with scope=cluster."""
        path = f"/admin/loggers/{_part(name)}"
        return list(self._ask("PUT", path, query={"scope": scope}, body={"level": level}) or ())

    # ---- connectors

    def connectors(self) -> dict[str, Document]:
        """Return ``info`` and ``status`` of the connectors by name. A status may be missing during a change, and
        Kafka's workers return no details."""
        query = [("expand", "status"), ("expand", "info"), ("details", "true")]
        return dict(self._ask("GET", "/connectors", query=query))

    def connector(self, name: str) -> Document:
        return dict(self._ask("GET", _path(name)))

    def create(self, name: str, config: Mapping[str, str], initial_state: str | None = None) -> Document:
        body: Document = {"name": name, "config": dict(config)}
        if initial_state is not None:
            body["initial_state"] = initial_state
        return dict(self._ask("POST", "/connectors", body=body))

    def put_config(self, name: str, config: Mapping[str, str]) -> Document:
        """Create the connector if it does not exist."""
        return dict(self._ask("PUT", _path(name, "config"), body=dict(config)))

    def patch_config(self, name: str, changes: Mapping[str, str | None]) -> Document:
        return dict(self._ask("PATCH", _path(name, "config"), body=dict(changes)))

    def config(self, name: str) -> Document:
        return dict(self._ask("GET", _path(name, "config")))

    def delete(self, name: str) -> None:
        self._ask("DELETE", _path(name))

    def status(self, name: str) -> Document:
        """Return the status, of a barnabas worker with details."""
        return dict(self._ask("GET", _path(name, "status"), query={"details": "true"}))

    def dead_letters(self, name: str, count: int) -> Document:
        """Return the latest dead letters. Kafka's workers lack this path: RequestRefused with 404."""
        return dict(self._ask("GET", _path(name, "dead-letters"), query={"count": str(count)}))

    def tasks(self, name: str) -> list[Document]:
        return list(self._ask("GET", _path(name, "tasks")))

    def change_state(self, name: str, verb: str) -> None:
        """``verb`` is pause, resume or stop."""
        self._ask("PUT", _path(name, verb))

    def restart(self, name: str, *, include_tasks: bool = False, only_failed: bool = False) -> None:
        query = {"includeTasks": _flag(include_tasks), "onlyFailed": _flag(only_failed)}
        self._ask("POST", _path(name, "restart"), query=query)

    def restart_task(self, name: str, task: int) -> None:
        self._ask("POST", _path(name, "tasks", str(task), "restart"))

    def topics(self, name: str) -> list[str]:
        return list(self._ask("GET", _path(name, "topics"))[name]["topics"])

    def reset_topics(self, name: str) -> None:
        self._ask("PUT", _path(name, "topics", "reset"))

    def offsets(self, name: str) -> list[Document]:
        return list(self._ask("GET", _path(name, "offsets"))["offsets"])

    def alter_offsets(self, name: str, offsets: Sequence[Mapping[str, object]]) -> str:
        """Return the worker's answer."""
        return str(self._ask("PATCH", _path(name, "offsets"), body={"offsets": list(offsets)})["message"])

    def reset_offsets(self, name: str) -> str:
        return str(self._ask("DELETE", _path(name, "offsets"))["message"])

    # ---- requests

    def _ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | Sequence[tuple[str, str]] = (),
        body: object = None,
        patience_s: float | None = None,
    ) -> Any:
        deadline = self.clock() + (self.timeout_s if patience_s is None else patience_s)
        while True:
            try:
                return self._ask_once(method, path, query, body)
            except RequestRefused as error:
                passes = error.status == _CONFLICT and any(phrase in error.message.lower() for phrase in _NOT_NOW)
                if not passes or self.clock() + _PAUSE_S > deadline:
                    raise
            self.sleep(_PAUSE_S)

    def _ask_once(
        self, method: str, path: str, query: Mapping[str, str] | Sequence[tuple[str, str]], body: object
    ) -> object:
        pairs = httpx.QueryParams(list(query.items() if isinstance(query, Mapping) else query))
        try:
            answer = self._client.request(method, self.url + path, params=pairs or None, json=body)
        except httpx.TimeoutException as error:
            raise WorkerUnreachable(f"{self.url} did not answer within {self.timeout_s:g} s") from error
        except httpx.HTTPError as error:
            raise WorkerUnreachable(f"can't connect to a worker at {self.url}: {error}") from error
        if answer.is_success:
            return self._document(answer) if answer.content else None
        raise _refused(answer)

    def _document(self, answer: httpx.Response) -> Any:
        try:
            return answer.json()
        except ValueError as error:
            raise WorkerUnreachable(f"{self.url} is not a Connect worker: the response is not JSON") from error


def _base(url: str) -> str:
    try:
        parsed = httpx.URL(url.strip())
    except httpx.InvalidURL as error:
        raise InvalidWorkerUrl(f"{url}: {error}") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise InvalidWorkerUrl(f"{url} is not the address of a worker: write http://host:8083 or https://host:8083")
    if parsed.userinfo:
        raise InvalidWorkerUrl("the address of a worker must not contain a password, because others can see it")
    return str(parsed.copy_with(query=None, fragment=None)).rstrip("/")


def _refused(answer: httpx.Response) -> RequestRefused:
    """Return the error with the message of the body; proxies send bodies of other forms."""
    try:
        document = answer.json()
    except ValueError:
        document = None
    if not isinstance(document, dict):
        document = {}
    said = document.get("message") or answer.reason_phrase or "refused"
    return RequestRefused(answer.status_code, str(said), document)


def _part(text: str) -> str:
    return quote(text, safe="")


def _path(name: str, *parts: str) -> str:
    return "/".join(("/connectors", _part(name), *parts))


def _flag(value: bool) -> str:
    return "true" if value else "false"
