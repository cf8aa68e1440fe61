"""The console as an ASGI application, mounted at /console beside the API.

This module renders pages as HTML for users with the role to see them (``scope["user"]``). Pages change state through
the REST API, as JSON from their own origin; the API checks role and origin again. A browser executes only the files
under /console/static: the Content-Security-Policy requires it, and the templates escape everything.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import resources

import jinja2
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from barnabas.connect.entities import History
from barnabas.connect.errors import BadRequest, ConnectError, NotFound
from barnabas.connect.identifiers import ConnectorTaskId
from barnabas.connect.rest.api_request import ApiRequest
from barnabas.connect.rest.console.charts import RANGES, HistoryRange, HistoryView
from barnabas.connect.rest.console.log_view import LEVELS, log_lines
from barnabas.connect.rest.console.page_data import PageData
from barnabas.connect.rest.console.static_files import StaticFiles
from barnabas.connect.rest.console.views import ConnectorView, Setting, Totals, is_worker_address
from barnabas.connect.rest.internal_client import encoded_segment
from barnabas.connect.rest.query_parameters import query_parameters
from barnabas.connect.rest.recent_log import LINES_MAX, RecentLog
from barnabas.connect.rest.roles import ANONYMOUS, Role, User
from barnabas.connect.rest.url_paths import path_segments

__all__ = ["PREFIX", "Console"]

log = logging.getLogger(__name__)

PREFIX = "/console"

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_SAFE_METHODS = ("GET", "HEAD")
_NO_PAGE = "This page does not exist."
_LOG_LINES = 200


class _NotAllowed(ConnectError):
    http_status = 403


class Console:
    """``worker_id`` is the worker's host:port, ``cluster_id`` that of the backing cluster."""

    def __init__(
        self,
        page_data: PageData,
        *,
        worker_id: str,
        group_id: str,
        cluster_id: str,
        version: str,
        recent_log: RecentLog | None = None,
    ) -> None:
        """``recent_log`` is None where these listeners must not show the log."""
        self._page_data = page_data
        self._recent_log = recent_log
        self._static = StaticFiles(resources.files(__package__) / "static")
        self._pages = jinja2.Environment(
            loader=jinja2.PackageLoader(__package__, "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._pages.filters |= {
            "segment": encoded_segment,
            "count": _count,
            "rate": _rate,
            "moment": _moment,
            "duration": _duration,
            "as_json": _as_json,
        }
        self._pages.globals |= {
            "prefix": PREFIX,
            "worker_id": worker_id,
            "group_id": group_id,
            "cluster_id": cluster_id,
            "version": version,
            "is_worker_address": is_worker_address,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._answer(scope)
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        await response(scope, receive, send)

    async def _answer(self, scope: Scope) -> Response:
        user: User = scope.get("user", ANONYMOUS)
        if scope["method"] not in _SAFE_METHODS:
            return Response("Pages can only be read.\n", 405, {"Allow": "GET, HEAD"}, "text/plain")
        try:
            segments = path_segments(scope["raw_path"].decode("ascii", "replace"))[1:]
            if segments[:1] == ["static"]:
                return self._static.answer(segments[1:], dict(scope["headers"]))
            return await self._page(segments, _page_request(scope, user), str(scope.get("scheme", "http")))
        except ConnectError as error:
            return self._render("problem.html", user, error.http_status, message=str(error))
        except Exception as error:
            log.exception("the console failed to render a page")
            text = f"The worker failed to render this page ({type(error).__name__}); see its log."
            return self._render("problem.html", user, 500, message=text)

    async def _page(self, segments: list[str], request: ApiRequest, scheme: str) -> Response:
        """Render the page. Raise ConnectError."""
        user = request.user
        match segments:
            case []:
                return await self._overview(user)
            case ["create"]:
                return self._create(user)
            case ["workers"]:
                return await self._workers(request, scheme)
            case ["log"]:
                return self._log(request)
            case ["bad-records"]:
                return await self._bad_records(user)
            case ["connectors", name, *rest]:
                return await self._page_of_connector(name, rest, request, scheme)
        raise NotFound(_NO_PAGE)

    async def _page_of_connector(self, name: str, segments: list[str], request: ApiRequest, scheme: str) -> Response:
        user = request.user
        match segments:
            case []:
                return await self._connector(name, request, scheme)
            case ["history"]:
                return await self._history(name, request)
            case ["dead-letters"]:
                return await self._dead_letters(name, user)
            case ["offsets"]:
                return await self._offsets(name, user)
            case ["edit"]:
                return self._edit(name, user)
            case ["tasks", number, "plan"] if number.isascii() and number.isdigit():
                return await self._plan(name, int(number), user, scheme)
        raise NotFound(_NO_PAGE)

    async def _overview(self, user: User) -> Response:
        connectors = await self._page_data.connectors()
        return self._render("overview.html", user, connectors=connectors, totals=Totals.of(connectors))

    async def _connector(self, name: str, request: ApiRequest, scheme: str) -> Response:
        view, info = await self._page_data.connector(name)
        offsets, problem = await self._page_data.offsets(name)
        history, history_problem = await self._page_data.history(name, 1, request)
        return self._render(
            "connector.html",
            request.user,
            connector=view,
            settings=[Setting(key, value or "") for key, value in sorted(info.config.items())],
            offsets=offsets,
            offsets_problem=problem,
            topics=self._page_data.topics(name),
            history=_history_view(history, view, RANGES[1]),
            history_problem=history_problem,
            scheme=scheme,
        )

    async def _history(self, name: str, request: ApiRequest) -> Response:
        text = request.last("hours") or "1"
        chosen = RANGES.get(int(text)) if text.isascii() and text.isdigit() and len(text) < 4 else None
        if chosen is None:
            raise BadRequest(f"hours is {text[:20]!r}; it must be one of {', '.join(str(hours) for hours in RANGES)}.")
        view, _ = await self._page_data.connector(name)
        history, problem = await self._page_data.history(name, chosen.hours, request)
        return self._render(
            "history.html",
            request.user,
            connector=view,
            view=_history_view(history, view, chosen),
            problem=problem,
            range=chosen,
            ranges=list(RANGES.values()),
        )

    async def _workers(self, request: ApiRequest, scheme: str) -> Response:
        loads, problem = await self._page_data.workers(request)
        return self._render(
            "workers.html", request.user, loads=loads, problem=problem, scheme=scheme, now=datetime.now(UTC).timestamp()
        )

    def _log(self, request: ApiRequest) -> Response:
        user, recent_log = request.user, self._recent_log
        if not user.may(Role.OPERATE):
            raise _NotAllowed(f"The log may quote data: it needs the role operate, and {user.name} does not have it.")
        if recent_log is None:
            raise NotFound("The log is at /admin/logs, which this worker serves on admin.listeners only.")
        level, connector = request.last("level") or "", request.last("connector") or ""
        lines = recent_log.lines(_LOG_LINES, level=level or None, connector=connector or None)
        names = self._page_data.names()
        return self._render(
            "log.html",
            user,
            lines=log_lines(lines),
            lines_max=LINES_MAX,
            level=level.upper(),
            levels=LEVELS,
            connector=connector,
            names=names if connector in ("", *names) else [*names, connector],
        )

    async def _bad_records(self, user: User) -> Response:
        connectors = await self._page_data.connectors()
        found = [view for view in connectors if view.skipped_records or view.dead_letters or view.dead_letter_topic]
        return self._render("bad_records.html", user, connectors=found)

    async def _plan(self, name: str, number: int, user: User, scheme: str) -> Response:
        view, _ = await self._page_data.connector(name)
        task = self._page_data.task(view, number)
        plan = await self._page_data.plan(ConnectorTaskId(name, number)) if task.is_here else None
        return self._render("plan.html", user, connector=view, task=task, plan=plan, scheme=scheme)

    async def _dead_letters(self, name: str, user: User) -> Response:
        if not user.may(Role.OPERATE):
            raise _NotAllowed(f"Dead letters quote data: they need the role operate, and {user.name} does not have it.")
        view, info = await self._page_data.connector(name)
        letters, problem = await self._page_data.dead_letters(info)
        return self._render("dead_letters.html", user, connector=view, letters=letters, problem=problem)

    async def _offsets(self, name: str, user: User) -> Response:
        _check_admin(user, "change offsets")
        view, _ = await self._page_data.connector(name)
        rows, problem = await self._page_data.offset_rows(name)
        return self._render("offsets.html", user, connector=view, rows=rows, problem=problem)

    def _create(self, user: User) -> Response:
        _check_admin(user, "create connectors")
        plugins = self._page_data.connector_plugins()
        return self._render("configure.html", user, plugins=plugins, name="", config={}, is_new=True)

    def _edit(self, name: str, user: User) -> Response:
        _check_admin(user, "change configurations")
        info = self._page_data.info(name)
        plugins = self._page_data.connector_plugins()
        return self._render("configure.html", user, plugins=plugins, name=name, config=info.config, is_new=False)

    def _render(self, template: str, user: User, status: int = 200, /, **values: object) -> Response:
        html = self._pages.get_template(template).render(
            user=user,
            may_operate=user.may(Role.OPERATE),
            may_admin=user.may(Role.ADMIN),
            may_see_log=user.may(Role.OPERATE) and self._recent_log is not None,
            is_anonymous=user == ANONYMOUS,
            **values,
        )
        return Response(html, status, media_type="text/html")


def _page_request(scope: Scope, user: User) -> ApiRequest:
    """Return the request for a page, with which other workers can be asked in the user's name."""
    query = scope["query_string"].decode("ascii", "replace")
    return ApiRequest(
        method="GET",
        path=scope["raw_path"].decode("ascii", "replace"),
        query_string=query,
        query=query_parameters(query),
        headers=Headers(scope=scope),
        parameters={},
        body=b"",
        base_url="",
        user=user,
        is_authenticated=user != ANONYMOUS,
    )


def _history_view(history: History | None, connector: ConnectorView, chosen: HistoryRange) -> HistoryView | None:
    return None if history is None else HistoryView(history, chosen, is_sink=connector.type == "sink")


def _check_admin(user: User, what: str) -> None:
    if not user.may(Role.ADMIN):
        raise _NotAllowed(f"Only an admin may {what}; {user.name} is not one.")


def _count(number: int | None) -> str:
    return "–" if number is None else f"{number:,}".replace(",", "\u202f")


def _rate(per_second: float | None) -> str:
    if per_second is None:
        return "–"
    return f"{per_second:.1f}" if 0 < per_second < 10 else _count(round(per_second))


def _moment(epoch_s: float) -> str:
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _duration(seconds: float) -> str:
    """Return a duration in its two largest units."""
    minutes = max(0, int(seconds)) // 60
    days, hours = minutes // 1440, minutes // 60 % 24
    return f"{days} d {hours} h" if days else f"{hours} h {minutes % 60} min" if hours else f"{minutes} min"


def _as_json(value: Mapping[str, object]) -> str:
    return json.dumps(value, ensure_ascii=False)
