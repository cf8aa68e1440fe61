"""Shared by all tests: hypothesis profiles, the distribution over workers, and fixtures for the real Kafka.

With several workers (``make test``) the tests of a module stay on one worker, because they share nodes. Those of
``tests/spark`` all stay on the same worker, because they share a Spark session, except modules with a session of their
own. Tests wait for nodes and timeouts during half of their time, so two workers share a core.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from barnabas.storage.file_pool import FilePool
from barnabas.testing import Node
from tests.peers import KafkaNode, require_java, require_maven, require_peer, running_kafka
from tests.peers.java_programs import shared_programs

settings.register_profile("default", deadline=None, print_blob=True)
settings.register_profile(
    "fuzz", deadline=None, print_blob=True, max_examples=20_000, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("default")

OWN_SPARK_SESSION = frozenset(
    f"tests/spark/test_{name}.py"
    for name in ("connect_cluster", "connect_server", "connect_session_dies", "flights_run")
)
"""Modules without a test that uses the common session."""
TESTS = Path(__file__).resolve().parent
LONGEST = ("simulation", "storage_faults")
"""Folders with a module that takes minutes."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """The number for ``-n auto``."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores * 2


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """None: the distribution that ``--dist`` names."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class BySession(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            scope: str = super()._split_scope(nodeid)
            is_shared = scope.startswith("tests/spark/") and scope not in OWN_SPARK_SESSION
            return "tests/spark" if is_shared else scope

    return BySession(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """In a fresh clone, pytest compiles the tests, with rewritten assertions, for a third of a minute. Each worker
    begins at another place, so that it compiles a part and finds the rest compiled by the others.

    All that a collection makes lives as long as the run, so the garbage collector would only search it again and again.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None:
        return
    gc.disable()
    if session.config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    files = sorted(TESTS.rglob("test_*.py"))
    number, count = int(worker.removeprefix("gw")), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    for file in files[len(files) * number // count : len(files) * (number + 1) // count]:
        with suppress(Exception):  # The collection reports it.
            import_module(".".join(file.relative_to(TESTS.parent).with_suffix("").parts))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    if not os.environ.get("BARNABAS_LONG_TESTS"):
        items[:] = [item for item in items if item.get_closest_marker("long") is None]
    as_written = {item: index for index, item in enumerate(items)}
    yield  # The order is shuffled here.
    _restore_order(items, as_written)
    items.sort(key=_when_to_begin)


def _restore_order(items: list[pytest.Item], as_written: dict[pytest.Item, int]) -> None:
    """Tests of a module that change a shared node run in file order, all tests of one node before the next."""
    places: dict[Path, list[int]] = {}
    for place, item in enumerate(items):
        if item.get_closest_marker("interop") is not None:
            places.setdefault(item.path, []).append(place)
    for of_module in places.values():
        ordered = sorted((items[place] for place in of_module), key=as_written.__getitem__)
        first: dict[object, int] = {}
        for item in ordered:
            first.setdefault(_shared_parameters(item), len(first))
        ordered.sort(key=lambda item: first[_shared_parameters(item)])
        for place, item in zip(of_module, ordered, strict=True):
            items[place] = item


def _when_to_begin(item: pytest.Item) -> int:
    """Return the rank of a test. The longest modules run first: the many short ones keep every worker busy until the
    others end."""
    if item.get_closest_marker("spark") is not None:
        return 0
    if item.path.parent.name in LONGEST:
        return 1
    return 2 if item.get_closest_marker("interop") is not None else 3


def _shared_parameters(item: pytest.Item) -> tuple[tuple[str, object], ...]:
    """Return the parameters of fixtures that outlive the test: a new value ends the node and starts another."""
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return ()
    return tuple(
        (name, index) for name, index in callspec.indices.items() if callspec._arg2scope[name].value != "function"
    )


def pytest_report_header() -> str:
    return "a test that lacks Java or Maven " + ("fails (CI is set)" if os.environ.get("CI") else "is skipped")


@pytest.fixture(autouse=True)
def _close_files_left_open(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close logs that a test leaves open, as a crash does: Spark's client can't use a descriptor above 1023."""
    pools: list[FilePool] = []
    make = FilePool.__init__

    def made(pool: FilePool, *args: int, **named: int) -> None:
        make(pool, *args, **named)
        pools.append(pool)

    monkeypatch.setattr(FilePool, "__init__", made)
    yield
    for pool in pools:
        pool.close_all()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Later collections leave out what was imported and collected: it would cost each of them half a second."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _shared_java_programs() -> Iterator[None]:
    """Kafka's programs share a JVM, which starts with the first of them."""
    with shared_programs():
        yield


@pytest.fixture(scope="session")
def java() -> None:
    """Skip the test without Java."""
    require_java()


@pytest.fixture(scope="session")
def maven() -> None:
    """Skip the test without Maven."""
    require_maven()


@pytest.fixture(scope="session")
def kafka_peer() -> Path:
    """Return the folder of Kafka's jars, for a test that runs Kafka's own classes."""
    return require_peer()


@pytest.fixture(scope="session")
def real_kafka(kafka_peer: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaNode]:
    """One real Kafka 4.3.1 for all tests that only use it as a cluster: name topics so that they don't collide."""
    with running_kafka(tmp_path_factory.mktemp("real-kafka")) as node:
        yield node


@pytest.fixture(scope="session")
def barnabas_node() -> Iterator[Node]:
    """One node of ours for all tests that only use it as a cluster: name topics so that they don't collide."""
    with Node() as node:
        yield node
