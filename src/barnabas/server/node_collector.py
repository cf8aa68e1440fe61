"""Turns a node's counters into Prometheus metrics, with Kafka's names made Prometheus-like."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from barnabas.broker.lifecycle import BrokerState
from barnabas.common.errors import ErrorCode
from barnabas.network.api_stats import LATENCY_BUCKETS_S
from barnabas.protocol.api_keys import API_TABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prometheus_client.metrics_core import Metric

    from barnabas.server.node import Node

__all__ = ["NodeCollector"]

_BROKER_STATES = {
    BrokerState.STARTING: 1,
    BrokerState.FENCED: 2,
    BrokerState.RUNNING: 3,
    BrokerState.CONTROLLED_SHUTDOWN: 6,
    BrokerState.SHUT_DOWN: 7,
}


class NodeCollector(Collector):
    """Reads the node's counters on another thread: numbers may be a moment old, never torn."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def collect(self) -> Iterable[Metric]:
        yield from self._requests()
        yield from self._broker_topics()
        yield from self._partitions()
        yield from self._groups()
        yield from self._controller()

    def _requests(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "kafka_network_request_metrics_requests", "Requests answered.", labels=("request", "version")
        )
        errors = CounterMetricFamily(
            "kafka_network_request_metrics_errors", "Top-level errors answered.", labels=("request", "error")
        )
        latency = HistogramMetricFamily(
            "kafka_network_request_metrics_total_time_seconds",
            "From the whole request to its answer, waiting included.",
            labels=("request",),
        )
        received = CounterMetricFamily(
            "kafka_network_request_metrics_request_bytes", "Bytes of requests.", labels=("request",)
        )
        sent = CounterMetricFamily(
            "kafka_network_request_metrics_response_bytes", "Bytes of responses.", labels=("request",)
        )
        for key, stats in list(self._node.broker_stats.items()):
            if not stats.requests:
                continue
            name = API_TABLE[key].name
            for version, count in list(stats.versions.items()):
                requests.add_metric((name, str(version)), count)
            for code, count in list(stats.errors.items()):
                errors.add_metric((name, ErrorCode(code).name), count)
            total, buckets = 0, []
            for bound, count in zip((*map(str, LATENCY_BUCKETS_S), "+Inf"), list(stats.buckets), strict=True):
                total += count
                buckets.append((bound, total))
            latency.add_metric((name,), buckets, stats.time_s)
            received.add_metric((name,), stats.request_bytes)
            sent.add_metric((name,), stats.response_bytes)
        yield from (requests, errors, latency, received, sent)
        connections = GaugeMetricFamily(
            "kafka_server_socket_server_connection_count", "Open connections.", labels=("listener",)
        )
        created = CounterMetricFamily(
            "kafka_server_socket_server_connection_creation", "Connections accepted.", labels=("listener",)
        )
        for name, listener in list(self._node.listeners.items()):
            connections.add_metric((name,), len(listener.connections))
            created.add_metric((name,), listener.connections_created)
        yield connections
        yield created

    def _broker_topics(self) -> Iterator[Metric]:
        replicas = self._node.replicas
        yield CounterMetricFamily(
            "kafka_server_broker_topic_metrics_bytes_in", "Bytes appended by clients.", value=replicas.bytes_in
        )
        yield CounterMetricFamily(
            "kafka_server_broker_topic_metrics_bytes_out", "Bytes fetched by clients.", value=replicas.bytes_out
        )
        yield CounterMetricFamily(
            "kafka_server_broker_topic_metrics_batches_in", "Record batches appended.", value=replicas.batches_in
        )

    def _partitions(self) -> Iterator[Metric]:
        replicas = self._node.replicas
        partitions = list(replicas.partitions.values())
        yield GaugeMetricFamily(
            "kafka_server_replica_manager_partition_count", "Replicas on this broker.", value=len(partitions)
        )
        yield GaugeMetricFamily(
            "kafka_server_replica_manager_leader_count",
            "Partitions that this broker leads.",
            value=sum(partition.leader_id == replicas.broker_id for partition in partitions),
        )
        size = sum(p.log_or_none.size_bytes() for p in partitions if p.log_or_none is not None)
        yield GaugeMetricFamily("kafka_log_size_bytes", "Bytes of all partition logs.", value=size)
        sessions = self._node.broker.fetch_sessions
        yield GaugeMetricFamily(
            "kafka_server_fetch_session_cache_num_incremental_fetch_sessions", "Fetch sessions.", value=len(sessions)
        )
        yield CounterMetricFamily(
            "kafka_server_fetch_session_cache_incremental_fetch_session_evictions",
            "Fetch sessions that had to make room.",
            value=sessions.evictions,
        )
        yield GaugeMetricFamily(
            "kafka_server_broker_state", "3 is running.", value=_BROKER_STATES[self._node.lifecycle.state]
        )

    def _groups(self) -> Iterator[Metric]:
        groups = GaugeMetricFamily(
            "kafka_coordinator_group_group_count", "Groups by state.", labels=("protocol", "state")
        )
        stats = self._node.groups.coordinator.stats()
        for state, count in sorted(stats.groups_by_state.items()):
            groups.add_metric(("classic", state), count)
        yield groups
        yield GaugeMetricFamily(
            "kafka_coordinator_group_num_offsets", "Committed offsets that are kept.", value=stats.offset_count
        )
        for name, text, value in (
            ("offset_commit", "Offsets committed.", stats.offset_commit_count),
            ("offset_expiration", "Offsets that expired.", stats.offset_expiration_count),
            ("offset_deletion", "Offsets removed for any reason.", stats.offset_deletion_count),
            ("group_completed_rebalance", "Rebalances completed.", stats.completed_rebalance_count),
        ):
            yield CounterMetricFamily(f"kafka_coordinator_group_{name}", text, value=value)

    def _controller(self) -> Iterator[Metric]:
        image = self._node.metadata.image
        brokers = list(image.cluster.brokers.values())
        values = (
            ("active_controller_count", "1 on the active controller.", int(self._node.controller.is_active)),
            ("fenced_broker_count", "Registered brokers that are fenced.", sum(b.fenced for b in brokers)),
            ("active_broker_count", "Registered brokers that are not.", sum(not b.fenced for b in brokers)),
            ("global_topic_count", "Topics.", len(image.topics)),
            ("global_partition_count", "Partitions.", image.topics.partition_count()),
            ("last_applied_record_offset", "The last offset in the image.", image.offset),
        )
        for name, text, value in values:
            yield GaugeMetricFamily(f"kafka_controller_kafka_controller_{name}", text, value=value)
        high_watermark = self._node.driver.high_watermark
        yield GaugeMetricFamily(
            "kafka_server_raft_metrics_high_watermark",
            "High watermark of the metadata log; -1 unknown.",
            value=-1 if high_watermark is None else high_watermark,
        )
