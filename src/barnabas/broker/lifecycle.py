"""A broker's membership: registers with the controller, keeps its session alive, and shuts down in a controlled way.

States: starting -> registered and fenced -> running -> controlled shutdown -> shut down. A broker is fenced until it
has caught up with the metadata log; only then does it request to be unfenced. A broker in controlled shutdown continues
to serve until the controller has moved its leaderships to other brokers and these have applied the change.

Answered heartbeats renew the ``lease``: while it holds, unreachability of this broker can't let another broker lead.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from enum import Enum, auto
from typing import TYPE_CHECKING

from barnabas.broker.replication.directory_reports import DirectoryReports
from barnabas.broker.session_lease import SessionLease
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from barnabas.broker.ports import ControllerChannel
    from barnabas.common.uuid import Uuid
    from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage
    from barnabas.metadata.publisher import LoaderManifest

__all__ = ["BrokerLifecycle", "BrokerState"]

log = logging.getLogger(__name__)

_RETRY_S = 0.02
_RETRY_S_MAX = 1.0
_FATAL = frozenset(
    {
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_REGISTRATION,
        ErrorCode.BROKER_ID_NOT_REGISTERED,
    }
)


class BrokerState(Enum):
    STARTING = auto()
    FENCED = auto()
    RUNNING = auto()
    CONTROLLED_SHUTDOWN = auto()
    SHUT_DOWN = auto()


class BrokerLifecycle:
    def __init__(
        self,
        *,
        broker_id: int,
        cluster_id: str,
        incarnation_id: Uuid,
        rack: str | None,
        directory_ids: Sequence[Uuid],
        features: Mapping[str, tuple[int, int]],
        heartbeat_interval_ms: int,
        session_timeout_ms: int,
        registration_timeout_ms: int = 60_000,
        metadata_offset: Callable[[], int],
        catch_up: Callable[[], Awaitable[bool]],
        controller: ControllerChannel,
    ) -> None:
        """``catch_up`` applies the metadata log up to the offset committed at the time of the call.

        It returns False if that takes too long.
        """
        self._broker_id = broker_id
        self._cluster_id = cluster_id
        self._incarnation_id = incarnation_id
        self._rack = rack
        self._directory_ids = directory_ids
        self._features = features
        self._heartbeat_interval_s = heartbeat_interval_ms / 1000
        self._registration_timeout_s = registration_timeout_ms / 1000
        self._metadata_offset = metadata_offset
        self._catch_up = catch_up
        self._controller = controller
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._is_caught_up = False
        self._registration: BrokerRegistrationRequest | None = None
        self._amending: asyncio.Task[None] | None = None
        self._catching_up: asyncio.Task[None] | None = None
        self._answered_s = 0.0
        self.directory_reports = DirectoryReports()
        self.lease = SessionLease(session_timeout_ms / 1000)
        self.state = BrokerState.STARTING
        self.broker_epoch = -1

    async def register(self, listeners: Sequence[Listener], previous_epoch: int) -> None:
        """Register and wait to be unfenced; from then on heartbeats are sent in the background.

        Retry while no controller is reachable, or while the session of an earlier process lasts. Raise ApiException
        after the time limit, or if the refusal is final.
        """
        request = BrokerRegistrationRequest(
            broker_id=self._broker_id,
            cluster_id=self._cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=list(listeners),
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in sorted(self._features.items())
            ],
            rack=self._rack,
            log_dirs=sorted(self._directory_ids),
            previous_broker_epoch=previous_epoch,
        )
        await self._register(request)
        self._registration = request
        self.state = BrokerState.FENCED
        while self.state is BrokerState.FENCED:
            await self._heartbeat()
            if self.state is BrokerState.FENCED:
                await asyncio.sleep(_RETRY_S)
        self._task = asyncio.get_running_loop().create_task(self._keep_alive())

    def _why_refused(self, code: ErrorCode) -> str:
        """Explain the controller's error code with what this broker knows."""
        if code is not ErrorCode.INCONSISTENT_CLUSTER_ID:
            return ""
        return (
            f". The cluster.id of this broker is {self._cluster_id}, as meta.properties in its log directories says. "
            "Restore the file, or name the controllers of that cluster"
        )

    async def _register(self, request: BrokerRegistrationRequest) -> None:
        now_s, limit_s = asyncio.get_running_loop().time, self._registration_timeout_s
        began_s, delay, reported = now_s(), _RETRY_S, ErrorCode.NONE
        while (code := await self._try_register(request)) is not ErrorCode.NONE:
            if code in _FATAL:
                raise ApiException(code, f"The controller refuses this broker: {code.name}{self._why_refused(code)}")
            if now_s() - began_s > limit_s:
                raise ApiException(
                    code,
                    f"This broker could not register within initial.broker.registration.timeout.ms ({limit_s:g} s): "
                    f"{code.name}",
                )
            is_new, reported = code is not reported, code
            if code is ErrorCode.DUPLICATE_BROKER_REGISTRATION and is_new:
                log.warning(
                    "the controller still has a session of another process that runs as broker %d; if that was this "
                    "broker before it was killed, the session expires automatically (broker.session.timeout.ms)",
                    self._broker_id,
                )
            elif code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED and is_new:
                log.error(
                    "the controller refused to register this broker: its principal there needs CLUSTER_ACTION on the "
                    "cluster -> add it to super.users of the controllers, or give it an ACL"
                )
            await asyncio.sleep(delay)
            delay = min(delay * 2, _RETRY_S_MAX)

    async def _try_register(self, request: BrokerRegistrationRequest) -> ErrorCode:
        try:
            response = await self._controller.send(request)
        except ApiException as error:
            return error.code
        if response.error_code == ErrorCode.NONE:
            self.broker_epoch = response.broker_epoch
        return ErrorCode(response.error_code)

    def publish(self, delta: MetadataDelta, new_image: MetadataImage, manifest: LoaderManifest) -> None:
        """Register again when metadata.version first supports log directories, which the first registration lacked."""
        own, version = new_image.cluster.brokers.get(self._broker_id), new_image.features.metadata_version
        if delta.features is None or version is None or not version.is_directory_assignment_supported:
            return
        if own is not None and own.epoch == self.broker_epoch and not own.directories and self._amending is None:
            self._amending = asyncio.get_running_loop().create_task(self._amend())

    async def _amend(self) -> None:
        while self._registration is not None and self.state is not BrokerState.SHUT_DOWN:
            code = await self._try_register(self._registration)
            if code is ErrorCode.NONE:
                break
            log.warning("the controller returned %s when this broker registered its directories", code.name)
            await asyncio.sleep(_RETRY_S_MAX)
        self._amending = None

    def report_now(self) -> None:
        """Send a heartbeat now, because there are changes to report."""
        if self.state is BrokerState.RUNNING:
            self._wake.set()

    async def _heartbeat(self) -> None:
        reports = self.directory_reports
        offline = reports.offline
        request = BrokerHeartbeatRequest(
            broker_id=self._broker_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._metadata_offset(),
            want_fence=False,
            want_shut_down=self.state is BrokerState.CONTROLLED_SHUTDOWN,
            offline_log_dirs=offline,
            cordoned_log_dirs=list(reports.cordoned) if self._is_caught_up and reports.cordoned is not None else None,
        )
        now_s = asyncio.get_running_loop().time
        sent_s = now_s()
        try:
            response = await self._controller.send(request)
        except ApiException as error:
            log.info("heartbeat failed: %s", error)
            return
        if response.error_code:
            log.warning("the controller returned %s for a heartbeat", ErrorCode(response.error_code).name)
            return
        self._answered_s = now_s()
        self._renew_lease(response, sent_s)
        reports.note_reported(offline)
        self._is_caught_up = response.is_caught_up
        if self.state is BrokerState.CONTROLLED_SHUTDOWN:
            if response.should_shut_down:
                self.state = BrokerState.SHUT_DOWN
        elif not response.is_fenced:
            self.state = BrokerState.RUNNING

    def _renew_lease(self, response: BrokerHeartbeatResponse, sent_s: float) -> None:
        if response.is_fenced:
            self.lease.fenced()
            return
        self.lease.renewed(sent_s=sent_s, answered_s=self._answered_s)
        if self.lease.needs_to_catch_up and self._catching_up is None:
            self._catching_up = asyncio.get_running_loop().create_task(self._catch_up_with_session())

    async def _catch_up_with_session(self) -> None:
        try:
            while self.lease.needs_to_catch_up:
                session = self.lease.session
                if await self._catch_up():
                    self.lease.caught_up(session)
        finally:
            self._catching_up = None

    async def _keep_alive(self) -> None:
        while self.state is not BrokerState.SHUT_DOWN:
            shutting_down = self.state is BrokerState.CONTROLLED_SHUTDOWN
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_RETRY_S if shutting_down else self._heartbeat_interval_s):
                    await self._wake.wait()
            self._wake.clear()
            await self._heartbeat()

    async def shut_down(self, timeout_s: float, *, silence_s: float = 5.0) -> None:
        """Request a controlled shutdown. Return when the controller has moved all leaderships.

        Return also after ``timeout_s``, or when no controller has answered for ``silence_s``.
        """
        if self._task is None:
            return
        if self.state is BrokerState.RUNNING:
            self.state = BrokerState.CONTROLLED_SHUTDOWN
            self._wake.set()
            await self._wait_until_others_lead(self._task, timeout_s, silence_s)
        self.stop()

    async def _wait_until_others_lead(self, task: asyncio.Task[None], timeout_s: float, silence_s: float) -> None:
        now_s = asyncio.get_running_loop().time
        began_s = self._answered_s = now_s()
        while not task.done():
            left_s = min(began_s + timeout_s, self._answered_s + silence_s) - now_s()
            if left_s <= 0:
                log.warning("this broker stops before its leaderships were moved: no controller confirmed the shutdown")
                return
            await asyncio.wait({task}, timeout=left_s)

    def stop(self) -> None:
        """Stop without notifying the controller, where the session then expires."""
        self.state = BrokerState.SHUT_DOWN
        for task in (self._task, self._amending, self._catching_up):
            if task is not None:
                task.cancel()


def to_listener(name: str, host: str, port: int, security_protocol: int) -> Listener:
    """Build a listener as a registration carries it."""
    return Listener(name=name, host=host, port=port, security_protocol=security_protocol)
