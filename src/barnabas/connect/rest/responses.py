"""Answers in Kafka's forms, as starlette responses."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

import msgspec
from starlette.responses import Response

from barnabas.connect.entities import ErrorMessage
from barnabas.connect.errors import ConnectError
from barnabas.connect.rest.api_request import Reply
from barnabas.connect.rest.authentication import NotAuthenticated, TooManyFailures

__all__ = ["Refused", "allowed_methods", "encoded", "error_answer", "error_message", "not_started", "refusal"]

_JSON = "application/json"


class Refused(Exception):
    """The server's answer before any handler; without a Content-Type, as in Kafka."""

    def __init__(self, status: int, headers: dict[str, str] | None = None) -> None:
        super().__init__(f"HTTP {status} {_PHRASES.get(status) or HTTPStatus(status).phrase}")
        self.status = status
        self.headers = headers or {}


_PHRASES = {413: "Request Entity Too Large"}


def encoded(reply: Reply) -> Response:
    """Encode a reply. A reply without a body has no Content-Type either."""
    headers = dict(reply.headers)
    if reply.value is None:
        return Response(status_code=reply.status, headers=headers)
    content = reply.value if isinstance(reply.value, bytes) else msgspec.json.encode(reply.value)
    return Response(content, reply.status, headers, _JSON)


def error_answer(error: ConnectError) -> Response:
    response = encoded(Reply(error.http_status, ErrorMessage(error.http_status, str(error))))
    if isinstance(error, NotAuthenticated):
        for challenge in error.challenges:
            response.headers.append("WWW-Authenticate", challenge)
    if isinstance(error, TooManyFailures):
        response.headers["Retry-After"] = str(round(error.wait_s) + 1)
    return response


def error_message(answer: Response) -> str:
    """Return the message of an error, also of one that another worker has answered; empty for another answer."""
    if answer.status_code < 400:
        return ""
    try:
        return msgspec.json.decode(answer.body, type=ErrorMessage).message
    except msgspec.DecodeError:
        return ""


def refusal(refused: Refused) -> Response:
    return Response(msgspec.json.encode(ErrorMessage(refused.status, str(refused))), refused.status, refused.headers)


def allowed_methods(methods: Sequence[str]) -> str:
    """Return the methods for ``Allow``: those of the routes, HEAD with GET, and OPTIONS."""
    return ",".join([*(["HEAD"] if "GET" in methods else []), *methods, "OPTIONS"])


def not_started() -> Response:
    """Return the answer of every path before the worker has read its topics."""
    return Response("The worker is starting; no path is available yet.\n", 404, media_type="text/plain")
