"""Hands out producer ids from blocks that the controller allocates (KIP-730)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.ports import ControllerChannel

__all__ = ["ProducerIdAllocator"]


class ProducerIdAllocator:
    """Allocates ids from one block at a time. Concurrent callers wait for the same request to the controller."""

    def __init__(self, *, broker_id: int, broker_epoch: Callable[[], int], controller: ControllerChannel) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._controller = controller
        self._next = 0
        self._end = 0
        self._lock = asyncio.Lock()

    def take_now(self) -> int | None:
        """Return an id of the current block, or None if the block is used up."""
        if self._next < self._end:
            self._next += 1
            return self._next - 1
        return None

    @property
    def has_any(self) -> bool:
        """Whether ``take_now`` has an id."""
        return self._next < self._end

    async def ensure(self) -> None:
        """Return when ``take_now`` has an id. Raise ApiException (retriable) when the controller fails."""
        async with self._lock:
            if not self.has_any:
                await self._next_block()

    async def take(self) -> int:
        """Return an id, requesting a block when needed. Raise ApiException (retriable) when the controller fails."""
        async with self._lock:
            taken = self.take_now()
            if taken is None:
                await self._next_block()
                taken = self.take_now()
        if taken is None:
            raise ApiException(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "No producer id is available yet.")
        return taken

    async def _next_block(self) -> None:
        """Request a block. Every failure is COORDINATOR_LOAD_IN_PROGRESS, after which all producers ask again."""
        request = AllocateProducerIdsRequest(broker_id=self._broker_id, broker_epoch=self._broker_epoch())
        try:
            response = await self._controller.send(request)
        except ApiException as error:
            raise _not_allocated(error.code) from error
        if response.error_code:
            raise _not_allocated(ErrorCode(response.error_code))
        self._next = response.producer_id_start
        self._end = response.producer_id_start + response.producer_id_len


def _not_allocated(code: ErrorCode) -> ApiException:
    return ApiException(
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"The controller did not allocate producer ids: {code.name}."
    )
