"""Kafka Streams with ``group.protocol=streams`` (KIP-1071): the coordinator assigns tasks and creates topics."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from barnabas.testing import Node
from tests.interop.streams_load import PARTITIONS, TOPICS, Load, await_everything, random_of_run
from tests.peers.streams_application import StreamsApplication

pytestmark = [pytest.mark.interop, pytest.mark.ecosystem, pytest.mark.timeout(400)]

NODE_SETTINGS = {
    "group.streams.min.session.timeout.ms": "5000",
    "group.streams.session.timeout.ms": "5000",  # How long a killed instance keeps its tasks.
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "500",
}
SETTINGS = {
    "group.protocol": "streams",
    "commit.interval.ms": "100",
    "num.stream.threads": "2",
    "repartition.purge.interval.ms": "1000",
}


def test_counts_and_joins_are_exact_when_the_application_is_killed(tmp_path: Path) -> None:
    with Node(topics=dict.fromkeys(TOPICS, PARTITIONS), settings=NODE_SETTINGS) as node, ExitStack() as stack:
        load = Load(node.bootstrap_servers, random_of_run())
        load.fill_table()
        load.write(200)
        application = StreamsApplication(tmp_path, node.bootstrap_servers, {**SETTINGS, "replication.factor": "1"})
        stack.callback(application.kill)
        application.start(timeout_s=120)
        await_everything(node.bootstrap_servers, load)
        load.write(300)
        application.kill()  # With records that it has read but not finished.
        application.start(timeout_s=120)
        load.write(100)
        await_everything(node.bootstrap_servers, load)
        assert application.restored() > 0
        assert not application.failures()
        assert application.stop() == 143
        assert "closed: true" in application.printed()
        assert "Traceback" not in node.log
