"""Flink's Kafka sink with exactly-once delivery copies a topic once.

It goes on from a checkpoint after a failure of its own, and in a new process from the last checkpoint of a killed one.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from barnabas.testing import Node
from tests.peers import HERE
from tests.peers.fetched import jars_of, require_program, run_quietly

pytestmark = [pytest.mark.interop, pytest.mark.ecosystem, pytest.mark.long, pytest.mark.timeout(300)]

COUNT = 6000
FAILS_AFTER = 900
"""Records that one of two tasks copies before it fails, about a second after it began."""
# Flink serializes Java's own collections by reflection.
OPENED = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in ("java.lang", "java.util", "java.util.concurrent")]


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Compiled before, because Flink does not find the classes that Java compiles from a source at run time."""
    jars = jars_of("flink-2.2.1", "pom-flink.xml")
    classes = tmp_path_factory.mktemp("flink-classes")
    source = str(HERE / "java" / "FlinkCopy.java")
    run_quietly(require_program("javac"), "-nowarn", "-cp", f"{jars}/*", "-d", str(classes), source)
    log4j = f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}"
    jvm = ("-Xmx768m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    return ["java", *jvm, *OPENED, log4j, "-cp", f"{classes}:{jars}/*", "FlinkCopy"]


def last_checkpoint(folder: Path) -> str:
    """Return the newest complete checkpoint of all jobs."""
    return str(max(folder.glob("*/chk-*/_metadata"), key=lambda path: path.stat().st_mtime_ns).parent)


@contextmanager
def running(job: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a job, and kill it at the end of the block."""
    with log.open("w") as file:
        process = subprocess.Popen(job, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def copied(node: Node) -> list[str]:
    return [(record.value or b"").decode() for record in node.consume("out", read_committed=True)]


def until_copied(node: Node, count: int, job: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 90
    while len(copied(node)) < count:
        assert job.poll() is None, log.read_text()[-4000:]
        assert time.monotonic() < deadline, log.read_text()[-4000:]
        time.sleep(0.1)


@pytest.mark.parametrize("naming", ["INCREMENTING", "POOLING"])
def test_a_topic_is_copied_exactly_once(command: list[str], tmp_path: Path, naming: str) -> None:
    """The strategies of transactional ids: one aborts by guessing open ids, the other lists transactions."""
    checkpoints, logs = tmp_path / "checkpoints", [tmp_path / "first.log", tmp_path / "second.log"]
    values = [f"{number}" for number in range(COUNT)]
    with Node(topics={"in": 4, "out": 4}) as node:
        node.produce("in", [(value, value) for value in values])
        job = [*command, node.bootstrap_servers, "in", "out", str(checkpoints), str(FAILS_AFTER), naming]
        with running(job, logs[0]) as first:
            until_copied(node, COUNT // 2, first, logs[0])
        with running([*job, last_checkpoint(checkpoints)], logs[1]) as second:
            until_copied(node, COUNT, second, logs[1])
        committed = copied(node)
        assert all("failing" in log.read_text().splitlines() for log in logs)
        assert len(node.consume("out")) > COUNT, "nothing was aborted, so nothing was tested"
        assert "Traceback" not in node.log
    assert sorted(committed) == sorted(values)
