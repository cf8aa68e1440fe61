"""The metric of the authorizer's ACLs: -1 if a user's own authorizer does not return a count (KIP-801)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.security.authorizer.authorizer import AllowAllAuthorizer
from barnabas.security.authorizer.guarded_authorizer import guarded
from barnabas.security.authorizer.standard_authorizer import StandardAuthorizer
from barnabas.server.metrics.collector import NodeCollector


class Foreign(AllowAllAuthorizer):
    is_absent = False


class Broken(StandardAuthorizer):
    @property
    def acl_count(self) -> int:
        raise RuntimeError("no database")


@pytest.mark.parametrize(
    ("authorizer", "count"),
    [
        (AllowAllAuthorizer(), 0),
        (StandardAuthorizer(), 0),
        (guarded(Foreign()), -1),
        (guarded(Broken()), -1),
    ],
)
def test_the_metric_is_the_count_of_acls_or_minus_one(authorizer: Any, count: int) -> None:
    node: Any = SimpleNamespace(core=SimpleNamespace(authorizer=authorizer))
    metrics = {metric.name: metric for metric in NodeCollector(node)._authorizer()}
    (sample,) = metrics["kafka_server_authorizer_acl_count"].samples
    assert sample.value == count
