"""The metrics of a registry, for Prometheus. Values are read when they are requested."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from barnabas.registry.run.leadership import Leadership
from barnabas.registry.run.request_counts import RequestCounts
from barnabas.registry.run.schema_operations import SchemaOperations
from barnabas.registry.run.schema_store import SchemaStore

if TYPE_CHECKING:
    from prometheus_client import Metric

__all__ = ["RegistryMetrics"]

_PREFIX = "kafka_schema_registry"


class RegistryMetrics:
    """A collector of prometheus-client, by its method ``collect``."""

    def __init__(
        self, store: SchemaStore, schemas: SchemaOperations, leadership: Leadership, counts: RequestCounts
    ) -> None:
        self._store = store
        self._schemas = schemas
        self._leadership = leadership
        self._counts = counts

    def exposition(self) -> tuple[bytes, str]:
        """Return the page and its content type."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return generate_latest(registry), CONTENT_TYPE_LATEST

    def collect(self) -> Iterable[Metric]:
        for name, text, value in self._numbers():
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            family = kind(f"{_PREFIX}_{name.removesuffix('_total')}", text)
            family.add_metric([], value)
            yield family
        yield from self._requests()

    def _numbers(self) -> Iterator[tuple[str, str, float]]:
        store, schemas, leadership = self._store, self._schemas, self._leadership
        yield "master_slave_role", "1 on the leader of the group, 0 on others.", float(leadership.is_leader)
        yield "leader_known", "1 while a leader is known.", float(leadership.leader is not None)
        yield "elections_total", "Elections of a leader that this registry took part in.", leadership.election_count
        yield "subjects", "Subjects with versions that are not deleted.", sum(1 for _ in store.state.subjects())
        yield "versions", "Stored versions of schemas, deleted ones included.", store.state.version_count
        yield "topic_position", "The offset of the next record of the schemas topic.", store.position
        yield "records_written_total", "Records written to the schemas topic.", store.write_count
        yield "malformed_records_total", "Records of the schemas topic that were skipped.", store.malformed_count
        yield "registered_total", "Schemas registered by this registry as the leader.", schemas.registered_count
        yield "incompatible_total", "Registrations refused as incompatible.", schemas.refused_count

    def _requests(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(f"{_PREFIX}_requests", "Answered requests.", labels=["route", "status"])
        for (route, status), count in self._counts.by_route.items():
            requests.add_metric([route, str(status)], count)
        seconds = CounterMetricFamily(f"{_PREFIX}_request_seconds", "Time of these requests.", labels=["route"])
        for route, spent_s in self._counts.seconds.items():
            seconds.add_metric([route], spent_s)
        yield requests
        yield seconds
