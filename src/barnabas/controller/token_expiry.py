"""Common part of RenewDelegationToken and ExpireDelegationToken: changes the expiry time of a token.

The operation requires no permission, but the caller must own the token or be its renewer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from barnabas.protocol.messages.expire_delegation_token import ExpireDelegationTokenResponse
from barnabas.protocol.messages.renew_delegation_token import RenewDelegationTokenResponse
from barnabas.security.token_requests import check_caller, time_of_refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.common.errors import ApiException
    from barnabas.controller.controller_result import ControllerResult
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.coordinator.deferred import Deferred
    from barnabas.security.request_context import RequestContext

__all__ = ["change_expiry"]

R = TypeVar("R", RenewDelegationTokenResponse, ExpireDelegationTokenResponse)


def change_expiry(
    controller: QuorumController,
    context: RequestContext,
    response_type: type[R],
    change: Callable[[int], ControllerResult[int]],
) -> Deferred[R]:
    """``change`` receives the time in ms and returns the token's new expiry time."""

    def decide() -> ControllerResult[R]:
        check_caller(context)
        result = change(controller.wall_clock_ms())
        return result.with_response(response_type(expiry_timestamp_ms=result.response))

    def answer_error(error: ApiException) -> R:
        return response_type(error_code=int(error.code), expiry_timestamp_ms=time_of_refusal(error.code))

    return controller.submit(decide, answer_error)
