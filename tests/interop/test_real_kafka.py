"""The reference itself works: a real Kafka can be started, stopped, restarted and queried."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers import KafkaNode, free_ports, run_class

pytestmark = pytest.mark.interop


def test_free_ports_differ_from_each_other() -> None:
    assert len(set(free_ports(20))) == 20


@pytest.mark.long
@pytest.mark.timeout(240)
def test_a_real_kafka_keeps_its_topics_across_a_restart(kafka_peer: Path, tmp_path: Path) -> None:
    node = KafkaNode(tmp_path / "kafka")
    try:
        node.start()
        run_class("topics", "--bootstrap-server", node.bootstrap_servers, "--create", "--topic", "kept")
        assert node.stop() == 143  # 128 + SIGTERM: what a JVM returns after an orderly shutdown.
        node.start()
        listed = run_class("topics", "--bootstrap-server", node.bootstrap_servers, "--list").stdout.split()
    finally:
        node.end()
    assert listed == ["kept"]


def test_a_tool_that_fails_shows_what_it_printed(kafka_peer: Path) -> None:
    with pytest.raises(AssertionError, match="no-such-option"):
        run_class("storage", "info", "--no-such-option")
