"""Registers this controller in the log: its endpoints and the features that it supports (KIP-919).

A metadata.version below 3.7 has no controller registrations; the controller registers when the version is raised.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    Feature,
    Listener,
)
from barnabas.server.settings.endpoints import SECURITY_PROTOCOLS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from barnabas.common.uuid import Uuid
    from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage
    from barnabas.metadata.publisher import LoaderManifest
    from barnabas.protocol.messages.controller_registration import ControllerRegistrationResponse
    from barnabas.server.settings.endpoints import Endpoint

__all__ = ["ControllerRegistration"]

log = logging.getLogger(__name__)

_RETRY_S = 0.01
_RETRY_S_MAX = 1.0


class ControllerRegistration:
    """Call ``register`` at the start. Afterwards this object follows the metadata as a publisher."""

    def __init__(
        self,
        send: Callable[[ControllerRegistrationRequest], Awaitable[ControllerRegistrationResponse]],
        *,
        node_id: int,
        incarnation_id: Uuid,
        features: Mapping[str, tuple[int, int]],
    ) -> None:
        """``send`` sends a request to the active controller."""
        self._send = send
        self._request = ControllerRegistrationRequest(
            controller_id=node_id,
            incarnation_id=incarnation_id,
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in sorted(features.items())
            ],
        )
        self._is_owed = False
        self._task: asyncio.Task[None] | None = None

    async def register(self, endpoints: Sequence[Endpoint]) -> None:
        """Register, and retry until the active controller has answered. Raise ApiException if it refuses."""
        self._request.listeners = [
            Listener(
                name=endpoint.listener,
                host=endpoint.host,
                port=endpoint.port,
                security_protocol=SECURITY_PROTOCOLS.index(endpoint.security_protocol),
            )
            for endpoint in endpoints
        ]
        await self._register()

    def publish(self, delta: MetadataDelta, new_image: MetadataImage, manifest: LoaderManifest) -> None:
        version = new_image.features.metadata_version
        if self._is_owed and version is not None and version.is_controller_registration_supported:
            self._is_owed = False
            self._task = asyncio.get_running_loop().create_task(self._register())
            self._task.add_done_callback(_registered_late)

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _register(self) -> None:
        delay, logged = _RETRY_S, ""
        while True:
            error = await self._try_register()
            if error is None:
                return
            if error.code is ErrorCode.UNSUPPORTED_VERSION:
                self._is_owed = True
                return
            if not error.retriable:
                raise error
            if delay >= _RETRY_S_MAX and str(error) != logged:
                logged = str(error)
                log.info("this controller is not registered yet: %s", logged)
            await asyncio.sleep(delay)
            delay = min(delay * 2, _RETRY_S_MAX)

    async def _try_register(self) -> ApiException | None:
        try:
            response = await self._send(self._request)
        except ApiException as error:
            return error
        if response.error_code == ErrorCode.NONE:
            return None
        return ApiException(ErrorCode(response.error_code), response.error_message)


def _registered_late(task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log.error("the active controller refused to register this controller: %s", error)
