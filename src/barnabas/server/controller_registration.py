"""A controller makes itself known in the log: its endpoints and the features that it supports (KIP-919)."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, cast

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    Feature,
    Listener,
)
from barnabas.server.listeners import SECURITY_PROTOCOLS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from barnabas.common.uuid import Uuid
    from barnabas.protocol.schema import Message
    from barnabas.server.listeners import Endpoint

__all__ = ["register_controller"]

log = logging.getLogger(__name__)

_RETRY_S = 0.01
_RETRY_S_MAX = 1.0


async def register_controller(
    send: Callable[[Message], Awaitable[Message]],
    *,
    node_id: int,
    incarnation_id: Uuid,
    endpoints: Sequence[Endpoint],
    features: Mapping[str, tuple[int, int]],
) -> None:
    """Retries until the active controller, which ``send`` leads to, has answered. Raises ApiException when it refuses.

    A metadata.version below 3.7 knows no such registration; then there is nothing to do.
    """
    request = ControllerRegistrationRequest(
        controller_id=node_id,
        incarnation_id=incarnation_id,
        listeners=[
            Listener(
                name=each.listener,
                host=each.host,
                port=each.port,
                security_protocol=SECURITY_PROTOCOLS.index(each.security_protocol),
            )
            for each in endpoints
        ],
        features=[
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in sorted(features.items())
        ],
    )
    delay, told = _RETRY_S, ""
    while True:
        error = await _try_register(send, request)
        if error is None:
            return
        if not error.retriable:
            raise error
        if delay >= _RETRY_S_MAX and str(error) != told:
            told = str(error)
            log.info("this controller is not registered yet: %s", told)
        await asyncio.sleep(delay)
        delay = min(delay * 2, _RETRY_S_MAX)


async def _try_register(
    send: Callable[[Message], Awaitable[Message]], request: ControllerRegistrationRequest
) -> ApiException | None:
    try:
        response = cast("ControllerRegistrationResponse", await send(request))
    except ApiException as error:
        return error
    if response.error_code in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION):
        return None
    return ApiException(ErrorCode(response.error_code), response.error_message)
