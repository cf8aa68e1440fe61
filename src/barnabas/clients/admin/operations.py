"""The base of all admin operations: a request with retries, and requests about many items.

A request is repeated when the node is unreachable or has disconnected, or reports that it is not responsible (another
coordinator, leader or controller), or that the client is too fast; with pauses, until the deadline. A request that must
not reach the cluster twice has ``repeatable=False``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

from barnabas.clients.admin.errors import AdminError, NotVisible, OperationTimedOut, admin_error
from barnabas.clients.admin.results import Results
from barnabas.clients.admin.retry import RETRIED, Backoff, Deadline
from barnabas.clients.admin.routing import ANY, CONTROLLER, Connection, Router, Target, broker
from barnabas.clients.errors import ClientError, LoginRequired, UnsupportedVersion
from barnabas.common.error_code import ErrorCode
from barnabas.common.errors import Transient
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.errors import EncodeError
from barnabas.protocol.schema import Message, Request

if TYPE_CHECKING:
    from barnabas.clients.client_config import ClientConfig
    from barnabas.clients.node_connection import ResponseReader

__all__ = ["Operations", "RequestFor", "chunks", "refuse_unless"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
R = TypeVar("R", bound=Message)
T = TypeVar("T")
RequestFor: TypeAlias = "Request[R] | Callable[[int], Request[R]]"
"""A request with the answer ``R``, or a function that creates it for a version."""
Found = Iterable[tuple[K, V | AdminError]]
Placed = tuple[dict[K, int], dict[K, AdminError]]

_LAG_PAUSE_MS = (10, 200)
_LOGINS_REQUIRED = 3
"""A request fails when so many connections in succession ended as those of a listener with SASL do."""


class Operations:
    """The base of every area of ``AdminClient``."""

    def __init__(self, config: ClientConfig, router: Router) -> None:
        self._config = config
        self._router = router

    def _deadline(self, timeout_s: float | None) -> Deadline:
        if timeout_s is not None and timeout_s < 0:
            raise ValueError(f"timeout_s must not be negative: {timeout_s}")
        return Deadline(self._config.values["default.api.timeout.ms"] / 1000 if timeout_s is None else timeout_s)

    def _timeout_ms(self, deadline: Deadline) -> int:
        """The time that a node may take to answer."""
        return max(1, int(min(deadline.remaining_s, self._config.request_timeout_s) * 1000))

    @overload
    async def _call(
        self,
        request: RequestFor[R],
        deadline: Deadline,
        *,
        api: ApiKey,
        target: Target = ANY,
        at_least: int = 0,
        at_most: int = 32767,
        repeatable: bool = True,
        settle: Callable[[R], AdminError | None] | None = None,
        retried: Collection[ErrorCode] = RETRIED,
    ) -> R: ...

    @overload
    async def _call(
        self,
        request: RequestFor[Message],
        deadline: Deadline,
        *,
        api: ApiKey,
        target: Target = ANY,
        read: ResponseReader[T],
    ) -> T: ...

    async def _call(
        self,
        request: RequestFor[Message],
        deadline: Deadline,
        *,
        api: ApiKey,
        target: Target = ANY,
        at_least: int = 0,
        at_most: int = 32767,
        repeatable: bool = True,
        read: ResponseReader[Any] | None = None,
        settle: Callable[[Any], AdminError | None] | None = None,
        retried: Collection[ErrorCode] = RETRIED,
    ) -> object:
        """Return the response, or the result of ``read``. Raise its error if it has one, or a ClientError.

        ``settle`` examines the response and returns an error that requires a repetition.
        """
        backoff = self._backoff()
        problem: Exception
        logins_required = 0
        while True:
            sent = False
            throttled_s = 0.0
            try:
                async with asyncio.timeout_at(deadline.at):
                    connection = await self._router.connection(target)
                    version = version_for(connection, api, at_least, at_most)
                    message = request if isinstance(request, Request) else request(version)
                    sent = True
                    response = await self._send(connection, message, version, deadline, read)
                error = self._refusal(response) or (settle(response) if settle is not None else None)
                if error is None:
                    return response
                if error.code not in retried:
                    raise error
                problem = error
                target = self._moved(target, error)
                if error.code == ErrorCode.THROTTLING_QUOTA_EXCEEDED:
                    throttled_s = getattr(response, "throttle_time_ms", 0) / 1000
            except TimeoutError as timeout:
                raise OperationTimedOut(self._too_late(api, deadline)) from timeout
            except ClientError as failure:
                logins_required = logins_required + 1 if isinstance(failure, LoginRequired) else 0
                if not isinstance(failure, Transient) or (sent and not repeatable):
                    raise
                if logins_required == _LOGINS_REQUIRED:
                    raise
                problem = failure
                self._router.is_stale()
            if not await backoff.pause(deadline, throttled_s):
                raise OperationTimedOut(f"{self._too_late(api, deadline)}: {problem}") from problem

    async def _items(
        self,
        keys: Iterable[K],
        build: Callable[[Sequence[K]], RequestFor[R]],
        read: Callable[[R], Found[K, V]],
        deadline: Deadline,
        *,
        api: ApiKey,
        target: Target = ANY,
        at_least: int = 0,
        at_most: int = 32767,
        repeatable: bool = True,
        retried: Collection[ErrorCode] = RETRIED,
    ) -> Results[K, V]:
        """Send one request about many items. Those with transient errors are requested again alone."""
        pending: dict[K, None] = dict.fromkeys(keys)
        values: dict[K, V] = {}
        errors: dict[K, AdminError] = {}
        if not pending:
            return Results(values, errors)

        def settle(response: R) -> AdminError | None:
            again = None
            for key, outcome in read(response):
                if key not in pending:
                    continue
                if isinstance(outcome, AdminError):
                    errors[key] = outcome
                    if outcome.code in retried:
                        again = outcome
                        continue
                else:
                    errors.pop(key, None)
                    values[key] = outcome
                del pending[key]
            return again

        def request(version: int) -> Request[R]:
            made = build(tuple(pending))
            return made if isinstance(made, Request) else made(version)

        try:
            await self._call(
                request, deadline, api=api, target=target, at_least=at_least, at_most=at_most,
                repeatable=repeatable, settle=settle, retried=retried,
            )  # fmt: skip
        except OperationTimedOut:
            if not values and not errors:
                raise
        for key in pending:
            errors.setdefault(key, AdminError(ErrorCode.UNKNOWN_SERVER_ERROR, "the answer omits it", key))
        return Results(values, errors)

    async def _items_in_order(
        self,
        keys: Sequence[K],
        build: Callable[[Sequence[K]], Request[R]],
        outcomes: Callable[[R, Sequence[K]], Iterable[V | AdminError]],
        deadline: Deadline,
        *,
        api: ApiKey,
    ) -> Results[K, V]:
        """Like ``_items``, for answers that identify items only by their place in the request."""
        asked = keys

        def request(left: Sequence[K]) -> Request[R]:
            nonlocal asked
            asked = left
            return build(left)

        def read(response: R) -> Found[K, V]:
            return zip(asked, outcomes(response, asked), strict=False)

        return await self._items(keys, request, read, deadline, api=api)

    async def _in_chunks(
        self, items: Sequence[K], size: int, ask: Callable[[Sequence[K]], Awaitable[Results[K, V]]]
    ) -> Results[K, V]:
        """Send requests one after another, none too large for a node."""
        values: dict[K, V] = {}
        errors: dict[K, AdminError] = {}
        for chunk in chunks(items, size):
            part = await ask(chunk)
            values |= part.values
            errors |= part.errors
        return Results(values, errors)

    async def _placed(
        self,
        keys: Iterable[K],
        place: Callable[[list[K]], Awaitable[Placed[K]]],
        ask: Callable[[Sequence[K], Target], Awaitable[Results[K, V]]],
        deadline: Deadline,
        *,
        moved: Collection[ErrorCode],
        forget: Callable[[list[K]], None] = lambda keys: None,
    ) -> Results[K, V]:
        """Send items to the nodes that own them, to all nodes concurrently.

        ``place`` finds the nodes; items that have ``moved`` meanwhile are looked up and requested again.
        """
        pending = list(dict.fromkeys(keys))
        values: dict[K, V] = {}
        errors: dict[K, AdminError] = {}
        backoff = self._backoff()
        while pending:
            try:
                async with asyncio.timeout_at(deadline.at):
                    nodes, problems = await place(pending)
            except (TimeoutError, ClientError) as error:
                if isinstance(error, ClientError) and not isinstance(error, Transient):
                    raise
                if values or errors or not await backoff.pause(deadline):
                    raise OperationTimedOut(
                        f"no node reports the responsible broker: {error or 'no time left'}"
                    ) from error
                continue
            errors |= problems
            by_node: dict[int, list[K]] = {}
            for key, node in nodes.items():
                by_node.setdefault(node, []).append(key)
            answers = await asyncio.gather(*(self._ask_node(ask, part, broker(node)) for node, part in by_node.items()))
            for part in answers:
                values |= part.values
                errors |= part.errors
            for key in values:
                errors.pop(key, None)
            again = {*moved, ErrorCode.BROKER_NOT_AVAILABLE}
            pending = [key for key in pending if key in errors and errors[key].code in again]
            if pending:
                forget(pending)
                if not await backoff.pause(deadline):
                    break
        return Results(values, errors)

    async def _ask_node(
        self, ask: Callable[[Sequence[K], Target], Awaitable[Results[K, V]]], keys: Sequence[K], target: Target
    ) -> Results[K, V]:
        """Send items to a certain node. If it does not answer, only its own items fail."""
        if target == ANY:
            return await ask(keys, target)
        try:
            return await ask(keys, target)
        except AdminError as error:
            return Results({}, {key: admin_error(error.code, error.message, key) for key in keys})
        except OperationTimedOut as error:
            return Results({}, {key: AdminError(ErrorCode.REQUEST_TIMED_OUT, str(error), key) for key in keys})

    async def _from_each(
        self, nodes: Iterable[int], ask: Callable[[Sequence[int], Target], Awaitable[Results[int, V]]]
    ) -> Results[int, V]:
        """Send the same request to several nodes concurrently."""
        answers = await asyncio.gather(*(self._ask_node(ask, [node], broker(node)) for node in nodes))
        return Results(
            {node: value for part in answers for node, value in part.values.items()},
            {node: error for part in answers for node, error in part.errors.items()},
        )

    async def _until_each_broker(
        self, shows: Callable[[Target], Awaitable[bool]], deadline: Deadline, what: str
    ) -> None:
        """Wait until every live broker shows a change. Raise NotVisible with the brokers that lag."""
        lagging = set(await self._live_brokers(deadline))
        backoff = Backoff(*_LAG_PAUSE_MS)
        why = ""
        while lagging:
            for node in sorted(lagging):
                try:
                    async with asyncio.timeout_at(deadline.at):
                        if await shows(broker(node)):
                            lagging.discard(node)
                except (TimeoutError, ClientError, AdminError) as error:
                    why = str(error)
            if lagging:
                if not await backoff.pause(deadline):
                    raise NotVisible(what, sorted(lagging), why)
                if why:
                    lagging &= set(await self._live_brokers(deadline))

    async def _live_brokers(self, deadline: Deadline) -> list[int]:
        backoff = self._backoff()
        while True:
            try:
                async with asyncio.timeout_at(deadline.at):
                    return await self._router.node_ids()
            except (TimeoutError, ClientError) as error:
                if isinstance(error, ClientError) and not isinstance(error, Transient):
                    raise
                if not await backoff.pause(deadline):
                    raise OperationTimedOut(f"no node reports the live brokers: {error or 'no time left'}") from error

    async def _send(
        self,
        connection: Connection,
        message: Request[Message],
        version: int,
        deadline: Deadline,
        read: ResponseReader[object] | None,
    ) -> object:
        limit = min(self._config.request_timeout_s, deadline.remaining_s)
        try:
            read = read or message.response_type().decode
            return await connection.request(message, version=version, timeout_s=limit, read=read)
        except EncodeError as error:
            info = API_TABLE[ApiKey(message.API_KEY)]
            if version == info.highest:
                raise ValueError(str(error)) from error
            offered = connection.versions[message.API_KEY]
            raise UnsupportedVersion(
                f"the node at {connection.address} speaks {info.name} in versions {offered.min} to {offered.max}, "
                f"which can't express this: {error}"
            ) from error

    def _refusal(self, response: object) -> AdminError | None:
        """Return the error of the whole request."""
        code = getattr(response, "error_code", 0)
        return admin_error(code, getattr(response, "error_message", None)) if code else None

    def _moved(self, target: Target, error: AdminError) -> Target:
        leads_no_quorum = error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER and target in (ANY, CONTROLLER)
        if error.code != ErrorCode.NOT_CONTROLLER and not leads_no_quorum:
            return target
        self._router.is_stale()
        return CONTROLLER

    def _backoff(self) -> Backoff:
        values = self._config.values
        return Backoff(values["retry.backoff.ms"], values["retry.backoff.max.ms"])

    def _too_late(self, api: ApiKey, deadline: Deadline) -> str:
        return f"{API_TABLE[api].name} was not done in {deadline.limit_s:g} s"


def version_for(connection: Connection, api: ApiKey, at_least: int, at_most: int) -> int:
    """Return the version to use. Raise UnsupportedVersion when the node's are too old for the request."""
    version = min(connection.version_of(api), at_most)
    if version < at_least:
        offered = connection.versions[api]
        raise UnsupportedVersion(
            f"the node at {connection.address} speaks {API_TABLE[api].name} in versions {offered.min} to "
            f"{offered.max}, but version {at_least} is needed"
        )
    return version


def chunks(items: Sequence[V], size: int) -> Iterator[Sequence[V]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def refuse_unless(condition: object, problem: str) -> None:
    """Raise ValueError for a bad argument, before anything is sent."""
    if not condition:
        raise ValueError(problem)
