"""Sensitive configs in a data directory: encrypted by ours, decrypted by the command, read by a real Kafka."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.common.uuid import Uuid
from barnabas.metadata.features import CONFIG_ENCRYPTION, SUPPORTED_FEATURES
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest
from tests.interop.raw_client import RawClient
from tests.peers import KafkaNode, metadata_shell, run_class, running_kafka
from tests.peers.admin_requests import BROKER, SET, alter
from tests.peers.command_node import CommandNode

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

BARNABAS = str(Path(sys.executable).parent / "barnabas")
NAME = "ssl.keystore.password"
SECRET = "Recognisable-Secret-42"
KEYS = "barnabas.config.encryption.keys"


def new_key() -> str:
    return base64.b64encode(os.urandom(32)).decode()


def node_with(folder: Path, **settings: str) -> CommandNode:
    node = CommandNode(folder)
    properties = folder / "server.properties"
    values = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{node.controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{node.port},CONTROLLER://127.0.0.1:{node.controller_port}",
        "log.dirs": str(folder / "data"),
        "offsets.topic.replication.factor": "1",
        "barnabas.auto.format": "true",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    folder.mkdir(parents=True, exist_ok=True)
    properties.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    node.command = lambda: [BARNABAS, "node", str(properties)]  # type: ignore[method-assign]
    return node


def set_secret(node: CommandNode) -> None:
    """Send the change directly to the controller: brokers do not forward broker configs yet."""
    client = RawClient(node.controller_port)
    (answer,) = client.call(alter((BROKER, "", (NAME, SET, SECRET))), 1).responses
    client.close()
    assert (answer.error_code, answer.error_message) == (0, None)


def files_with(folder: Path, text: str) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def decrypt(folder: Path) -> subprocess.CompletedProcess[str]:
    arguments = ["storage", "decrypt-configs", "--config", str(folder / "server.properties")]
    return subprocess.run([BARNABAS, *arguments], capture_output=True, text=True, check=False, timeout=60)


def test_a_secret_is_stored_only_encrypted_and_can_be_read_back(tmp_path: Path) -> None:
    key = new_key()
    node = node_with(tmp_path, **{KEYS: key})
    node.start()
    set_secret(node)
    running = decrypt(tmp_path)
    assert running.returncode == 1
    assert "lock" in running.stderr
    assert node.stop() == 0
    assert files_with(tmp_path / "data", SECRET) == []
    node.start()  # With the key, it starts again.
    assert node.stop() == 0

    keyless = node_with(tmp_path)
    with pytest.raises(AssertionError, match="the node can't start"):
        keyless.start()
    printed = keyless.printed()
    assert f"all brokers: the value of {NAME} is encrypted" in printed
    assert KEYS in printed
    wrong = node_with(tmp_path, **{KEYS: new_key()})
    with pytest.raises(AssertionError, match="is not among this node's"):
        wrong.start()

    without_key = decrypt(tmp_path)
    assert without_key.returncode == 1
    assert "not among this node's" in without_key.stderr
    node_with(tmp_path, **{KEYS: key})
    done = decrypt(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"Decrypted {NAME} of all brokers." in done.stdout
    assert SECRET not in done.stdout
    assert decrypt(tmp_path).stdout == "No config is encrypted.\n"
    plain = node_with(tmp_path)
    plain.start()
    assert plain.stop() == 0
    assert SECRET not in plain.printed()
    assert key not in plain.printed()


@pytest.mark.usefixtures("kafka_peer")
def test_a_real_kafka_reads_decrypted_configs(tmp_path: Path) -> None:
    node = node_with(tmp_path, **{KEYS: new_key()})
    node.start()
    set_secret(node)
    assert node.stop() == 0
    assert decrypt(tmp_path).returncode == 0
    (segment,) = sorted((tmp_path / "data" / "__cluster_metadata-0").glob("*.log"))
    dumped = run_class("dump-log", "--cluster-metadata-decoder", "--files", str(segment)).stdout
    values = [line for line in dumped.splitlines() if NAME in line]
    assert "barnabas-encrypted:1:" in values[0]
    assert f'"value":"{SECRET}"' in values[-1]
    (listed,) = metadata_shell(segment, "ls image/configs/BROKER")
    assert listed
    kafka = KafkaNode(tmp_path)
    kafka.change_settings(
        {
            "listeners": f"PLAINTEXT://127.0.0.1:{node.port},CONTROLLER://127.0.0.1:{node.controller_port}",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{node.controller_port}",
        }
    )
    kafka.port, kafka.controller_port = node.port, node.controller_port
    kafka.write_properties()
    kafka.start()
    kafka.stop()


@pytest.mark.usefixtures("kafka_peer")
def test_a_real_controller_registers_a_node_that_supports_encrypted_configs(tmp_path: Path) -> None:
    features = [
        Feature(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in SUPPORTED_FEATURES.items()
    ]
    with running_kafka(tmp_path) as kafka:
        broker, client = RawClient(kafka.port), RawClient(kafka.controller_port)
        cluster_id = broker.call(DescribeClusterRequest(), 2).cluster_id
        broker.close()
        answer = client.call(
            BrokerRegistrationRequest(
                broker_id=7,
                cluster_id=cluster_id,
                incarnation_id=Uuid.from_int(77),
                listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=19092, security_protocol=0)],
                features=[*features, Feature(name=CONFIG_ENCRYPTION, min_supported_version=0, max_supported_version=1)],
                log_dirs=[Uuid.from_int(1077)],
            )
        )
        client.close()
        assert answer.error_code == 0
        described = run_class("features", "--bootstrap-server", kafka.bootstrap_servers, "describe").stdout
        assert "metadata.version" in described
        assert CONFIG_ENCRYPTION not in described
