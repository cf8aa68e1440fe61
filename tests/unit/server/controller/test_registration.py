"""A controller sends registrations until one succeeds, and again when the cluster's version supports registration."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.metadata.image.metadata_image import MetadataImage
from barnabas.metadata.loader import CommittedBatch, MetadataLoader
from barnabas.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from barnabas.protocol.records.feature_level_record import FeatureLevelRecord
from barnabas.server.controller.registration import ControllerRegistration
from barnabas.server.settings.endpoints import Endpoint

ENDPOINT = Endpoint("CONTROLLER", "127.0.0.1", 9093)
IBP_3_6, IBP_3_7 = 14, 15


class Active:
    """The active controller; ``answers`` are returned in turn, the last one repeatedly."""

    def __init__(self, *answers: ErrorCode | Exception) -> None:
        self._answers = list(answers)
        self.requests: list[ControllerRegistrationRequest] = []

    async def send(self, request: Any) -> Any:
        self.requests.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return ControllerRegistrationResponse(error_code=int(answer), error_message=answer.name)


def registration(active: Active) -> ControllerRegistration:
    return ControllerRegistration(
        active.send, node_id=3000, incarnation_id=Uuid.from_int(7), features={"metadata.version": (7, 30)}
    )


def image_of(level: int) -> MetadataImage:
    loader = MetadataLoader()
    record = FeatureLevelRecord(name="metadata.version", feature_level=level)
    batch = CommittedBatch(base_offset=0, last_offset=0, epoch=1, append_time_ms=0, records=[record])
    loader.handle_commit([batch])
    return loader.image


def test_a_registration_is_repeated_until_a_controller_is_active() -> None:
    active = Active(ApiException(ErrorCode.NOT_CONTROLLER), ErrorCode.NOT_CONTROLLER, ErrorCode.NONE)
    asyncio.run(registration(active).register([ENDPOINT]))
    assert len(active.requests) == 3
    (request, *_) = active.requests
    assert (request.controller_id, [endpoint.port for endpoint in request.listeners]) == (3000, [9093])
    assert [feature.name for feature in request.features] == ["metadata.version"]


def test_a_refusal_is_raised() -> None:
    active = Active(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    with pytest.raises(ApiException) as raised:
        asyncio.run(registration(active).register([ENDPOINT]))
    assert raised.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_a_registration_is_sent_when_the_metadata_version_supports_it() -> None:
    async def run() -> int:
        active = Active(ErrorCode.UNSUPPORTED_VERSION, ErrorCode.NONE)
        registered = registration(active)
        await registered.register([ENDPOINT])
        nothing = cast(Any, None)
        registered.publish(nothing, image_of(IBP_3_6), nothing)
        await asyncio.sleep(0)
        assert len(active.requests) == 1
        for _ in range(2):
            registered.publish(nothing, image_of(IBP_3_7), nothing)
            await asyncio.sleep(0)
        registered.close()
        return len(active.requests)

    assert asyncio.run(run()) == 2
