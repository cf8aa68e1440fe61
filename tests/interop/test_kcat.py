"""kcat's balanced consumers (``-G``) share a topic of our node and go on where they have committed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from barnabas.testing import Node
from tests.peers.fetched import require_program
from tests.peers.quorums import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

TOPIC, PARTITIONS, COUNT = "orders", 4, 400
FROM_THE_START = ("-X", "auto.offset.reset=earliest", "-X", "topic.auto.offset.reset=earliest")


@pytest.fixture(scope="module")
def kcat() -> str:
    return require_program("kcat")


@pytest.fixture
def node() -> Iterator[Node]:
    settings = {"group.initial.rebalance.delay.ms": "3000"}
    with Node(topics={TOPIC: PARTITIONS}, settings=settings) as node:
        yield node
        assert "Traceback" not in node.log


def produce(kcat: str, node: Node, numbers: range) -> None:
    """Each record has its number as its key too."""
    lines = "".join(f"{number}:{number}\n" for number in numbers)
    command = [kcat, "-b", node.bootstrap_servers, "-P", "-t", TOPIC, "-K:"]
    subprocess.run(command, input=lines, text=True, check=True, timeout=60)


class Member:
    """A process that writes each record to a file, as ``partition:number``."""

    def __init__(self, kcat: str, node: Node, file: Path) -> None:
        self._file = file
        command = [kcat, "-b", node.bootstrap_servers, *FROM_THE_START, "-u", "-f", "%p:%s\n", "-G", "workers", TOPIC]
        with file.open("wb") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL)

    @property
    def records(self) -> list[tuple[int, int]]:
        """Partitions and numbers, without a line that is still incomplete."""
        lines = self._file.read_text().rpartition("\n")[0].splitlines()
        return [(int(partition), int(number)) for partition, number in (line.split(":") for line in lines)]

    def __enter__(self) -> Member:
        return self

    def __exit__(self, *error: object) -> None:
        """It leaves the group and commits on SIGTERM."""
        self._process.terminate()
        self._process.wait(60)


def test_two_members_share_the_partitions_and_a_third_goes_on(kcat: str, node: Node, tmp_path: Path) -> None:
    produce(kcat, node, range(COUNT))
    with ExitStack() as exits:
        members = [exits.enter_context(Member(kcat, node, tmp_path / name)) for name in ("first", "second")]
        wait_until(lambda: sum(len(m.records) for m in members) >= COUNT, what="every record", timeout_s=90)
        parts = [{partition for partition, _ in member.records} for member in members]
    assert sorted(number for member in members for _, number in member.records) == [*range(COUNT)]
    assert parts[0] | parts[1] == set(range(PARTITIONS))
    assert not parts[0] & parts[1]
    produce(kcat, node, range(COUNT, COUNT + 50))
    with Member(kcat, node, tmp_path / "third") as third:
        wait_until(lambda: len(third.records) >= 50, what="the new records", timeout_s=90)
    assert sorted(number for _, number in third.records) == [*range(COUNT, COUNT + 50)]
