"""The registry itself: its identity, its contexts, its metrics."""

from __future__ import annotations

from typing import Any

from barnabas.registry.decide.subjects import QualifiedSubject
from barnabas.registry.rest.api_request import ApiRequest, Reply, Route, Services

__all__ = ["ROUTES"]


async def _root(services: Services, request: ApiRequest) -> dict[str, Any]:
    return {}


async def _contexts(services: Services, request: ApiRequest) -> list[str]:
    readable = {
        QualifiedSubject.parse(subject).context
        for subject in services.state.subjects(deleted=True)
        if request.access.may_read(subject)
    }
    return sorted({".", *readable})


async def _id(services: Services, request: ApiRequest) -> dict[str, Any]:
    clusters = {"kafka-cluster": services.cluster_id, "schema-registry-cluster": services.group_id}
    return {"id": "", "scope": {"path": [], "clusters": clusters}}


async def _version(services: Services, request: ApiRequest) -> dict[str, Any]:
    return {"version": services.version, "commitId": ""}


async def _metrics(services: Services, request: ApiRequest) -> Reply:
    return Reply(*services.metrics_page())


ROUTES = (
    Route("GET", "/", _root, "Whether the registry answers."),
    Route("GET", "/contexts", _contexts, "List the contexts."),
    Route("GET", "/v1/metadata/id", _id, "Read the ids of the cluster and of the group."),
    Route("GET", "/v1/metadata/version", _version, "Read the version of barnabas."),
    Route("GET", "/metrics", _metrics, "Read the metrics, for Prometheus."),
)
