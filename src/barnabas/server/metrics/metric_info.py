"""The description of a metric, without its value."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MetricInfo"]


class MetricInfo(NamedTuple):
    """One metric: ``kind`` is Prometheus's type; a counter's samples end in ``_total``."""

    name: str
    kind: str
    text: str
    labels: tuple[str, ...] = ()
