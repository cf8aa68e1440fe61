"""Turns a node's counters into Prometheus metrics, with Kafka's names in Prometheus form.

``METRICS`` names all of them; ``docs/reference/metrics.md`` is written from it.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from barnabas.broker.lifecycle import BrokerState
from barnabas.common.errors import ErrorCode
from barnabas.network.request_metrics import LATENCY_BUCKETS_S
from barnabas.protocol.api_keys import API_TABLE
from barnabas.security.authorizer.authorizer import ACL_COUNT_UNKNOWN
from barnabas.server.metrics.controller import CONTROLLER_METRICS, controller_values
from barnabas.server.metrics.coordinators import (
    GROUP_COORDINATOR_METRICS,
    GROUP_LOAD_TIME,
    SHARE_COORDINATOR_METRICS,
    group_coordinator_values,
    share_coordinator_histograms,
    share_coordinator_values,
)
from barnabas.server.metrics.log_dirs import LOG_DIR_METRICS, log_dir_values
from barnabas.server.metrics.metric_info import MetricInfo
from barnabas.server.metrics.replication import REPLICATION_METRICS, replication_values
from barnabas.server.metrics.share_groups import SHARE_GROUP_METRICS, share_group_histograms, share_group_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prometheus_client.metrics_core import Metric

    from barnabas.broker.forwarding_stats import Histogram, Latencies
    from barnabas.server.broker_part import BrokerPart
    from barnabas.server.node import Node

__all__ = ["METRICS", "MetricInfo", "NodeCollector"]

_BROKER_STATES = {
    BrokerState.STARTING: 1,
    BrokerState.FENCED: 2,
    BrokerState.RUNNING: 3,
    BrokerState.CONTROLLED_SHUTDOWN: 6,
    BrokerState.SHUT_DOWN: 7,
}


METRICS: dict[str, MetricInfo] = {
    info.name: info
    for info in (
        MetricInfo("kafka_network_request_metrics_requests", "counter", "Requests answered.", ("request", "version")),
        MetricInfo(
            "kafka_network_request_metrics_errors",
            "counter",
            "Error codes in responses; for Metadata only the top-level error.",
            ("request", "error"),
        ),
        MetricInfo(
            "kafka_network_request_metrics_total_time_seconds",
            "histogram",
            "Time from the complete request to its response, waits included.",
            ("request",),
        ),
        MetricInfo("kafka_network_request_metrics_request_bytes", "counter", "Bytes of requests.", ("request",)),
        MetricInfo("kafka_network_request_metrics_response_bytes", "counter", "Bytes of responses.", ("request",)),
        MetricInfo("kafka_server_socket_server_connection_count", "gauge", "Open connections.", ("listener",)),
        MetricInfo("kafka_server_socket_server_connection_creation", "counter", "Connections accepted.", ("listener",)),
        MetricInfo(
            "barnabas_connections_waiting",
            "gauge",
            "Connections that are not read because max.connections are open.",
            ("listeners",),
        ),
        MetricInfo(
            "barnabas_quota_throttled_requests",
            "counter",
            "Answers that throttled a client over a quota (Produce, Fetch, Request), and entities not yet created or "
            "deleted because of a quota (ControllerMutation).",
            ("quota",),
        ),
        MetricInfo(
            "barnabas_quota_throttle_seconds",
            "counter",
            "Time for which clients over a quota were throttled.",
            ("quota",),
        ),
        MetricInfo(
            "kafka_server_socket_server_successful_authentication",
            "counter",
            "Logins, by SASL mechanism; SSL counts TLS handshakes on listeners of that protocol.",
            ("listener", "mechanism"),
        ),
        MetricInfo(
            "kafka_server_socket_server_failed_authentication",
            "counter",
            "Failed logins, by SASL mechanism (empty before one is chosen); SSL counts failed TLS handshakes.",
            ("listener", "mechanism"),
        ),
        MetricInfo(
            "kafka_server_socket_server_successful_reauthentication",
            "counter",
            "Logins on connections that were logged in (KIP-368).",
            ("listener", "mechanism"),
        ),
        MetricInfo(
            "kafka_server_socket_server_failed_reauthentication",
            "counter",
            "Failed logins on connections that were logged in.",
            ("listener", "mechanism"),
        ),
        MetricInfo(
            "kafka_server_socket_server_successful_authentication_no_reauth",
            "counter",
            "Logins of clients that are too old to log in again on the same connection.",
            ("listener", "mechanism"),
        ),
        MetricInfo(
            "kafka_server_socket_server_expired_connections_killed",
            "counter",
            "Connections closed because their login had expired.",
            ("listener",),
        ),
        MetricInfo(
            "barnabas_tls_certificate_not_after_timestamp_seconds",
            "gauge",
            "Expiry time of the listener's certificate, in seconds since 1970.",
            ("listener",),
        ),
        MetricInfo("barnabas_tls_reloads", "counter", "Reloads of changed key stores and trust stores.", ("listener",)),
        MetricInfo("kafka_server_broker_topic_metrics_bytes_in", "counter", "Bytes of records appended."),
        MetricInfo("kafka_server_broker_topic_metrics_bytes_out", "counter", "Bytes of records fetched."),
        MetricInfo("kafka_server_broker_topic_metrics_batches_in", "counter", "Record batches appended."),
        MetricInfo("kafka_server_replica_manager_partition_count", "gauge", "Replicas on this broker."),
        MetricInfo("kafka_server_replica_manager_leader_count", "gauge", "Partitions that this broker leads."),
        *REPLICATION_METRICS,
        *LOG_DIR_METRICS,
        MetricInfo("kafka_log_size_bytes", "gauge", "Bytes of all partition logs."),
        MetricInfo("kafka_log_num_log_segments", "gauge", "Segments of all partition logs."),
        MetricInfo("kafka_server_fetch_session_cache_num_incremental_fetch_sessions", "gauge", "Fetch sessions."),
        MetricInfo(
            "kafka_server_fetch_session_cache_incremental_fetch_session_evictions",
            "counter",
            "Fetch sessions that were evicted.",
        ),
        MetricInfo(
            "kafka_server_broker_state",
            "gauge",
            "1 starting, 2 fenced, 3 running, 6 leaving the cluster, 7 stopped.",
        ),
        *GROUP_COORDINATOR_METRICS,
        *SHARE_COORDINATOR_METRICS,
        *SHARE_GROUP_METRICS,
        MetricInfo("kafka_controller_kafka_controller_active_controller_count", "gauge", "1 on the active controller."),
        MetricInfo(
            "kafka_controller_kafka_controller_fenced_broker_count", "gauge", "Registered brokers that are fenced."
        ),
        MetricInfo(
            "kafka_controller_kafka_controller_active_broker_count", "gauge", "Registered brokers that are not fenced."
        ),
        *CONTROLLER_METRICS,
        MetricInfo(
            "barnabas_event_loop_longest_turn_seconds",
            "gauge",
            "The longest time in the last one to two minutes in which the node did not read sockets.",
        ),
        MetricInfo("barnabas_event_loop_long_turns", "counter", "Turns of the event loop that took more than 20 ms."),
        MetricInfo(
            "barnabas_controller_longest_decision_seconds",
            "gauge",
            "The longest of each kind in the last one to two minutes: a request by its API, a tick (sessions, "
            "elections, later turns of long decisions), an append to the metadata log, the delivery of a commit.",
            ("decision",),
        ),
        MetricInfo("kafka_controller_kafka_controller_global_topic_count", "gauge", "Topics of the cluster."),
        MetricInfo("kafka_controller_kafka_controller_global_partition_count", "gauge", "Partitions of the cluster."),
        MetricInfo(
            "kafka_controller_kafka_controller_last_applied_record_offset",
            "gauge",
            "The last offset in the metadata image.",
        ),
        MetricInfo(
            "kafka_server_raft_metrics_high_watermark",
            "gauge",
            "High watermark of the metadata log; -1 while it is not known.",
        ),
        MetricInfo("kafka_server_raft_metrics_log_end_offset", "gauge", "End of this node's metadata log."),
        MetricInfo("kafka_server_raft_metrics_current_epoch", "gauge", "Epoch of the metadata quorum."),
        MetricInfo(
            "kafka_server_raft_metrics_current_leader",
            "gauge",
            "Id of the controller that leads the metadata quorum; -1 while none is known.",
        ),
        MetricInfo("kafka_server_raft_metrics_number_of_voters", "gauge", "Voters of the metadata quorum."),
        MetricInfo(
            "kafka_server_num_requests_forwarding_to_controller",
            "counter",
            "Requests of clients passed on to a controller in another process (KIP-590); after 100 client ids the "
            "others are counted as (other).",
            ("client_id",),
        ),
        MetricInfo(
            "kafka_server_forwarding_manager_queue_length",
            "gauge",
            "Requests that wait to be forwarded to the controller (KIP-938).",
        ),
        MetricInfo(
            "kafka_server_forwarding_manager_queue_time_seconds",
            "histogram",
            "Time that requests waited for a controller, retries included.",
        ),
        MetricInfo(
            "kafka_server_forwarding_manager_remote_time_seconds",
            "histogram",
            "Time from sending a request to the controller's response.",
        ),
        MetricInfo("barnabas_forwarding_timeouts", "counter", "Requests that no controller answered in time."),
        MetricInfo(
            "kafka_server_authorizer_acl_count",
            "gauge",
            "ACLs that the authorizer decides by; -1 for a custom authorizer that does not report them.",
        ),
        MetricInfo("kafka_server_authorizer_authorization_request", "counter", "Decisions in all."),
        MetricInfo("kafka_server_authorizer_authorization_allowed", "counter", "Decisions that allowed access."),
        MetricInfo("kafka_server_authorizer_authorization_denied", "counter", "Decisions that denied access."),
        MetricInfo(
            "barnabas_access_audit_decisions", "counter", "Decisions that the access audit received.", ("decision",)
        ),
        MetricInfo("barnabas_access_audit_events", "counter", "Events that the access audit wrote.", ("to",)),
        MetricInfo("barnabas_access_audit_dropped", "counter", "Decisions that the access audit dropped."),
        MetricInfo("barnabas_policy_questions", "counter", "Requests that policies had to decide.", ("policy",)),
        MetricInfo(
            "barnabas_policy_refusals", "counter", "Requests that policies refused (POLICY_VIOLATION).", ("policy",)
        ),
        MetricInfo("barnabas_policy_failures", "counter", "Exceptions that policies raised.", ("policy",)),
        MetricInfo("barnabas_policy_timeouts", "counter", "Decisions that policies did not make in time.", ("policy",)),
        MetricInfo(
            "barnabas_policy_hanging",
            "gauge",
            "1 while a policy does not answer, and every change that it must decide is refused.",
            ("policy",),
        ),
    )
}
"""Metrics by name."""

_FAMILIES = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily, "histogram": HistogramMetricFamily}


def _family(name: str) -> Any:
    info = METRICS[name]
    return _FAMILIES[info.kind](info.name, info.text, labels=info.labels)


def _single(name: str, value: float) -> Metric:
    family: Metric = _family(name)
    family.add_metric((), value)  # type: ignore[attr-defined]
    return family


def _add_latencies(family: Any, latencies: Latencies) -> None:
    _add_histogram(family, (), latencies, 1_000)


def _add_histogram(family: Any, labels: tuple[str, ...], histogram: Histogram, units: int) -> None:
    """``units`` of the histogram are one of the metric."""
    total, buckets = 0, []
    bounds = (*(str(bound / units) for bound in histogram.bounds), "+Inf")
    for bound, count in zip(bounds, list(histogram.buckets), strict=True):
        total += count
        buckets.append((bound, total))
    family.add_metric(labels, buckets, histogram.total / units)


class NodeCollector(Collector):
    """Reads the node's counters on another thread. Numbers may be slightly old, but are never torn."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def collect(self) -> Iterable[Metric]:
        yield from self._requests()
        yield from self._connections()
        yield from self._quotas()
        yield from self._authentications()
        if self._node.broker_part is not None:
            yield from self._broker_topics(self._node.broker_part)
            yield from self._partitions(self._node.broker_part)
            yield from self._groups(self._node.broker_part)
            yield from self._share_groups(self._node.broker_part)
            yield from self._forwarding()
        yield from self._controller()
        yield from self._authorizer()
        yield from self._access_audit()
        yield from self._policies()

    def _requests(self) -> Iterator[Metric]:
        broker = self._node.broker_part
        prefix = "kafka_network_request_metrics"
        requests, errors = _family(f"{prefix}_requests"), _family(f"{prefix}_errors")
        latency = _family(f"{prefix}_total_time_seconds")
        received, sent = _family(f"{prefix}_request_bytes"), _family(f"{prefix}_response_bytes")
        for key, stats in [] if broker is None else list(broker.stats.items()):
            name = API_TABLE[key].name
            for code, count in list(stats.errors.items()):
                errors.add_metric((name, ErrorCode(code).name), count)
            if not stats.requests:
                continue
            for version, count in list(stats.versions.items()):
                requests.add_metric((name, str(version)), count)
            total, buckets = 0, []
            for bound, count in zip((*map(str, LATENCY_BUCKETS_S), "+Inf"), list(stats.buckets), strict=True):
                total += count
                buckets.append((bound, total))
            latency.add_metric((name,), buckets, stats.time_s)
            received.add_metric((name,), stats.request_bytes)
            sent.add_metric((name,), stats.response_bytes)
        yield from (requests, errors, latency, received, sent)

    def _connections(self) -> Iterator[Metric]:
        open_now = _family("kafka_server_socket_server_connection_count")
        created = _family("kafka_server_socket_server_connection_creation")
        for name, listener in list(self._node.listeners.by_name.items()):
            open_now.add_metric((name,), len(listener.connections))
            created.add_metric((name,), listener.connections_created)
        yield from (open_now, created)
        waiting = _family("barnabas_connections_waiting")
        for kind, part in (("broker", self._node.broker_part), ("controller", self._node.controller_part)):
            if part is not None:
                waiting.add_metric((kind,), part.connections.waiting_count)
        yield waiting

    def _quotas(self) -> Iterator[Metric]:
        requests = _family("barnabas_quota_throttled_requests")
        seconds = _family("barnabas_quota_throttle_seconds")
        controller = self._node.controller_part
        for quota, (count, throttled_ms) in self._node.client_quotas.throttled().items():
            requests.add_metric((quota,), count)
            seconds.add_metric((quota,), throttled_ms / 1000)
        if controller is not None:
            requests.add_metric(("ControllerMutation",), controller.controller.mutation_quotas.refused_count)
        yield from (requests, seconds)

    def _authentications(self) -> Iterator[Metric]:
        succeeded = _family("kafka_server_socket_server_successful_authentication")
        failed = _family("kafka_server_socket_server_failed_authentication")
        again = _family("kafka_server_socket_server_successful_reauthentication")
        failed_again = _family("kafka_server_socket_server_failed_reauthentication")
        for_good = _family("kafka_server_socket_server_successful_authentication_no_reauth")
        killed = _family("kafka_server_socket_server_expired_connections_killed")
        expiry = _family("barnabas_tls_certificate_not_after_timestamp_seconds")
        reloads = _family("barnabas_tls_reloads")
        for name, listener in list(self._node.listeners.by_name.items()):
            security = listener.security
            if security is None:
                continue
            if security.tls is not None:
                succeeded.add_metric((name, "SSL"), listener.authentications_succeeded)
                failed.add_metric((name, "SSL"), listener.authentications_failed)
                expiry.add_metric((name,), security.tls.expires_at_s)
                reloads.add_metric((name,), security.tls.reload_count)
            if security.sasl is not None:
                for mechanism, stats in list(security.sasl.stats.mechanisms.items()):
                    succeeded.add_metric((name, mechanism), stats.successful)
                    failed.add_metric((name, mechanism), stats.failed)
                    for_good.add_metric((name, mechanism), stats.successful_without_reauthentication)
                    again.add_metric((name, mechanism), stats.reauthentications)
                    failed_again.add_metric((name, mechanism), stats.failed_reauthentications)
                killed.add_metric((name,), security.sasl.stats.expired_connections_killed)
        yield from (succeeded, failed, for_good, again, failed_again, killed, expiry, reloads)

    def _broker_topics(self, broker: BrokerPart) -> Iterator[Metric]:
        replicas = broker.replicas
        yield _single("kafka_server_broker_topic_metrics_bytes_in", replicas.bytes_in)
        yield _single("kafka_server_broker_topic_metrics_bytes_out", replicas.bytes_out)
        yield _single("kafka_server_broker_topic_metrics_batches_in", replicas.batches_in)

    def _partitions(self, broker: BrokerPart) -> Iterator[Metric]:
        replicas = broker.replicas
        partitions = list(replicas.partitions.values())
        led = sum(partition.leader_id == replicas.broker_id for partition in partitions)
        logs = [partition.log_or_none for partition in partitions if partition.log_or_none is not None]
        yield _single("kafka_server_replica_manager_partition_count", len(partitions))
        yield _single("kafka_server_replica_manager_leader_count", led)
        for name, value in (*replication_values(replicas, broker.fetchers.made), *log_dir_values(replicas)):
            yield _single(name, value)
        yield _single("kafka_log_size_bytes", sum(log.size_bytes() for log in logs))
        yield _single("kafka_log_num_log_segments", sum(len(log.segments) for log in logs))
        sessions = broker.broker.fetch_sessions
        prefix = "kafka_server_fetch_session_cache"
        yield _single(f"{prefix}_num_incremental_fetch_sessions", len(sessions))
        yield _single(f"{prefix}_incremental_fetch_session_evictions", sessions.evictions)
        yield _single("kafka_server_broker_state", _BROKER_STATES[broker.lifecycle.state])

    def _groups(self, broker: BrokerPart) -> Iterator[Metric]:
        families = {info.name: _family(info.name) for info in GROUP_COORDINATOR_METRICS}
        for name, labels, value in group_coordinator_values(broker.groups.coordinator):
            families[name].add_metric(labels, value)
        _add_latencies(families[GROUP_LOAD_TIME], broker.groups.load_times)
        yield from families.values()

    def _share_groups(self, broker: BrokerPart) -> Iterator[Metric]:
        state, share_partitions = broker.share_state, broker.share_partitions.made
        families = {info.name: _family(info.name) for info in (*SHARE_COORDINATOR_METRICS, *SHARE_GROUP_METRICS)}
        for name, labels, value in chain(share_coordinator_values(state), share_group_values(share_partitions)):
            families[name].add_metric(labels, value)
        for name, labels, histogram, units in chain(
            share_coordinator_histograms(state), share_group_histograms(share_partitions)
        ):
            _add_histogram(families[name], labels, histogram, units)
        yield from families.values()

    def _forwarding(self) -> Iterator[Metric]:
        remote = self._node.channel.remote
        clients = _family("kafka_server_num_requests_forwarding_to_controller")
        prefix = "kafka_server_forwarding_manager"
        queue_time, remote_time = _family(f"{prefix}_queue_time_seconds"), _family(f"{prefix}_remote_time_seconds")
        if remote is not None:
            stats = remote.stats
            for client_id, count in list(stats.requests_by_client.items()):
                clients.add_metric((client_id,), count)
            _add_latencies(queue_time, stats.queue_times)
            _add_latencies(remote_time, stats.remote_times)
        yield from (clients, queue_time, remote_time)
        yield _single(f"{prefix}_queue_length", 0 if remote is None else remote.queue_length)
        yield _single("barnabas_forwarding_timeouts", 0 if remote is None else remote.stats.timed_out)

    def _authorizer(self) -> Iterator[Metric]:
        """Yield zeros without an authorizer. A custom authorizer that keeps no ACLs has the count -1, as in KIP-801."""
        authorizer = self._node.core.authorizer
        acls = authorizer.acl_authorizer
        allowed, denied = getattr(authorizer, "allowed_count", 0), getattr(authorizer, "denied_count", 0)
        prefix = "kafka_server_authorizer"
        unknown = 0 if authorizer.is_absent else ACL_COUNT_UNKNOWN
        yield _single(f"{prefix}_acl_count", unknown if acls is None else acls.acl_count)
        yield _single(f"{prefix}_authorization_request", allowed + denied)
        yield _single(f"{prefix}_authorization_allowed", allowed)
        yield _single(f"{prefix}_authorization_denied", denied)

    def _policies(self) -> Iterator[Metric]:
        names = ("questions", "refusals", "failures", "timeouts", "hanging")
        families = [_family(f"barnabas_policy_{name}") for name in names]
        controller = self._node.controller_part
        policies = None if controller is None else controller.policies
        for worker in () if policies is None else policies.workers:
            kind = worker.setting.split(".", 1)[0]
            counts = (worker.asked, worker.refused, worker.failed, worker.timed_out, int(worker.is_hanging))
            for family, count in zip(families, counts, strict=True):
                family.add_metric((kind,), count)
        yield from families

    def _access_audit(self) -> Iterator[Metric]:
        """Yield metrics of the access audit. They are zero if nothing is audited, so that alarms find them."""
        service = self._node.audit
        decisions, events = _family("barnabas_access_audit_decisions"), _family("barnabas_access_audit_events")
        decisions.add_metric(("allowed",), 0 if service is None else service.audit.allowed_count)
        decisions.add_metric(("denied",), 0 if service is None else service.audit.denied_count)
        events.add_metric(("log",), 0 if service is None else service.lines_written)
        events.add_metric(("topic",), 0 if service is None else service.records_written)
        yield from (decisions, events)
        yield _single("barnabas_access_audit_dropped", 0 if service is None else service.dropped)

    def _turns(self) -> Iterator[Metric]:
        turns = self._node.core.loop_turns
        yield _single("barnabas_event_loop_longest_turn_seconds", 0 if turns is None else turns.longest_s)
        yield _single("barnabas_event_loop_long_turns", 0 if turns is None else turns.long_turns)
        decisions = _family("barnabas_controller_longest_decision_seconds")
        for kind, seconds in self._node.core.turn_times.longest_s().items():
            decisions.add_metric([kind], seconds)
        yield decisions

    def _controller(self) -> Iterator[Metric]:
        core, controller = self._node.core, self._node.controller_part
        image = core.metadata.image
        brokers = list(image.cluster.brokers.values())
        fenced = sum(broker.fenced for broker in brokers)
        is_active = controller is not None and controller.controller.is_active
        yield _single("kafka_controller_kafka_controller_active_controller_count", int(is_active))
        yield _single("kafka_controller_kafka_controller_fenced_broker_count", fenced)
        yield _single("kafka_controller_kafka_controller_active_broker_count", len(brokers) - fenced)
        yield from self._turns()
        for name, value in controller_values(image.topics, None if controller is None else controller.controller):
            yield _single(name, value)
        yield _single("kafka_controller_kafka_controller_global_topic_count", len(image.topics))
        yield _single("kafka_controller_kafka_controller_global_partition_count", image.topics.partition_count())
        yield _single("kafka_controller_kafka_controller_last_applied_record_offset", image.offset)
        high_watermark = core.driver.high_watermark
        yield _single("kafka_server_raft_metrics_high_watermark", -1 if high_watermark is None else high_watermark)
        replica = core.driver.node
        leader_id = replica.leader_id
        yield _single("kafka_server_raft_metrics_log_end_offset", replica.log_end_offset)
        yield _single("kafka_server_raft_metrics_current_epoch", replica.epoch)
        yield _single("kafka_server_raft_metrics_current_leader", -1 if leader_id is None else leader_id)
        voters = core.driver.control_records.last_voter_set
        yield _single("kafka_server_raft_metrics_number_of_voters", len(voters))
