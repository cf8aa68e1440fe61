"""Logs the clients that request features that this broker lacks, or that its settings or the cluster disable.

The client receives an error that it treats as final, and its operator reads the node's log next. A client is logged at
most once a minute, and only a few clients are logged within ten seconds.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.network.refusal_log import RefusalLog

if TYPE_CHECKING:
    from barnabas.security.request_context import RequestContext

__all__ = ["MissingFeatures"]


class MissingFeatures:
    def __init__(self) -> None:
        self._logs: dict[str, RefusalLog] = {}

    def refusal(self, feature: str, advice: str, context: RequestContext) -> ApiException:
        """Log the client, and return its error. ``advice``: what its user can do."""
        log = self._logs.get(context.listener_name)
        if log is None:
            log = self._logs[context.listener_name] = RefusalLog(context.listener_name, "cannot serve")
        log.refused(
            context.client_host,
            0 if context.peer is None else context.peer.peer_port,
            f"client {context.client_id!r} ({context.software}) of {context.principal} requests {feature}, "
            f"which this broker does not support: {advice}",
            monotonic(),
        )
        return ApiException(ErrorCode.UNSUPPORTED_VERSION, f"This broker does not support {feature}: {advice}.")
