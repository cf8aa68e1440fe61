"""A wrong security setting of a client is reported within 3 s, with the setting to change."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.commands import Run, runner
from tests.peers.kinds import run_on_each_kind
from tests.peers.secure import USERS, SecureNode, jaas_client
from tests.peers.secure_kinds import running_kind, write_properties

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180), pytest.mark.usefixtures("kafka_peer")]

LIMIT_S = 3
LOGIN = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas_client("PLAIN", "alice", USERS["alice"])}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    run_on_each_kind(metafunc, "peer")


@pytest.fixture(scope="module")
def peer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNode]:
    with running_kind(request.param, tmp_path_factory.mktemp(f"wrong-{request.param}")) as node:
        yield node


@pytest.fixture
def run(peer: SecureNode, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(peer.bootstrap, capsys)


@pytest.mark.parametrize(
    ("listener", "client", "advice"),
    [
        ("SASL_PLAINTEXT", {}, "set security.protocol=SASL_PLAINTEXT, sasl.mechanism and sasl.jaas.config"),
        ("SASL_SSL", {"security.protocol": "SSL"}, "set security.protocol=SASL_SSL, sasl.mechanism and"),
        ("SSL", {}, "set security.protocol=SSL, or SASL_SSL"),
        ("SASL_SSL", {}, "set security.protocol=SSL, or SASL_SSL"),
        ("SASL_SSL", {"security.protocol": "SASL_PLAINTEXT", **LOGIN}, "set security.protocol=SSL, or SASL_SSL"),
        ("PLAINTEXT", {"security.protocol": "SSL"}, "set security.protocol=PLAINTEXT, or SASL_PLAINTEXT"),
        ("SASL_PLAINTEXT", {"security.protocol": "SASL_SSL", **LOGIN}, "set security.protocol=PLAINTEXT, or SASL_PL"),
        ("PLAINTEXT", {"security.protocol": "SASL_PLAINTEXT", **LOGIN}, "remove SASL_ from security.protocol"),
        ("SSL", {"security.protocol": "SASL_SSL", **LOGIN}, "remove SASL_ from security.protocol"),
        (
            "SASL_PLAINTEXT",
            {
                "security.protocol": "SASL_PLAINTEXT",
                **LOGIN,
                "sasl.jaas.config": jaas_client("PLAIN", "alice", "not-the-password"),
            },
            "for a user that the cluster knows",
        ),
    ],
)
def test_a_wrong_setting_is_reported_soon(
    peer: SecureNode, run: Run, tmp_path: Path, listener: str, client: dict[str, str], advice: str
) -> None:
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(peer.authority)}
    path = write_properties(tmp_path / "client.properties", trust | client)
    began = time.monotonic()
    answer = run("topics", "list", "--command-config", path, server=listener)
    assert time.monotonic() - began < LIMIT_S
    assert answer.status == 1
    assert advice in answer.err


def test_an_untrusted_certificate_is_reported_soon(run: Run, tmp_path: Path) -> None:
    path = write_properties(tmp_path / "client.properties", {"security.protocol": "SSL"})
    answer = run("topics", "list", "--command-config", path, server="SSL")
    assert answer.status == 1
    assert "put the authority that signed it into ssl.truststore.location" in answer.err


def test_a_mechanism_that_the_client_lacks_names_the_supported_ones(run: Run, tmp_path: Path) -> None:
    properties = {"security.protocol": "SASL_PLAINTEXT", **LOGIN, "sasl.mechanism": "GSSAPI"}
    path = write_properties(tmp_path / "client.properties", properties)
    answer = run("topics", "list", "--command-config", path, server="SASL_PLAINTEXT")
    assert answer.status == 2
    assert "the supported mechanisms are PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER" in answer.err
