"""The parts of a request's context that the coordinator needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from barnabas.security.request_context import RequestContext

__all__ = ["GroupRequestContext"]


class GroupRequestContext(NamedTuple):
    api_version: int
    client_id: str = ""
    client_host: str = ""
    """The form that Kafka stores and shows: Java's form of an address without a resolved name, ``/127.0.0.1``."""

    @classmethod
    def of(cls, context: RequestContext) -> GroupRequestContext:
        return cls(context.api_version, context.client_id or "", f"/{context.client_host}")
