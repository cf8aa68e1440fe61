"""Programs of Kafka that share a JVM behave as if each had a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.peers import PROJECT, KafkaNode, run_class, shared_jvm

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240), pytest.mark.usefixtures("kafka_peer")]

OWN_JVM = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("storage", ("info", "--no-such-option")),
        ("topics", ("--help",)),
        ("topics", ("--list",)),
        ("dump-log", ("--files", "/no/such/file.log")),
    ],
)
def test_output_and_exit_status_are_those_of_a_process(tool: str, arguments: tuple[str, ...]) -> None:
    shared = run_class(tool, *arguments, check=False)
    alone = run_class(tool, *arguments, jvm=OWN_JVM, check=False)
    assert shared.returncode == alone.returncode
    assert shared.stdout == alone.stdout
    assert shared.stderr.splitlines()[:1] == alone.stderr.splitlines()[:1]  # Later lines are frames of the caller.


def test_tools_that_run_at_the_same_time_do_not_mix_their_output() -> None:
    with ThreadPoolExecutor(4) as pool:
        printed = list(pool.map(lambda _: run_class("storage", "random-uuid").stdout.split(), range(12)))
    assert [len(words) for words in printed] == [1] * 12
    assert len({words[0] for words in printed}) == 12


def test_standard_input_reaches_the_tool_that_it_is_for(real_kafka: KafkaNode) -> None:
    at = ("--bootstrap-server", real_kafka.bootstrap_servers)

    def copied(topic: str) -> str:
        run_class("console-producer", *at, "--topic", topic, stdin=f"{topic}\n")
        options = ("--from-beginning", "--max-messages", "1", "--timeout-ms", "20000")
        return run_class("console-consumer", *at, "--topic", topic, *options).stdout

    topics = [f"java-programs-{number}" for number in range(3)]
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(copied, topics)) == [f"{topic}\n" for topic in topics]


def test_a_node_that_fails_ends_alone_and_shows_its_log(real_kafka: KafkaNode, tmp_path: Path) -> None:
    node = KafkaNode(tmp_path / "node", settings={"log.segment.bytes": "-7"})
    node.write_properties()
    with pytest.raises(AssertionError, match=r"log\.segment\.bytes"):
        node.start()
    assert "log.segment.bytes" not in real_kafka.printed()
    assert run_class("cluster", "cluster-id", "--bootstrap-server", real_kafka.bootstrap_servers).returncode == 0


def test_a_node_that_shares_its_jvm_stops_in_order_and_cannot_be_killed(tmp_path: Path) -> None:
    node = KafkaNode(tmp_path / "node")
    node.start()
    with pytest.raises(AssertionError, match="own_process"):
        node.kill()
    assert node.stop() == 143
    assert (tmp_path / "node" / "data" / ".kafka_cleanshutdown").exists()


def test_the_jvm_ends_with_its_parent_however_that_dies() -> None:
    script = (
        "import time\n"
        "from tests.peers import run_class, shared_jvm\n"
        "from tests.peers.java_programs import shared_programs\n"
        "with shared_programs():\n"
        "    run_class('storage', 'random-uuid')\n"
        "    print(shared_jvm().pid, flush=True)\n"
        "    time.sleep(600)\n"
    )
    path = os.pathsep.join([str(PROJECT), str(PROJECT / "src")])
    command = [sys.executable, "-c", script]
    with subprocess.Popen(
        command, cwd=PROJECT, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        jvm = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while _runs(jvm):
        assert time.monotonic() < deadline, f"the JVM {jvm} still runs"
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_tools_share_one_jvm() -> None:
    run_class("storage", "random-uuid")
    first = shared_jvm()
    run_class("storage", "random-uuid")
    assert first is not None
    assert first is shared_jvm()
