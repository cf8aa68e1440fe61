"""The kinds of nodes that our clients are tested on: ours, a real Kafka 4.3.1, and for a part of the tests the last
3.x.

A module requests them in its own ``pytest_generate_tests``, with the fixture that starts the node. A test with
``@pytest.mark.kafka_3("always")`` also runs on the last 3.x; with ``BARNABAS_KAFKA_3=all`` (``make older``) all do,
except those marked ``"never"``. ``"only"`` marks tests of what an old Kafka lacks.
"""

from __future__ import annotations

import os

import pytest

__all__ = ["BARNABAS", "KAFKA", "OLD_KAFKA", "run_on_each_kind"]

BARNABAS = "barnabas"
KAFKA = "kafka"
OLD_KAFKA = "kafka-3"


def run_on_each_kind(metafunc: pytest.Metafunc, fixture: str) -> None:
    if fixture not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("kafka_3")
    when = marker.args[0] if marker else None
    kinds = [] if when == "only" else [BARNABAS, KAFKA]
    is_wanted = when in ("always", "only") or os.environ.get("BARNABAS_KAFKA_3") == "all"
    if is_wanted and when != "never":
        kinds.append(OLD_KAFKA)
    metafunc.parametrize(fixture, kinds, indirect=True, scope="module")
