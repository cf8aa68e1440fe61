"""The REST API as an ASGI application: routing, authentication and responses, in Kafka's formats.

Until ``open`` gives it a herder, every path returns 404, as in Kafka's worker. Then a request passes, in this order:

1. origin: 403 for a request from a page of another origin, or for a host name that a listener of this machine does
   not have
2. authentication: 401 for an unknown user. Internal routes check the session's signature instead, in their handlers
3. a route: 404, 405; ``Content-Type`` is not JSON: 415, also without a body; JSON is not accepted: 406
4. a role that is high enough: 403
5. the handler, for at most 90 s; a timeout (500) reports what the worker was doing

Errors are ``{"error_code": 404, "message": ...}``. Those of step 3 have no Content-Type, as in Kafka. HEAD is GET
without the body; OPTIONS lists the methods to any client. Pages, such as the console's, are mounted beside the API.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from time import monotonic, perf_counter

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from barnabas.common.exception_frames import forget_frames
from barnabas.connect.errors import BadRequest, ConnectError
from barnabas.connect.rest.api_request import ApiRequest, Reply, Services
from barnabas.connect.rest.authentication import Authenticator, Credentials
from barnabas.connect.rest.cross_origin import CrossOriginRules
from barnabas.connect.rest.host_names import HostNames
from barnabas.connect.rest.media_types import accepts_json, is_json
from barnabas.connect.rest.openapi import openapi_document
from barnabas.connect.rest.query_parameters import query_parameters
from barnabas.connect.rest.request_body import SMALL_BYTES, BodyLimits, BodyMemory, RequestBody, Sender
from barnabas.connect.rest.request_freshness import FRESHNESS_HEADER
from barnabas.connect.rest.request_log import AnsweredRequest, Outcome, RequestLog, one_line
from barnabas.connect.rest.response_headers import HeaderRule, apply_header_rules
from barnabas.connect.rest.responses import (
    Refused,
    allowed_methods,
    encoded,
    error_answer,
    error_message,
    not_started,
    refusal,
)
from barnabas.connect.rest.roles import ANONYMOUS, Role, User
from barnabas.connect.rest.route import Access, Route
from barnabas.connect.rest.route_table import matching
from barnabas.connect.rest.url_paths import path_segments

__all__ = ["ListenerKind", "Mount", "RestApplication", "RestRules"]

REQUEST_TIMEOUT_S = 90.0
_OPENAPI = ["openapi.json"]
_OTHER_WORKER = "another worker"
_SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))


@dataclass(frozen=True, slots=True)
class ListenerKind:
    """The parts that a listener serves: the API, the routes under /admin, or both."""

    has_api: bool = True
    has_admin: bool = True
    host_names: HostNames | None = None
    """Accepted names in the Host header; None accepts all."""

    def serves(self, route: Route) -> bool:
        return self.has_admin if route.is_admin else self.has_api


@dataclass(frozen=True, slots=True)
class RestRules:
    """Policies from the settings. ``authenticator`` is None where every client may do everything."""

    authenticator: Authenticator | None = None
    cross_origin: CrossOriginRules = field(default_factory=CrossOriginRules)
    header_rules: tuple[HeaderRule, ...] = ()
    request_timeout_s: float = REQUEST_TIMEOUT_S
    body_limits: BodyLimits = field(default_factory=BodyLimits)


@dataclass(frozen=True, slots=True)
class Mount:
    """Pages beside the API, under ``prefix``. ``role`` is the role needed to see them, or None."""

    prefix: str
    app: ASGIApp
    role: Role | None = Role.READ


class _Forbidden(ConnectError):
    http_status = 403


class RestApplication:
    """``now_ms`` is the wall clock."""

    def __init__(self, rules: RestRules, now_ms: Callable[[], int]) -> None:
        self._rules = rules
        self._now_ms = now_ms
        self._services: Services | None = None
        self._mounts: list[Mount] = []
        self._memory = BodyMemory(rules.body_limits)
        self._log = RequestLog(monotonic)

    def open(self, services: Services) -> None:
        """Serve requests from now on."""
        self._services = services

    def mount(self, mount: Mount) -> None:
        """Route paths with this prefix there, with the User in ``scope["user"]``."""
        self._mounts.append(mount)

    def on_listener(self, kind: ListenerKind) -> ASGIApp:
        """Return the application for one listener."""

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                await self._serve(kind, scope, receive, self._with_headers(scope, send))

        return serve

    def _with_headers(self, scope: Scope, send: Send) -> Send:
        """Add the headers of every response."""
        rules = self._rules

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in rules.cross_origin.headers(scope["method"], Headers(scope=scope)).items():
                    headers[name] = value
                headers.setdefault("Date", formatdate(self._now_ms() / 1000, usegmt=True))
                headers.setdefault("X-Content-Type-Options", "nosniff")
                apply_header_rules(rules.header_rules, headers, self._now_ms())
            await send(message)

        return sending

    async def _serve(self, kind: ListenerKind, scope: Scope, receive: Receive, send: Send) -> None:
        if self._services is None:
            await not_started()(scope, receive, send)
            return
        body = RequestBody(receive, self._memory, Headers(scope=scope).get("content-length"))
        exchange = _Exchange(self._rules, self._services, self._mounts, kind, scope, body, self._log)
        try:
            answer = await exchange.answer()
            await answer(scope, body.receive, send)
        finally:
            body.release()


class _Exchange:
    """One request and its response."""

    def __init__(
        self,
        rules: RestRules,
        services: Services,
        mounts: list[Mount],
        kind: ListenerKind,
        scope: Scope,
        body: RequestBody,
        log: RequestLog,
    ) -> None:
        self._rules = rules
        self._services = services
        self._mounts = mounts
        self._kind = kind
        self._scope = scope
        self._headers = Headers(scope=scope)
        self._body = body
        self._log = log
        self._is_known = False
        """Whether the sender is authenticated."""
        self._user_name = ANONYMOUS.name if rules.authenticator is None else ""
        self._method: str = scope["method"]
        self._path = scope["raw_path"].decode("ascii", "replace")
        self._query = scope["query_string"].decode("ascii", "replace")

    async def answer(self) -> ASGIApp:
        begun = perf_counter()
        is_path_refused = False
        try:
            answer = await self._answer()
        except Refused as refused:
            is_path_refused = True
            answer = refusal(refused)
        except ConnectError as error:
            forget_frames(error)
            answer = error_answer(error)
        except Exception as error:
            self._log.failed(self._logged_request)
            text = f"The worker failed to handle the request ({type(error).__name__}); see its log."
            answer = error_answer(ConnectError(text))
        if isinstance(answer, Response):
            spent_ms, status = (perf_counter() - begun) * 1000, answer.status_code
            is_refusal = is_path_refused or (status >= 400 and status != 404)
            self._log.answered(self._logged_request, Outcome(status, spent_ms, error_message(answer), is_refusal))
        return answer

    @property
    def _logged_request(self) -> AnsweredRequest:
        host, port = self._scope.get("client") or ("", 0)
        return AnsweredRequest(self._method, self._path, host, port, self._is_known, self._user_name)

    async def _answer(self) -> ASGIApp:
        self._check_browser()
        segments = self._segments()
        mount = self._mount(segments)
        if mount is not None:
            return await self._mounted(mount)
        found = {route.method: (route, names) for route, names in matching(segments) if self._kind.serves(route)}
        if found and self._method == "OPTIONS":
            return encoded(Reply(200, b"", {"Allow": allowed_methods(tuple(found))}))
        route, parameters = found.get("GET" if self._method == "HEAD" else self._method, (None, {}))
        user = ANONYMOUS
        if route is None or route.access.role is not None:
            user = await self._user()
        if segments == _OPENAPI and self._method in _SAFE_METHODS and self._kind.has_api:
            self._check_role(user, Role.READ)
            return encoded(Reply(200, openapi_document(self._services.version)))
        if route is None:
            raise Refused(405, {"Allow": allowed_methods(tuple(found))}) if found else Refused(404)
        self._check_media_types()
        if route.access.role is not None:
            self._check_role(user, route.access.role)
        return encoded(await self._handled(route, parameters, user))

    def _check_browser(self) -> None:
        if self._rules.cross_origin.is_forgery(self._method, self._headers):
            raise _Forbidden(
                "A page of another origin sent this request; access.control.allow.origin lists the allowed origins."
            )
        names = self._kind.host_names
        host = self._headers.get("host", "")
        if names is not None and not names.may_be_asked_as(host):
            raise _Forbidden(
                f"The host name {one_line(host)} is not this worker's; without authentication its listener accepts "
                "localhost, IP addresses and rest.advertised.host.name."
            )

    def _segments(self) -> list[str]:
        try:
            return path_segments(self._path)
        except ValueError:
            raise BadRequest("The path is not valid UTF-8.") from None

    def _mount(self, segments: list[str]) -> Mount | None:
        prefix = segments[:1] if self._kind.has_api else []
        return next((mount for mount in self._mounts if prefix == [mount.prefix.strip("/")]), None)

    async def _mounted(self, mount: Mount) -> ASGIApp:
        user = await self._user() if mount.role is not None else ANONYMOUS
        if mount.role is not None:
            self._check_role(user, mount.role)
        self._scope["user"] = user
        return mount.app

    async def _user(self) -> User:
        """Return the user. Raise NotAuthenticated, TooManyFailures, or InvalidSignature (invalid worker signature)."""
        authenticator = self._rules.authenticator
        if authenticator is None:
            return ANONYMOUS
        authorization = self._headers.get("authorization")
        if authorization is None and FRESHNESS_HEADER in self._headers:
            body = await self._body.read(self._rules.body_limits.bytes_max, self._sender)
            freshness = await self._services.internal.vouched_for(self._method, self._target, self._headers, body)
            if freshness is not None:
                self._is_known, self._user_name = True, freshness.user
                return User(freshness.user, Role.named(freshness.role))
        certificate = self._scope.get("extensions", {}).get("tls", {}).get("client_cert_der")
        user = await authenticator.user(Credentials(authorization, certificate, self._sender.address))
        self._is_known, self._user_name = True, user.name
        return user

    @property
    def _sender(self) -> Sender:
        client = self._scope.get("client")
        return Sender(client[0] if client else "", self._is_known)

    @property
    def _target(self) -> str:
        return f"{self._path}?{self._query}" if self._query else self._path

    def _check_role(self, user: User, needed: Role) -> None:
        if not user.may(needed):
            has = "no role" if user.role is None else f"the role {user.role.text}"
            raise _Forbidden(f"{user.name} has {has}; this needs {needed.text}.")

    def _check_media_types(self) -> None:
        content_type = self._headers.get("content-type")
        if content_type is not None and not is_json(content_type):
            raise Refused(415)
        if not accepts_json(self._headers.get("accept")):
            raise Refused(406)

    async def _handled(self, route: Route, parameters: dict[str, str], user: User) -> Reply:
        request = ApiRequest(
            method=self._method,
            path=self._path,
            query_string=self._query,
            query=query_parameters(self._query),
            headers=self._headers,
            parameters=parameters,
            body=await self._body_for(route),
            base_url=self._base_url,
            user=user,
            is_authenticated=self._rules.authenticator is not None,
        )
        try:
            async with asyncio.timeout(self._rules.request_timeout_s) as bound:
                reply = await route.handler(self._services, request)
                # The handler of an internal request has verified the signature.
                if route.access is Access.INTERNAL:
                    self._is_known, self._user_name = True, _OTHER_WORKER
                return reply
        except TimeoutError:
            if not bound.expired():
                raise
            stage = self._services.herder.stage()
            raise ConnectError(f"Request timed out. {stage}" if stage else "Request timed out") from None

    async def _body_for(self, route: Route) -> bytes:
        """Return the body, up to the limit of this sender."""
        limits = self._rules.body_limits
        may_be_large = self._is_known
        if route.access is Access.INTERNAL:
            may_be_large = self._services.internal.check_claim(self._headers)
        if route.body is None and route.access is not Access.INTERNAL:
            return await self._body.read(min(SMALL_BYTES, limits.bytes_max), self._sender)
        return await self._body.read(limits.bytes_max if may_be_large else limits.anonymous_bytes_max, self._sender)

    @property
    def _base_url(self) -> str:
        server = self._scope.get("server") or ("localhost", None)
        host = self._headers.get("host") or f"{server[0]}:{server[1]}"
        return f"{self._scope['scheme']}://{host}"
