"""Recognisable secrets in every place where a node accepts one, and a search through all of its output."""

from __future__ import annotations

import asyncio
import base64
import gc
import logging
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.common.broker_config import BROKER_CONFIG_DEF
from barnabas.common.config_value import ConfigType
from barnabas.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from barnabas.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest
from barnabas.server.node import Node
from barnabas.server.settings.node_config import load_node_config
from tests.interop.raw_client import RawClient
from tests.peers.admin_requests import APPEND, BROKER, DELETE, SET, TOPIC, alter
from tests.peers.node_process import free_ports
from tests.peers.secure import USERS, SecureNode, running_secure_barnabas, secure_settings

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

BARNABAS = str(Path(sys.executable).parent / "barnabas")
TOKEN_SECRET = "Recognisable-Token-Secret"
DYNAMIC = "Recognisable-Dynamic-Secret"
TRIED = "Recognisable-Tried-Password"
CLIENT_SECRET = "Recognisable-Client-Secret"
KEY = base64.b64encode(os.urandom(32)).decode()
SECRETS = (TOKEN_SECRET, DYNAMIC, TRIED, CLIENT_SECRET, KEY, *USERS.values())
PASSWORD_SETTINGS = [name for name in BROKER_CONFIG_DEF if BROKER_CONFIG_DEF[name].type is ConfigType.PASSWORD]
SETTINGS = {
    "delegation.token.secret.key": TOKEN_SECRET,
    "barnabas.config.encryption.keys": KEY,
    "sasl.oauthbearer.client.credentials.client.secret": CLIENT_SECRET,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
}


def leaks(text: str) -> list[str]:
    """The secrets, also in base64, hex and escaped JSON."""
    found = []
    for secret in SECRETS:
        raw = secret.encode()
        forms = (secret, base64.b64encode(raw).decode().rstrip("="), raw.hex(), repr(raw)[2:-1])
        found += [secret for form in forms if form in text]
    return found


def check_config(path: Path, *overrides: str) -> str:
    arguments = [BARNABAS, "configs", "check", str(path)]
    for override in overrides:
        arguments += ["--override", override]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=60)
    return done.stdout + done.stderr


@pytest.mark.parametrize("form", ["{}", "listener.name.external.{}", "listener.name.external.plain.{}"])
def test_checking_settings_prints_no_password(tmp_path: Path, form: str) -> None:
    secrets = {name: f"Recognisable-{number}" for number, name in enumerate(PASSWORD_SETTINGS)}
    path = tmp_path / "server.properties"
    lines = [f"{form.format(name)}={secret}" for name, secret in secrets.items()]
    lines += [
        "my.plugin.password=Recognisable-my",
        "my.token=Recognisable-my",
        "my.plugin.auth=Recognisable-my",
        "no.such.setting=1",
        "node.id=x",
    ]
    path.write_text("\n".join(lines))
    printed = check_config(path, "ssl.key.password: Recognisable-typo")
    assert "node.id" in printed, printed
    assert "ssl.key.password: is not of the form" in printed
    assert "Recognisable" not in printed
    node = subprocess.run([BARNABAS, "node", str(path)], capture_output=True, text=True, check=False, timeout=60)
    assert node.returncode != 0
    assert "Recognisable" not in node.stdout + node.stderr


@pytest.mark.parametrize(
    "line",
    [
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="Recognisable-1"',
        "org.apache.kafka.common.security.plain.PlainLoginModule Recognisable-1 required;",
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="Recognisable-1',
        "org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=Recognisable-1 x;",
        "com.example.Recognisable-1 required;",
        "Recognisable-1",
    ],
)
def test_a_login_line_that_cannot_be_read_is_not_printed(tmp_path: Path, line: str) -> None:
    path = tmp_path / "server.properties"
    path.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        "listeners=SASL_PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT\n"
        f"inter.broker.listener.name=SASL_PLAINTEXT\nlog.dirs={tmp_path}/data\nsasl.enabled.mechanisms=PLAIN\n"
        "offsets.topic.replication.factor=1\nbarnabas.auto.format=true\n"
        f"listener.name.sasl_plaintext.plain.sasl.jaas.config={line}\n"
    )
    printed = check_config(path)
    assert "jaas" in printed.lower(), printed
    assert "Recognisable" not in printed


def dynamic_changes(port: int) -> list[Any]:
    """Send valid and invalid requests to the controller, each with a secret. Return the answers."""
    client = RawClient(port)
    answers = [
        client.call(alter(resource), 1)
        for resource in (
            (BROKER, "", ("ssl.keystore.password", SET, DYNAMIC)),
            (
                BROKER,
                "1",
                ("listener.name.sasl_ssl.ssl.key.password", SET, DYNAMIC),
                ("my.plugin.secret", SET, DYNAMIC),
            ),
            (BROKER, "1", ("ssl.key.password", APPEND, DYNAMIC)),
            (BROKER, "1", ("ssl.key.password", 9, DYNAMIC)),
            (BROKER, "77", ("ssl.key.password", SET, DYNAMIC)),
            (BROKER, "x", ("ssl.key.password", SET, DYNAMIC)),
            (BROKER, "1", ("ssl.key.password", SET, DYNAMIC * 1000)),
            (BROKER, "1", ("log.retention.ms", SET, "1"), ("ssl.key.password", DELETE, DYNAMIC)),
            (TOPIC, "missing", ("ssl.key.password", SET, DYNAMIC)),
        )
    ]
    client.close()
    return answers


def bad_logins(port: int) -> list[Any]:
    answers: list[Any] = []
    for mechanism, first in (
        ("PLAIN", f"\0admin\0{TRIED}".encode()),
        ("PLAIN", f"{TRIED}".encode()),
        ("SCRAM-SHA-256", f"n,,n={TRIED},r=abc,{TRIED}".encode()),
        ("OAUTHBEARER", f"n,,\x01auth=Bearer {TRIED}.{TRIED}.{TRIED}\x01\x01".encode()),
    ):
        client = RawClient(port, client_id="bad")
        try:
            answers.append(client.call(SaslHandshakeRequest(mechanism=mechanism), 1))
            answers.append(client.call(SaslAuthenticateRequest(auth_bytes=first), 2))
        except ConnectionError:
            pass
        client.close()
    return answers


def admin_requests(port: int) -> list[Any]:
    client = RawClient(port)
    client.log_in("admin", USERS["admin"])
    brokers = [
        DescribeConfigsResource(resource_type=4, resource_name=name, configuration_keys=None) for name in ("1", "")
    ]
    answers = [
        client.call(DescribeConfigsRequest(resources=brokers, include_synonyms=True, include_documentation=True), 4),
        client.call(
            AlterUserScramCredentialsRequest(
                upsertions=[
                    ScramCredentialUpsertion(
                        name="eve",
                        mechanism=mechanism,
                        iterations=iterations,
                        salt=b"salt",
                        salted_password=TRIED.encode(),
                    )
                    for mechanism, iterations in ((1, 4096), (2, 1), (9, 4096))
                ]
            ),
            0,
        ),
        client.call(ExpireDelegationTokenRequest(hmac=TRIED.encode(), expiry_time_period_ms=-1), 2),
        client.call(CreateDelegationTokenRequest(max_lifetime_ms=1000, renewers=[]), 3),
    ]
    client.close()
    return answers


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNode]:
    (metrics_port,) = free_ports(1)
    settings = {
        **SETTINGS,
        "barnabas.log.level": "DEBUG",
        "barnabas.audit.log.level": "DEBUG",
        "barnabas.audit.window.ms": "200",
        "barnabas.metrics.listener": f"127.0.0.1:{metrics_port}",
    }
    folder = tmp_path_factory.mktemp("secrets")
    with running_secure_barnabas(folder, settings=settings) as running:
        running.metrics_port = metrics_port  # type: ignore[attr-defined]
        yield running


def test_logs_answers_and_exports_of_a_node_contain_no_secret(node: SecureNode) -> None:
    answers = bad_logins(node.ports["SASL_PLAINTEXT"])
    answers += dynamic_changes(node.process.controller_port)
    answers += admin_requests(node.ports["SASL_PLAINTEXT"])
    assert len(answers) >= 18
    for answer in answers:
        assert leaks(repr(answer)) == [], answer
        encoded = " ".join(str(value) for value in _texts(answer))
        assert leaks(encoded) == [], encoded
    with urllib.request.urlopen(f"http://127.0.0.1:{node.metrics_port}/metrics", timeout=10) as response:  # type: ignore[attr-defined]
        metrics = response.read().decode()
    assert "barnabas_access_audit" in metrics
    assert leaks(metrics) == []
    printed = node.process.printed()
    assert len(printed) > 1000
    assert leaks(printed) == []


def test_a_print_of_the_state_on_disk_has_no_secret(node: SecureNode) -> None:
    dynamic_changes(node.process.controller_port)
    data = node.process.folder / "data"
    shell = [BARNABAS, "shell", str(data), "tree", "/"]
    done = subprocess.run(shell, capture_output=True, text=True, check=False, timeout=60)
    assert "ssl.keystore.password" in done.stdout, done.stdout + done.stderr
    assert "[hidden]" in done.stdout
    assert leaks(done.stdout + done.stderr) == []
    stored = b"".join(path.read_bytes() for path in data.rglob("*") if path.is_file())
    assert DYNAMIC.encode() not in stored, "encrypted in the log"


def test_no_object_of_a_running_node_prints_a_secret(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Yield what a debugger, a traceback with values or a log call would show of the state."""
    port, controller_port = free_ports(2)
    ports = {"SASL_PLAINTEXT": port}
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "log.dirs": str(tmp_path / "data"),
        "offsets.topic.replication.factor": "1",
        "barnabas.auto.format": "true",
        **secure_settings(ports, controller_port, key_store=None, issuer=None, mechanisms=("PLAIN", "SCRAM-SHA-256")),
        **SETTINGS,
        "inter.broker.listener.name": "SASL_PLAINTEXT",
    }
    path = tmp_path / "server.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    async def run() -> tuple[int, list[str]]:
        node = Node(load_node_config(str(path)))
        await node.start()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, bad_logins, port)
        await loop.run_in_executor(None, dynamic_changes, controller_port)
        await loop.run_in_executor(None, admin_requests, port)
        seen, found = 0, []
        for thing in gc.get_objects():
            # The __module__ of a foreign class may be anything.
            if str(type(thing).__module__).startswith("barnabas"):
                seen += 1
                if leaks(repr(thing)):
                    found.append(f"{type(thing).__module__}.{type(thing).__qualname__}")
        await node.stop()
        return seen, sorted(set(found))

    with caplog.at_level(logging.DEBUG):
        seen, found = asyncio.run(run())
    assert seen > 500
    assert found == []
    assert leaks(caplog.text) == []


def _texts(message: Any) -> Iterator[object]:
    """Yield every value of an answer, hidden fields included, except an HMAC that a caller requested."""
    for field in message.FIELDS:
        value = getattr(message, field.name)
        if field.name == "hmac":
            continue
        for item in value if isinstance(value, list) else (value,):
            if hasattr(item, "FIELDS"):
                yield from _texts(item)
            else:
                yield item
