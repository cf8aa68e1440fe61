"""A broker's registration: which errors it retries, and which end the start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from barnabas.broker import lifecycle as module
from barnabas.broker.lifecycle import BrokerLifecycle, BrokerState, to_listener
from barnabas.broker.ports import ControllerChannel
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage, MetadataProvenance
from barnabas.metadata.publisher import LoaderManifest
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from barnabas.protocol.records.feature_level_record import FeatureLevelRecord
from barnabas.protocol.records.register_broker_record import RegisterBrokerRecord


class Controller:
    """Answers registrations with these errors in turn, then with an epoch."""

    def __init__(self, *errors: ErrorCode) -> None:
        self.errors = list(errors)
        self.registrations = 0

    async def send(self, request: object) -> object:
        if not isinstance(request, BrokerRegistrationRequest):
            return BrokerHeartbeatResponse(is_fenced=False, is_caught_up=True)
        self.registrations += 1
        if self.errors:
            return BrokerRegistrationResponse(error_code=self.errors.pop(0))
        return BrokerRegistrationResponse(broker_epoch=7)


async def running(controller: Controller, *, timeout_ms: int = 60_000) -> BrokerLifecycle:
    lifecycle = BrokerLifecycle(
        broker_id=1,
        cluster_id="cluster",
        incarnation_id=Uuid.from_int(9),
        rack=None,
        directory_ids=[Uuid.from_int(8)],
        features={},
        heartbeat_interval_ms=60_000,
        session_timeout_ms=9_000,
        registration_timeout_ms=timeout_ms,
        metadata_offset=lambda: 0,
        catch_up=catch_up,
        controller=cast(ControllerChannel, controller),
    )
    await lifecycle.register([to_listener("PLAINTEXT", "localhost", 9092, 0)], -1)
    return lifecycle


async def catch_up() -> bool:
    return True


def register(controller: Controller, *, timeout_ms: int = 60_000) -> BrokerLifecycle:
    async def run() -> BrokerLifecycle:
        lifecycle = await running(controller, timeout_ms=timeout_ms)
        lifecycle.stop()
        return lifecycle

    return asyncio.run(run())


def test_a_killed_broker_waits_until_its_old_session_has_ended(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its controller is still running and counts the old process as alive."""
    monkeypatch.setattr(module, "_RETRY_S", 0.0)
    monkeypatch.setattr(module, "_RETRY_S_MAX", 0.0)
    lifecycle = register(Controller(*[ErrorCode.DUPLICATE_BROKER_REGISTRATION] * 3))
    assert lifecycle.broker_epoch == 7
    assert lifecycle.state is BrokerState.SHUT_DOWN
    assert [record.levelname for record in caplog.records].count("WARNING") == 1


@pytest.mark.parametrize("error", [ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.UNSUPPORTED_VERSION])
def test_a_permanent_refusal_ends_the_start(error: ErrorCode) -> None:
    with pytest.raises(ApiException, match=error.name):
        register(Controller(error))


def test_the_error_of_a_broker_of_another_cluster_names_the_file() -> None:
    with pytest.raises(ApiException, match=r"INCONSISTENT_CLUSTER_ID\. The cluster\.id of .* meta\.properties"):
        register(Controller(ErrorCode.INCONSISTENT_CLUSTER_ID))


def test_a_broker_that_cannot_register_in_time_names_the_timeout_and_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RETRY_S", 0.0)
    monkeypatch.setattr(module, "_RETRY_S_MAX", 0.0)
    with pytest.raises(ApiException, match=r"initial\.broker\.registration\.timeout\.ms \(0 s\): NOT_CONTROLLER"):
        register(Controller(*[ErrorCode.NOT_CONTROLLER] * 1000), timeout_ms=0)


class LeavingController(Controller):
    """Allows the shutdown with its last response; does not answer where its script has no response."""

    def __init__(self, *answers: bool) -> None:
        super().__init__()
        self.answers = list(answers)
        self.request_count = 0

    async def send(self, request: object) -> object:
        if not isinstance(request, BrokerHeartbeatRequest) or not request.want_shut_down:
            return await super().send(request)
        self.request_count += 1
        if not self.answers:
            await asyncio.Event().wait()
        return BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False, should_shut_down=self.answers.pop(0))


def leave(controller: Controller, **limits: float) -> BrokerLifecycle:
    async def run() -> BrokerLifecycle:
        lifecycle = await running(controller)
        await lifecycle.shut_down(**limits)
        return lifecycle

    return asyncio.run(run())


def test_a_broker_stops_when_the_others_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RETRY_S", 0.0)
    controller = LeavingController(False, False, True)
    assert leave(controller, timeout_s=60, silence_s=60).state is BrokerState.SHUT_DOWN
    assert controller.request_count == 3


def test_a_broker_stops_when_no_controller_answers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_RETRY_S", 0.0)
    controller = LeavingController(False)
    assert leave(controller, timeout_s=60, silence_s=0.01).state is BrokerState.SHUT_DOWN
    assert controller.request_count == 2
    assert "no controller confirmed the shutdown" in caplog.text


def test_a_broker_reports_its_directories_once_the_cluster_supports_them() -> None:
    """It registered in a cluster whose metadata version did not support directories yet."""
    controller = Controller()

    async def run() -> list[int]:
        lifecycle = await running(controller)
        image, counts = MetadataImage.EMPTY, []
        own = RegisterBrokerRecord(broker_id=1, broker_epoch=7)
        for offset, (level, record) in enumerate(((16, own), (17, None), (18, replaced(own)), (19, None))):
            delta = MetadataDelta(image)
            for feature_record in (FeatureLevelRecord(name="metadata.version", feature_level=level), record):
                if feature_record is not None:
                    delta.replay(feature_record)
            image = delta.apply(MetadataProvenance(offset, 1))
            lifecycle.publish(delta, image, cast(LoaderManifest, None))
            await asyncio.sleep(0.001)
            counts.append(controller.registrations)
        lifecycle.stop()
        return counts

    assert asyncio.run(run()) == [1, 2, 2, 2]


def replaced(own: RegisterBrokerRecord) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(broker_id=own.broker_id, broker_epoch=own.broker_epoch, log_dirs=[Uuid.from_int(8)])


class Listening(Controller):
    """Keeps the heartbeats. With ``fails`` they receive no response."""

    def __init__(self) -> None:
        super().__init__()
        self.heartbeats: list[BrokerHeartbeatRequest] = []
        self.fails = False

    async def send(self, request: object) -> object:
        if isinstance(request, BrokerHeartbeatRequest):
            self.heartbeats.append(request)
            if self.fails:
                raise ApiException(ErrorCode.REQUEST_TIMED_OUT, "no response")
        return await super().send(request)


class Late(Controller):
    """Holds a response back until it is released, and reports this broker as fenced while ``fences``."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = asyncio.Event()
        self.answers.set()
        self.fences = False

    async def send(self, request: object) -> object:
        answer = await super().send(request)
        if isinstance(answer, BrokerHeartbeatResponse):
            await self.answers.wait()
            answer.is_fenced = self.fences
        return answer


def test_the_lease_starts_when_a_heartbeat_is_sent_and_not_when_it_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        now = 1_000.0
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
        controller = Late()
        lifecycle = await running(controller)
        await until(lambda: lifecycle.lease.until_s == 1_009.0)
        controller.answers.clear()
        lifecycle.report_now()
        for _ in range(20):
            await asyncio.sleep(0)
        now = 1_005.0
        controller.answers.set()
        await until(lambda: not lifecycle._wake.is_set())
        for _ in range(20):
            await asyncio.sleep(0)
        assert lifecycle.lease.until_s == 1_009.0
        lifecycle.report_now()
        await until(lambda: lifecycle.lease.until_s == 1_014.0)
        controller.fences = True
        lifecycle.report_now()
        await until(lambda: lifecycle.lease.until_s < now)
        lifecycle.stop()

    asyncio.run(scenario())


def test_a_response_after_the_session_counts_once_the_metadata_log_is_applied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    applied: list[asyncio.Future[bool]] = []

    async def wait_until_applied() -> bool:
        applied.append(asyncio.get_running_loop().create_future())
        return await applied[-1]

    monkeypatch.setitem(globals(), "catch_up", wait_until_applied)

    async def scenario() -> None:
        now = 1_000.0
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
        lifecycle = await running(Controller())
        await until(lambda: len(applied) == 1)
        applied[0].set_result(True)
        await until(lambda: lifecycle.lease.until_s == 1_009.0)
        now = 1_009.0
        lifecycle.report_now()
        await until(lambda: len(applied) == 2)
        assert lifecycle.lease.until_s <= now
        applied[1].set_result(False)  # It took too long.
        await until(lambda: len(applied) == 3)
        assert lifecycle.lease.until_s <= now
        applied[2].set_result(True)
        await until(lambda: lifecycle.lease.until_s == 1_018.0)
        lifecycle.stop()

    asyncio.run(scenario())


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(1000):
        if holds():
            return
        await asyncio.sleep(0)
    raise AssertionError("the condition never became true")


def test_heartbeats_always_name_failed_directories_and_cordoned_ones_after_catch_up() -> None:
    lost, other = Uuid.from_int(301), Uuid.from_int(302)

    async def scenario() -> None:
        controller = Listening()
        lifecycle = await running(controller)
        lifecycle.directory_reports.cordoned = [other]
        assert [(heartbeat.offline_log_dirs, heartbeat.cordoned_log_dirs) for heartbeat in controller.heartbeats] == [
            ([], None)
        ]
        controller.fails = True
        lifecycle.directory_reports.failed(lost)
        lifecycle.report_now()
        await until(lambda: len(controller.heartbeats) > 1)
        assert not lifecycle.directory_reports.is_reported(lost)
        controller.fails = False
        lifecycle.report_now()
        await until(lambda: lifecycle.directory_reports.is_reported(lost))
        directories = [
            (heartbeat.offline_log_dirs, heartbeat.cordoned_log_dirs) for heartbeat in controller.heartbeats[1:]
        ]
        assert directories == [([lost], [other])] * len(directories)
        lifecycle.stop()

    asyncio.run(scenario())


def test_a_stop_that_coincides_with_a_wake_up_ends_the_heartbeats() -> None:
    """``asyncio.wait_for`` loses such a cancellation before Python 3.12: the process did not end then."""

    async def scenario() -> None:
        lifecycle = await running(Listening())
        task = lifecycle._task
        assert task is not None
        await asyncio.sleep(0)
        lifecycle.report_now()
        await asyncio.sleep(0)
        lifecycle.stop()
        async with asyncio.timeout(5):
            await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()

    asyncio.run(scenario())
