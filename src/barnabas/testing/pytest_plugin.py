"""The pytest plugin of barnabas: nodes as fixtures, and their logs in the report of a failed test.

pytest loads it in every run, so it imports nothing of barnabas until a test requests a fixture.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

from barnabas import testing

if TYPE_CHECKING:
    from barnabas.testing.options import NodeOptions

__all__ = ["kafka", "kafka_cluster", "kafka_node", "kafka_options", "kafka_secured", "kafka_topic"]

_LOGS = "barnabas.testing.shown_logs"
_NAME_LENGTH_MAX = 200
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def kafka_options() -> NodeOptions:
    """Options of the nodes of ``kafka`` and ``kafka_node``. Define a fixture of this name to change them."""
    return {}


@pytest.fixture(scope="session")
def kafka(kafka_options: NodeOptions) -> Iterator[testing.Node]:
    """A node for all tests of the run; with pytest-xdist, one for each worker. Use topics and groups of your own."""
    with testing.Node(**kafka_options) as node:
        yield node


@pytest.fixture
def kafka_node(kafka_options: NodeOptions) -> Iterator[testing.Node]:
    """A node for this test alone, which may kill it, pause it and fill its disk."""
    with testing.Node(**kafka_options) as node:
        yield node


@pytest.fixture
def kafka_topic(kafka: testing.Node, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a new topic with one partition on the node ``kafka``. It is deleted after the test."""
    kafka.start()  # A test may have killed it.
    test = re.sub(r"[^A-Za-z0-9._-]+", "-", request.node.name)[:_NAME_LENGTH_MAX].strip("-")
    name = kafka.create_topic(f"{test}-{next(_numbers)}")
    yield name
    kafka.start()
    kafka.delete_topic(name)


@pytest.fixture
def kafka_cluster() -> Iterator[testing.Cluster]:
    """Three brokers that are controllers too, for this test alone."""
    with testing.Cluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture
def kafka_secured() -> Iterator[testing.Node]:
    """A node for this test alone, with TLS, SASL and ACLs.

    ``admin`` may do everything, ``alice`` and ``bob`` nothing until ``create_acls`` allows it. ``users`` has their
    passwords.
    """
    users = {"alice": "alice-secret", "bob": "bob-secret"}
    with testing.Node(users=users, acls=[], tls=True) as node:
        yield node


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Separate the log lines of this test from those of the last one."""
    if (logs := sys.modules.get(_LOGS)) is not None:
        logs.begin_test()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the logs of nodes to the report of a failure."""
    report = yield
    if report.failed and (logs := sys.modules.get(_LOGS)) is not None:
        report.sections += [(f"log of {name}", text) for name, text in logs.shown_logs()]
    return report
