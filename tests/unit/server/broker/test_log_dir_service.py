"""From a failing disk to the reports for the controller, and to a node that stops."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas.broker.replica_manager import ReplicaManager
from barnabas.broker.replication.directory_reports import DirectoryReports
from barnabas.common.topic_config import TopicConfig
from barnabas.common.uuid import Uuid
from barnabas.metadata.image.configs import DEFAULT_BROKER, ConfigResource
from barnabas.metadata.metadata_version import MetadataVersion
from barnabas.server.broker.log_dir_service import LogDirService, new_replica_directories
from barnabas.server.settings.dynamic_broker_config import SettingsChange
from barnabas.server.start_errors import LogDirectoriesLost
from barnabas.storage.log_manager import LogManager

IDS = {"a": Uuid.from_int(201), "b": Uuid.from_int(202), "c": Uuid.from_int(203)}
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


class Clock:
    def now_ms(self) -> int:
        return 0

    def monotonic_ms(self) -> int:
        return 0


class World:
    def __init__(self, folder: Path, *, version: int = 30, timeout_ms: int = 30_000) -> None:
        self.folder = folder
        ids = {str(folder / name): id_ for name, id_ in IDS.items()}
        self.logs = LogManager(list(ids), directory_ids=ids)
        self.logs.startup(now_ms=0)
        self.failure: BaseException | None = None
        self.stopped = asyncio.Event()
        self.reports_now = 0
        self.reported_immediately: list[Uuid] = []
        """The requests that a controller receives before a timeout."""
        self.configs: dict[ConfigResource, dict[str, str]] = {}
        features = SimpleNamespace(
            metadata_version=MetadataVersion(version), metadata_version_or_throw=lambda: MetadataVersion(version)
        )
        config = SimpleNamespace(
            node_id=1,
            metadata_log_dir=str(folder / "a"),
            cordoned_log_dirs=[],
            log_dir_failure_timeout_ms=timeout_ms,
            alter_log_dirs_replication_quota_window_num=11,
            alter_log_dirs_replication_quota_window_size_seconds=1,
        )
        image = SimpleNamespace(
            features=features, configs=SimpleNamespace(of=lambda resource: self.configs.get(resource, {}))
        )
        core = SimpleNamespace(
            config=config, clock=Clock(), metadata=SimpleNamespace(image=image), give_up=self.give_up
        )
        lifecycle = SimpleNamespace(directory_reports=DirectoryReports(), broker_epoch=7, report_now=self.report_now)
        self.reports = lifecycle.directory_reports
        replicas = ReplicaManager(
            broker_id=1,
            logs=self.logs,
            clock=Clock(),
            defaults=TopicConfig({}),
            new_directories=partial(new_replica_directories, cast("Any", core)),
        )
        self.service = LogDirService(cast("Any", core), replicas, cast("Any", None), cast("Any", lifecycle))
        self.service.publish(cast("Any", SimpleNamespace(features=True)), cast("Any", image), cast("Any", None))

    def give_up(self, fault: BaseException) -> None:
        self.failure = self.failure or fault
        self.stopped.set()

    def report_now(self) -> None:
        self.reports_now += 1
        self.reports.note_reported(self.reported_immediately)

    async def fail(self, *names: str) -> None:
        """Fail the directory, as a thread that meets an error does."""
        for name in names:
            report = self.logs.directories.failures.report
            await asyncio.get_running_loop().run_in_executor(None, report, str(self.folder / name), "it failed")
        for _ in range(3):
            await asyncio.sleep(0)


Run = Callable[..., None]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def run(scenario: Callable[[World], Awaitable[None]], **options: Any) -> None:
        async def main() -> None:
            world = World(tmp_path, **options)
            try:
                await scenario(world)
            finally:
                await world.service.close()
                for directory in world.logs.directories.all:
                    directory.unlock()

        asyncio.run(main())

    return run


def test_a_failed_directory_is_reported_to_the_controller_immediately(run: Run) -> None:
    async def scenario(world: World) -> None:
        before = world.reports_now
        await world.fail("b")
        assert world.reports.offline == [IDS["b"]]
        assert world.reports_now > before
        assert [Path(directory.path).name for directory in world.logs.directories.online] == ["a", "c"]
        assert world.failure is None

    run(scenario)


def test_a_node_without_a_usable_directory_stops(run: Run) -> None:
    async def scenario(world: World) -> None:
        await world.fail("b", "c", "a")
        assert isinstance(world.failure, LogDirectoriesLost)
        assert str(world.folder / "a") in str(world.failure)

    run(scenario)


def test_a_node_that_lost_the_directory_of_its_metadata_log_stops(run: Run) -> None:
    async def scenario(world: World) -> None:
        await world.fail("a")
        assert "metadata log" in str(world.failure)

    run(scenario)


def test_a_node_that_cannot_report_a_failure_stops(run: Run) -> None:
    async def scenario(world: World) -> None:
        world.reported_immediately = [IDS["b"]]
        await world.fail("b", "c")
        await world.stopped.wait()
        assert str(world.folder / "c") in str(world.failure)
        assert "log.dir.failure.timeout.ms (1 ms)" in str(world.failure)

    run(scenario, timeout_ms=1)


def test_cordoned_directories_are_reported_and_receive_no_new_logs(run: Run) -> None:
    async def scenario(world: World) -> None:
        assert world.reports.cordoned == []
        paths = [str(world.folder / "b"), str(world.folder / "c")]
        old, new = (SimpleNamespace(cordoned_log_dirs=cordoned) for cordoned in ([], paths))
        follow = world.service.prepare(SettingsChange(cast("Any", old), cast("Any", new), rereads=False))
        assert follow is not None
        follow()
        assert world.reports.cordoned == [IDS["b"], IDS["c"]]
        assert [directory.is_cordoned for directory in world.logs.directories.all] == [False, True, True]
        await world.fail("c")
        assert world.reports.cordoned == [IDS["b"]], "offline directories are not listed any longer"
        assert world.service.prepare(SettingsChange(cast("Any", new), cast("Any", new), rereads=False)) is None

    run(scenario)


def test_older_controllers_receive_no_cordoned_directories(run: Run) -> None:
    async def scenario(world: World) -> None:
        assert world.reports.cordoned is None

    run(scenario, version=29)


def test_the_rate_of_moves_is_set_for_the_broker_or_for_all(run: Run) -> None:
    async def scenario(world: World) -> None:
        assert world.service.directories.bytes_per_second() == float("inf")
        world.configs[DEFAULT_BROKER] = {RATE: "1000"}
        assert world.service.directories.bytes_per_second() == 1000
        world.configs[ConfigResource.broker(1)] = {RATE: "5"}
        assert world.service.directories.bytes_per_second() == 5

    run(scenario)
