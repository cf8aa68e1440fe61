"""librdkafka's own test suite, from the source that the npm package of Confluent's JavaScript client contains.

npm verifies the package with its registry; the hash here pins it. The build needs a C++ compiler and make, and takes
minutes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from tests.oracles.archives import unpack
from tests.peers import KAFKA_VERSION, lacking, peer_lib, require_peer
from tests.peers.fetched import fetched, require_program, run_quietly

__all__ = ["LibrdkafkaSuite", "Outcome"]

_PACKAGE = "@confluentinc/kafka-javascript@1.10.1"
"""With librdkafka 2.15.1."""
_SHA256 = "ada7d703bb1d3237e2292bfabf438d663b6160c9f1ac2a2406b5dc4257c81b66"
_SOURCE = "package/deps/librdkafka"
_WITHOUT = ("ssl", "sasl", "gssapi", "curl", "lz4-ext", "regex-ext")
_BUILD_S = 1800
_CONF = """metadata.broker.list={}
test.topic.random=true
test.timeout.multiplier=3
"""
_RUN_CLASS = """#!/bin/sh
exec java -Xmx256m -XX:TieredStopAtLevel=1 -cp "$KAFKA_PATH/libs/*:$CLASSPATH" "$@"
"""


class Outcome(NamedTuple):
    """``skipped`` is the reason of a test that did not run; ``printed`` is the end of the log."""

    is_passed: bool
    skipped: str | None
    printed: str


class LibrdkafkaSuite:
    def __init__(self) -> None:
        require_peer()
        for program in ("npm", "make", "g++", "javac"):
            require_program(program)
        self._folder = fetched("librdkafka-2.15.1", _build)

    def run(
        self, number: str, bootstrap_servers: str, folder: Path, *, timeout_s: float, protocol: str = "classic"
    ) -> Outcome:
        """Run the test with this number, alone, with its log in ``folder``. ``protocol`` is that of consumer groups."""
        (folder / "test.conf").write_text(_CONF.format(bootstrap_servers))
        log = folder / f"{number}.log"
        with log.open("w") as file:
            done = subprocess.run(
                [str(self._folder / "tests" / "test-runner"), "-p1", "-L"],  # Without those on its mock of a cluster.
                cwd=self._folder / "tests", env=self._environment(number, folder, protocol), timeout=timeout_s,
                stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=False,
            )  # fmt: skip
        printed = log.read_text(errors="replace")
        summary = printed.rpartition("SUMMARY")[2]
        skipped = [line for line in summary.splitlines() if "SKIPPED" in line and number in line]
        ran = [line for line in summary.splitlines() if "PASSED" in line and f" {number}_" in line]
        is_passed = done.returncode == 0 and bool(ran)
        return Outcome(is_passed, skipped[0] if skipped and not ran else None, printed[-4000:])

    def _environment(self, number: str, folder: Path, protocol: str) -> dict[str, str]:
        return {
            **os.environ,
            "TESTS": number,
            "TEST_KAFKA_VERSION": KAFKA_VERSION,
            "TEST_CONSUMER_GROUP_PROTOCOL": protocol,
            "RDKAFKA_TEST_CONF": str(folder / "test.conf"),
            "KAFKA_PATH": str(self._folder / "kafka"),
            "LD_LIBRARY_PATH": f"{self._folder / 'src'}:{self._folder / 'src-cpp'}",
        }


def _build(folder: Path) -> None:
    folder.mkdir(parents=True)
    run_quietly("npm", "pack", "--silent", "--pack-destination", str(folder), _PACKAGE, cwd=folder)
    [package] = folder.glob("*.tgz")
    if sha256(package.read_bytes()).hexdigest() != _SHA256:
        lacking(f"{_PACKAGE} is not the package that was pinned")
    unpacked = folder.with_suffix(".package")
    unpack(package, unpacked)
    shutil.copytree(unpacked / _SOURCE, folder, dirs_exist_ok=True)
    shutil.rmtree(unpacked)
    package.unlink()
    run_quietly("./configure", *(f"--disable-{feature}" for feature in _WITHOUT), cwd=folder)
    for arguments in (("libs",), ("-C", "tests", "test-runner")):
        run_quietly("make", "-j2", *arguments, cwd=folder, timeout_s=_BUILD_S)
    _lay_out_kafka(folder / "kafka")


def _lay_out_kafka(folder: Path) -> None:
    """Some tests run Java's producer, which they compile and start as in a distribution of Kafka."""
    (folder / "bin").mkdir(parents=True)
    (folder / "libs").symlink_to(peer_lib())
    script = folder / "bin" / "kafka-run-class.sh"
    script.write_text(_RUN_CLASS)
    script.chmod(0o755)
