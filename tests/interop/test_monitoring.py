"""Every metric and label in the alert rules and dashboards exists in what a running node and worker expose."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from barnabas.clients.admin.client import AdminClient
from barnabas.clients.admin.topics import NewTopic
from barnabas.server.metrics.collector import METRICS
from barnabas.testing import Node
from tests.contracts.monitoring_files import OF_PROMETHEUS, Expression, expressions
from tests.peers.in_process_workers import TaskLedger, in_process_worker
from tests.peers.node_process import free_ports

pytestmark = pytest.mark.interop

CONNECT_SPARK = Path(__file__).resolve().parents[2] / "src" / "barnabas" / "connect_spark"
SINK = {
    "connector.class": "MockSinkConnector",
    "topics": "watched",
    "tasks.max": "1",
    "barnabas.tasks.autoscale.enable": "true",
}
SOURCE = {"connector.class": "MockSourceConnector", "tasks.max": "1"}
WEBHOOK: dict[str, Any] = {"barnabas.connect.webhook.url": "http://127.0.0.1:9/"}


@dataclass
class Exposed:
    """The labels of each sample by its name."""

    node: dict[str, set[str]]
    worker: dict[str, set[str]]

    def labels(self, name: str) -> set[str] | None:
        """Return the labels of a metric; None if nothing exposes it."""
        if name == "up":
            return set(OF_PROMETHEUS)
        found = [samples[name] for samples in (self.node, self.worker) if name in samples]
        return set.union(*found, OF_PROMETHEUS) if found else None


def _samples(text: str) -> dict[str, set[str]]:
    """Return the labels by the name of the sample. A family without samples has the name of its first one."""
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        suffix = {"counter": "_total", "histogram": "_bucket"}.get(family.type, "")
        found[family.name + suffix] = set()
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def _reported_by_connectors() -> dict[str, set[str]]:
    """Return the figures that connectors report of their own, which exist only while they run."""
    text = "\n".join(path.read_text() for path in sorted(CONNECT_SPARK.rglob("*.py")))
    names = re.findall(r"\.report\(\s*\"(\w+)\"", text)
    return {f"kafka_connect_connector_task_metrics_{name}": {"connector", "task"} for name in names}


def _runs(status: Any) -> bool:
    return [task["state"] for task in status["tasks"]] == ["RUNNING"]


async def _worker_page(servers: str) -> str:
    async with AdminClient(servers) as admin, in_process_worker(servers, "watched", TaskLedger(), **WEBHOOK) as worker:
        (await admin.create_topics([NewTopic("watched", 1)], wait=True)).raise_for_errors()
        for name, config in (("sink", SINK), ("source", SOURCE)):
            (await worker.request("PUT", f"/connectors/{name}/config", config)).raise_for_status()
            await worker.until(f"/connectors/{name}/status", _runs)
        await worker.running._sink_lags.sample()
        return (await worker.client.get(f"{worker.url}/metrics")).text


@pytest.fixture(scope="module")
def exposed() -> Iterator[Exposed]:
    (port,) = free_ports(1)
    with Node(settings={"barnabas.metrics.listener": f"127.0.0.1:{port}"}) as node:
        worker_page = asyncio.run(asyncio.wait_for(_worker_page(node.bootstrap_servers), 60))
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            of_node = _samples(answer.read().decode())
        for family, info in METRICS.items():  # A test of metrics compares these labels with a node's.
            for name in [name for name in of_node if name.startswith(family)]:
                of_node[name] |= {*info.labels, *(("le",) if info.kind == "histogram" else ())}
        yield Exposed(of_node, _samples(worker_page) | _reported_by_connectors())


def _problems(exposed: Exposed, expression: Expression) -> Iterator[str]:
    for metric in expression.metrics:
        labels = exposed.labels(metric.name)
        if labels is None:
            yield f"{expression.where}: nothing exposes {metric.name}"
        elif not metric.labels <= labels:
            yield f"{expression.where}: {metric.name} lacks {', '.join(sorted(metric.labels - labels))}"


def test_the_metrics_and_labels_of_every_expression_exist(exposed: Exposed) -> None:
    found = list(expressions())
    assert len(found) > 100
    assert [problem for expression in found for problem in _problems(exposed, expression)] == []


def test_both_pages_have_metrics_of_their_own(exposed: Exposed) -> None:
    assert "kafka_server_broker_state" in exposed.node
    assert exposed.worker["barnabas_connect_sink_lag_records"] == {"connector"}
    assert exposed.worker["barnabas_connect_webhook_dropped_total"] == {"reason"}
    assert "kafka_connect_connector_task_metrics_slot_lag_bytes" in exposed.worker
