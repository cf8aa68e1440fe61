"""A broker's registration: what is tried again, and what ends the start."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from barnabas.broker import lifecycle as module
from barnabas.broker.lifecycle import BrokerLifecycle, BrokerState, to_listener
from barnabas.broker.ports import ControllerChannel
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse


class Controller:
    """Answers registrations with these errors, one after the other, then with an epoch."""

    def __init__(self, *errors: ErrorCode) -> None:
        self.errors = list(errors)

    async def send(self, request: object) -> object:
        if not isinstance(request, BrokerRegistrationRequest):
            return BrokerHeartbeatResponse(is_fenced=False, is_caught_up=True)
        if self.errors:
            return BrokerRegistrationResponse(error_code=self.errors.pop(0))
        return BrokerRegistrationResponse(broker_epoch=7)


def register(controller: Controller, *, timeout_ms: int = 60_000) -> BrokerLifecycle:
    async def run() -> BrokerLifecycle:
        lifecycle = BrokerLifecycle(
            broker_id=1,
            cluster_id="cluster",
            incarnation_id=Uuid.from_int(9),
            rack=None,
            directory_ids=[Uuid.from_int(8)],
            features={},
            heartbeat_interval_ms=60_000,
            registration_timeout_ms=timeout_ms,
            metadata_offset=lambda: 0,
            controller=cast(ControllerChannel, controller),
        )
        await lifecycle.register([to_listener("PLAINTEXT", "localhost", 9092, 0)], -1)
        await lifecycle.shut_down(0.0)
        return lifecycle

    return asyncio.run(run())


def test_a_broker_that_was_killed_waits_until_its_old_session_is_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its controller lives on and still counts the old process as alive."""
    monkeypatch.setattr(module, "_RETRY_S", 0.0)
    monkeypatch.setattr(module, "_RETRY_S_MAX", 0.0)
    lifecycle = register(Controller(*[ErrorCode.DUPLICATE_BROKER_REGISTRATION] * 3))
    assert lifecycle.broker_epoch == 7
    assert lifecycle.state is BrokerState.SHUT_DOWN
    assert [record.levelname for record in caplog.records].count("WARNING") == 1


@pytest.mark.parametrize("error", [ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.UNSUPPORTED_VERSION])
def test_a_refusal_that_will_not_change_ends_the_start(error: ErrorCode) -> None:
    with pytest.raises(ApiException, match=error.name):
        register(Controller(error))


def test_a_broker_that_cannot_register_in_time_gives_up_and_says_which_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RETRY_S", 0.0)
    monkeypatch.setattr(module, "_RETRY_S_MAX", 0.0)
    with pytest.raises(ApiException, match=r"initial\.broker\.registration\.timeout\.ms \(0 s\): NOT_CONTROLLER"):
        register(Controller(*[ErrorCode.NOT_CONTROLLER] * 1000), timeout_ms=0)
