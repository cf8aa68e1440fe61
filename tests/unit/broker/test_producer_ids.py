"""Blocks of producer ids from the controller."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from barnabas.broker.producer_ids import ProducerIdAllocator
from barnabas.common.errors import ApiException, ErrorCode


class Controller:
    async def send(self, request: object) -> object:
        raise ApiException(ErrorCode.NOT_CONTROLLER, "no controller is active")


def test_a_producer_repeats_its_request_while_the_controller_cannot_be_reached() -> None:
    """Producers before Kafka 4 give up after errors that they do not expect, such as NOT_CONTROLLER."""
    controller: Any = Controller()

    async def ask() -> None:
        allocator = ProducerIdAllocator(broker_id=1, broker_epoch=lambda: 1, controller=controller)
        for take in (allocator.take, allocator.ensure):
            with pytest.raises(ApiException) as caught:
                await take()
            assert caught.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    asyncio.run(ask())
