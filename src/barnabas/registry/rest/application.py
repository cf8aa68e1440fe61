"""The REST API as an ASGI application: authentication, routing, authorization and answers, in Confluent's formats.

A request passes, in this order:

1. origin: 403 for a request from a page of another origin, or for a host name that a loopback listener does not have
2. a route: 404, 405; a body of another media type: 415; no acceptable answer: 406
3. authentication: 401 for an unknown user. The leader also accepts the proof of another registry of the group
4. for a write on a registry that does not lead: the leader answers it
5. the handler, which checks the rights of the caller: 403

Errors are ``{"error_code": 40401, "message": ...}``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic, perf_counter
from typing import Any
from urllib.parse import parse_qs

import msgspec
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from barnabas.common.exception_frames import forget_frames
from barnabas.connect.errors import ConnectError
from barnabas.connect.rest.authentication import Authenticator, Credentials, NotAuthenticated, TooManyFailures
from barnabas.connect.rest.cross_origin import CrossOriginRules
from barnabas.connect.rest.host_names import HostNames
from barnabas.connect.rest.request_body import BodyMemory, RequestBody, Sender
from barnabas.connect.rest.request_log import AnsweredRequest, Outcome, RequestLog, one_line
from barnabas.connect.rest.responses import Refused, allowed_methods, error_message
from barnabas.connect.rest.url_paths import path_segments
from barnabas.registry.decide.access import SubjectAccess
from barnabas.registry.decide.errors import RegistryError
from barnabas.registry.rest.api_request import ApiRequest, Reply, Route, Services
from barnabas.registry.rest.forwarding import Forwarded, Forwarder
from barnabas.registry.rest.forwarding_proof import PROOF_HEADER, Caller, InvalidProof, proven_caller
from barnabas.registry.rest.media_types import V1, answer_type, is_accepted_body
from barnabas.registry.rest.resources.subjects import registered_already
from barnabas.registry.rest.route_table import matching, without_context
from barnabas.registry.run.acl_rules import RightsSource
from barnabas.registry.run.request_counts import RequestCounts

__all__ = ["RegistryApplication", "RegistryParts", "RegistryRules"]

log = logging.getLogger(__name__)

_QUERY_FIELDS_MAX = 100
_ANONYMOUS = "ANONYMOUS"
_REGISTRATION = "/subjects/{subject}/versions"


@dataclass(frozen=True, slots=True)
class RegistryRules:
    """What the settings decide. ``authenticator`` is None where clients are ``User:ANONYMOUS``."""

    authenticator: Authenticator | None
    forwarding_secret: bytes | None
    body_bytes_max: int
    memory: BodyMemory
    now_ms: Callable[[], int]


@dataclass(frozen=True, slots=True)
class RegistryParts:
    """What exists when the registry has read its topic."""

    services: Services
    rights: RightsSource
    forwarder: Forwarder


class RegistryApplication:
    def __init__(self, rules: RegistryRules) -> None:
        self.counts = RequestCounts()
        self._rules = rules
        self._parts: RegistryParts | None = None
        self._log = RequestLog(monotonic, log)

    def open(self, parts: RegistryParts) -> None:
        """Serve requests from now on."""
        self._parts = parts

    def on_listener(self, host_names: HostNames | None) -> ASGIApp:
        """Return the application for one listener, which has these names."""

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                await self._serve(host_names, scope, receive, send)

        return serve

    async def _serve(self, host_names: HostNames | None, scope: Scope, receive: Receive, send: Send) -> None:
        body = RequestBody(receive, self._rules.memory, Headers(scope=scope).get("content-length"))
        exchange = _Exchange(self._rules, self._parts, host_names, scope, body)
        begun = perf_counter()
        try:
            answer = await self._answered(exchange)
            self.counts.answered(exchange.route_name, answer.status_code, perf_counter() - begun)
            status = answer.status_code
            # A subject or schema that does not exist is an answer, not a refusal.
            is_refusal = status >= 400 and status != 404
            outcome = Outcome(status, (perf_counter() - begun) * 1000, error_message(answer), is_refusal)
            self._log.answered(exchange.logged_request, outcome)
            await answer(scope, body.receive, send)
        finally:
            body.release()

    async def _answered(self, exchange: _Exchange) -> Response:
        try:
            return await exchange.answer()
        except RegistryError as error:
            forget_frames(error)
            return _error(error.status, error.code, str(error))
        except Refused as refused:
            return _error(refused.status, refused.status, str(refused), refused.headers)
        except NotAuthenticated as error:
            response = _error(401, 401, str(error))
            for challenge in error.challenges:
                response.headers.append("WWW-Authenticate", challenge)
            return response
        except TooManyFailures as error:
            return _error(429, 429, str(error), {"Retry-After": str(round(error.wait_s) + 1)})
        except ConnectError as error:
            return _error(error.http_status, error.http_status, str(error))
        except Exception as error:
            self._log.failed(exchange.logged_request)
            return _error(500, 500, f"The registry failed to handle the request ({type(error).__name__}); see its log.")


class _Exchange:
    """One request and its response."""

    def __init__(
        self,
        rules: RegistryRules,
        parts: RegistryParts | None,
        host_names: HostNames | None,
        scope: Scope,
        body: RequestBody,
    ) -> None:
        self.route_name = ""
        self._rules = rules
        self._parts = parts
        self._host_names = host_names
        self._scope = scope
        self._headers = Headers(scope=scope)
        self._body = body
        self._is_known = False
        """Whether the sender is authenticated."""
        self._user_name = ""
        self._method: str = scope["method"]
        self._path = scope["raw_path"].decode("ascii", "replace")
        self._query = scope["query_string"].decode("ascii", "replace")

    @property
    def logged_request(self) -> AnsweredRequest:
        host, port = self._scope.get("client") or ("", 0)
        return AnsweredRequest(self._method, self._path, host, port, self._is_known, self._user_name)

    async def answer(self) -> Response:
        self._check_browser()
        context, segments = without_context(self._segments())
        route, parameters = self._route(segments)
        if self._method == "OPTIONS":
            return Response(status_code=200, headers={"Allow": allowed_methods(tuple(matching(segments)))})
        media_type = self._media_type(route)
        parts = self._parts
        if parts is None:
            raise RegistryError(503, 503, "The registry is starting: it has not read its topic yet.")
        body, caller = await self._caller()
        self._user_name = caller.user
        rights = await parts.rights.rights_of(caller.user, caller.host)
        access = SubjectAccess(rights, parts.services.state)
        request = ApiRequest(parameters, self._parsed_query(), body, context, access)
        if route.is_write:
            forwarded = await self._forwarded(parts, route, request, caller, media_type)
            if forwarded is not None:
                return forwarded
        return _encoded(await route.handler(parts.services, request), media_type)

    def _check_browser(self) -> None:
        if CrossOriginRules().is_forgery(self._method, self._headers):
            raise RegistryError(403, 403, "A page of another origin sent this request.")
        host = self._headers.get("host", "")
        if self._host_names is not None and not self._host_names.may_be_asked_as(host):
            raise RegistryError(
                403,
                403,
                f"The host name {one_line(host)} is not this registry's; without authentication its listener accepts "
                "localhost, IP addresses and host.name.",
            )

    def _segments(self) -> list[str]:
        try:
            return path_segments(self._path)
        except ValueError:
            raise RegistryError(400, 400, "The path is not valid UTF-8.") from None

    def _route(self, segments: Any) -> tuple[Route, dict[str, str]]:
        found = matching(segments)
        method = "GET" if self._method == "HEAD" else self._method
        if method == "OPTIONS" and found:
            return next(iter(found.values()))
        if method not in found:
            raise Refused(405, {"Allow": allowed_methods(tuple(found))}) if found else Refused(404)
        self.route_name = f"{method} {found[method][0].path}"
        return found[method]

    def _media_type(self, route: Route) -> str:
        if route.method in ("POST", "PUT") and not is_accepted_body(self._headers.get("content-type")):
            raise Refused(415)
        if route.path == "/metrics":
            return V1
        media_type = answer_type(self._headers.get("accept"))
        if media_type is None:
            raise Refused(406)
        return media_type

    async def _caller(self) -> tuple[bytes, Caller]:
        """Return the body and the caller. Raise NotAuthenticated, TooManyFailures, Refused."""
        rules, address = self._rules, self._address
        proof = self._headers.get(PROOF_HEADER)
        if proof is not None and rules.forwarding_secret is not None:
            body = await self._read_body()
            try:
                caller = proven_caller(rules.forwarding_secret, proof, self._method, self._target, body, rules.now_ms())
            except InvalidProof as error:
                raise NotAuthenticated(f"{PROOF_HEADER}: {error}.") from None
            self._is_known = True
            return body, caller
        if rules.authenticator is None:
            return await self._read_body(), Caller(_ANONYMOUS, address)
        certificate = self._scope.get("extensions", {}).get("tls", {}).get("client_cert_der")
        credentials = Credentials(self._headers.get("authorization"), certificate, address)
        user = await rules.authenticator.user(credentials)
        self._is_known = True
        return await self._read_body(), Caller(user.name, address)

    async def _read_body(self) -> bytes:
        return await self._body.read(self._rules.body_bytes_max, Sender(self._address, self._is_known))

    async def _forwarded(
        self, parts: RegistryParts, route: Route, request: ApiRequest, caller: Caller, media_type: str
    ) -> Response | None:
        """Return the answer of a write that this registry need not make itself, or must not."""
        if route.path == _REGISTRATION:
            known = await registered_already(parts.services, request)
            if known is not None:
                return _encoded(known, media_type)
        answer = await parts.forwarder.answer(
            Forwarded(
                self._method,
                self._target,
                dict(self._headers),
                request.body,
                caller,
                needs_proof=self._is_known and "authorization" not in self._headers,
            )
        )
        if answer is None:
            return None
        if answer.is_success:
            await parts.services.store.read_to_end()  # Its sender finds its own change here.
        return Response(answer.content, answer.status_code, media_type=answer.headers.get("content-type"))

    def _parsed_query(self) -> dict[str, list[str]]:
        try:
            return parse_qs(self._query, keep_blank_values=True, max_num_fields=_QUERY_FIELDS_MAX)
        except ValueError:
            raise RegistryError(400, 400, f"The query has more than {_QUERY_FIELDS_MAX} fields.") from None

    @property
    def _address(self) -> str:
        client = self._scope.get("client")
        return client[0] if client else ""

    @property
    def _target(self) -> str:
        return f"{self._path}?{self._query}" if self._query else self._path


def _encoded(value: Any, media_type: str) -> Response:
    if isinstance(value, Reply):
        return Response(value.body, media_type=value.media_type or media_type)
    return Response(msgspec.json.encode(value), media_type=media_type)


def _error(status: int, code: int, message: str, headers: dict[str, str] | None = None) -> Response:
    body = msgspec.json.encode({"error_code": code, "message": message})
    return Response(body, status, headers, V1)
