"""Settings that change while a node runs: which are refused when they are set, and which values are in force then."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.common.broker_config import BROKER_CONFIG_DEF
from barnabas.common.config_def import PER_BROKER, READ_ONLY
from barnabas.common.config_value import Password
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.settings.setting import SupportState
from barnabas.metadata.image.configs import DEFAULT_BROKER, ConfigResource
from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage, MetadataProvenance
from barnabas.metadata.publisher import LoaderManifest
from barnabas.protocol.records.config_record import ConfigRecord
from barnabas.security.config_cipher import ConfigCipher
from barnabas.security.principal_builder import DefaultPrincipalBuilder
from barnabas.server.listeners.security import ListenerSecurity
from barnabas.server.settings.dynamic_broker_config import DynamicSettings, SettingsChange
from barnabas.server.settings.dynamic_effects import CleanerEffect, ListenerEffect, ProducerIdEffect
from barnabas.server.settings.node_config import Given, NodeConfig, load_node_config, node_config_of
from barnabas.server.settings.sasl import sasl_listener
from barnabas.server.settings.support import dynamic_support_of
from barnabas.server.settings.tls import server_tls_of
from tests.peers.certificates import PASSWORD, Authority

OWN = ConfigResource.broker(1)
FILE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "log.dirs": "data",
    "offsets.topic.replication.factor": "1",
}


def config_of(**more: str) -> NodeConfig:
    texts = {**FILE, **{name.replace("__", "-").replace("_", "."): text for name, text in more.items()}}
    return node_config_of({name: Given(text, "file") for name, text in texts.items()}, source="file")


class Recorder:
    """An effect that records its calls; refuses the settings in ``refuses``."""

    def __init__(self, refuses: Callable[[SettingsChange], str | None] = lambda change: None) -> None:
        self.changes: list[SettingsChange] = []
        self._refuses = refuses

    def prepare(self, change: SettingsChange) -> Callable[[], None]:
        problem = self._refuses(change)
        if problem is not None:
            raise ValueError(problem)
        return lambda: self.changes.append(change)


class Node:
    """Dynamic settings, with the image that they follow."""

    def __init__(self, config: NodeConfig | None = None, *effects: Any, cipher: ConfigCipher | None = None) -> None:
        self.image = MetadataImage.EMPTY
        self.recorder = Recorder()
        self.settings = DynamicSettings(
            config or config_of(),
            configs=lambda: self.image.configs,
            cipher=cipher,
            effects=(self.recorder, *effects),
        )

    def refusal(self, resource: ConfigResource, **changed: str | None) -> str:
        """Return the message of INVALID_REQUEST, or an empty string if the change is allowed."""
        return self.refusal_of(resource, {name.replace("_", "."): text for name, text in changed.items()})

    def refusal_of(self, resource: ConfigResource, changed: dict[str, str | None]) -> str:
        after = {**self.image.configs.of(resource), **changed}
        new = {name: text for name, text in after.items() if text is not None}
        try:
            asyncio.run(self.settings.check(resource, changed, new))
        except ApiException as error:
            assert error.code is ErrorCode.INVALID_REQUEST
            return str(error)
        return ""

    def store(self, resource: ConfigResource, changed: dict[str, str | None]) -> None:
        """Apply the records as from the log, and wait until they are in force."""
        delta = MetadataDelta(self.image)
        for name, value in changed.items():
            delta.replay(ConfigRecord(resource_type=4, resource_name=resource.name, name=name, value=value))
        provenance = MetadataProvenance(1, 1, 1)
        self.image = delta.apply(provenance)

        async def publish() -> None:
            self.settings.publish(delta, self.image, LoaderManifest(provenance, is_snapshot=False))
            await self.settings.applied()

        asyncio.run(publish())

    def value(self, name: str) -> Any:
        return self.settings.in_force.value(name)


def test_this_brokers_value_overrides_the_default_of_all_and_both_the_file() -> None:
    node = Node(config_of(log_cleaner_backoff_ms="1"))
    node.store(DEFAULT_BROKER, {"log.cleaner.backoff.ms": "2"})
    assert node.value("log.cleaner.backoff.ms") == 2
    node.store(OWN, {"log.cleaner.backoff.ms": "3"})
    assert node.value("log.cleaner.backoff.ms") == 3
    node.store(OWN, {"log.cleaner.backoff.ms": None})
    node.store(DEFAULT_BROKER, {"log.cleaner.backoff.ms": None})
    assert node.value("log.cleaner.backoff.ms") == 1
    assert [change.new.log_cleaner_backoff_ms for change in node.recorder.changes] == [2, 3, 2, 1]


def test_settings_of_other_brokers_change_nothing() -> None:
    node = Node()
    node.store(ConfigResource.broker(2), {"log.cleaner.backoff.ms": "2"})
    assert node.recorder.changes == []


def test_only_a_change_of_this_broker_reads_files_again() -> None:
    node = Node()
    node.store(OWN, {"log.cleaner.backoff.ms": "2"})
    node.store(DEFAULT_BROKER, {"log.cleaner.backoff.ms": "2"})
    assert [change.rereads for change in node.recorder.changes] == [True, False]


def test_invalid_stored_values_are_dropped_one_by_one(caplog: pytest.LogCaptureFixture) -> None:
    node = Node(config_of(log_cleaner_backoff_ms="7"))
    stored: dict[str, str | None] = {
        "log.cleaner.backoff.ms": "soon",
        "node.id": "5",
        "no.such.setting": "x",
        "log.cleaner.dedupe.buffer.size": "1",
        "producer.id.expiration.ms": "60000",
    }
    node.store(OWN, stored)
    assert (node.value("log.cleaner.backoff.ms"), node.value("node.id")) == (7, 1)
    assert node.value("log.cleaner.dedupe.buffer.size") == 134217728
    assert node.value("producer.id.expiration.ms") == 60000
    errors = "\n".join(record.getMessage() for record in caplog.records if record.levelno == logging.ERROR)
    assert all(name in errors for name in ("log.cleaner.backoff.ms", "node.id", "log.cleaner.dedupe.buffer.size"))


def test_a_failing_effect_does_not_affect_the_others(caplog: pytest.LogCaptureFixture) -> None:
    node = Node(None, Recorder(lambda change: "no such file"))
    node.store(OWN, {"log.cleaner.backoff.ms": "2"})
    assert node.value("log.cleaner.backoff.ms") == 2
    assert len(node.recorder.changes) == 1
    assert "no such file" in caplog.text


def test_a_setting_without_effect_is_stored_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    node = Node()
    assert node.refusal(DEFAULT_BROKER, num_io_threads="6") == ""
    node.store(DEFAULT_BROKER, {"num.io.threads": "6"})
    assert "num.io.threads has no effect here" in caplog.text


@pytest.mark.parametrize("resource", [OWN, DEFAULT_BROKER])
def test_all_errors_are_reported_together(resource: ConfigResource) -> None:
    refusal = Node().refusal(
        resource, node_id="2", num_partitions="5", log_cleaner_backoff_ms="soon", log_cleaner_min_cleanable_ratio="2"
    )
    assert "Cannot update these configs dynamically: [node.id, num.partitions]" in refusal
    assert "Invalid value soon for configuration log.cleaner.backoff.ms" in refusal
    assert "Invalid value 2.0 for configuration log.cleaner.min.cleanable.ratio" in refusal
    assert "type is DOUBLE" in refusal


def test_key_stores_belong_to_a_listener() -> None:
    refusal = Node().refusal_of(OWN, {"ssl.keystore.location": "k", "ssl.truststore.location": "t"})
    assert refusal.startswith("These security configs can be dynamically updated only per-listener")
    assert "[ssl.keystore.location, ssl.truststore.location]" in refusal


def test_settings_of_one_broker_are_not_for_all() -> None:
    refusal = Node().refusal_of(DEFAULT_BROKER, {"listener.name.plaintext.ssl.keystore.location": "k"})
    assert refusal.startswith("Cannot update these configs at default cluster level, broker id must be specified")


@pytest.mark.parametrize(("threads", "is_refused"), [(3, True), (4, False), (8, False), (16, False), (17, True)])
def test_pools_grow_and_shrink_by_half_at_most(threads: int, is_refused: bool) -> None:
    assert bool(Node().refusal(OWN, num_io_threads=str(threads))) == is_refused


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"log.local.retention.ms": "604800001"}, "must not be more than log.retention.ms, which is 604800000"),
        ({"log.local.retention.ms": "604800000"}, ""),
        ({"log.local.retention.ms": "-1"}, "must not be -1: log.retention.ms is 604800000"),
        ({"log.local.retention.ms": "-1", "log.retention.ms": "-1"}, ""),
        ({"log.local.retention.ms": "5000", "log.retention.ms": "4000"}, "which is 4000"),
        ({"log.local.retention.bytes": "10"}, ""),
        ({"log.local.retention.bytes": "10", "log.retention.bytes": "9"}, "log.retention.bytes, which is 9"),
    ],
)
def test_local_retention_must_not_exceed_the_retention(changed: dict[str, str | None], complaint: str) -> None:
    refusal = Node().refusal_of(DEFAULT_BROKER, changed)
    assert complaint in refusal
    assert bool(refusal) == bool(complaint)


def test_values_that_would_prevent_a_start_are_refused() -> None:
    node = Node()
    assert "log.cleaner.dedupe.buffer.size" in node.refusal(OWN, log_cleaner_dedupe_buffer_size="1")
    assert "is not one of the listeners" in node.refusal_of(OWN, {"listener.name.other.ssl.keystore.location": "k"})
    assert node.refusal(OWN, log_cleaner_dedupe_buffer_size="2000000") == ""


def test_values_refused_in_a_file_are_refused_dynamically_with_the_reason() -> None:
    assert "reporter plug-ins are not supported" in Node().refusal(OWN, metric_reporters="org.example.Reporter")


def test_settings_without_effect_are_stored() -> None:
    assert Node().refusal(OWN, remote_log_reader_threads="20", sasl_kerberos_min_time_before_relogin="58000") == ""


def test_removing_an_invalid_value_is_allowed() -> None:
    node = Node()
    node.store(OWN, {"node.id": "5", "log.cleaner.backoff.ms": "soon"})
    assert node.refusal(OWN, node_id=None, log_cleaner_backoff_ms=None) == ""


def test_unknown_settings_are_accepted_for_plug_ins() -> None:
    assert Node().refusal(OWN, my_own_setting="x") == ""


def test_encrypted_values_are_read() -> None:
    cipher = ConfigCipher([bytes(32)], new_nonce=lambda: bytes(12))
    users = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_a="{}";'
    name = "listener.name.sasl.plain.sasl.jaas.config"
    config = sasl_config(users.format("old"))
    node = Node(config, cipher=cipher)
    node.store(OWN, {name: cipher.encrypt(OWN, name, users.format("new"))})
    assert node.settings.in_force.static[name] == users.format("new")
    assert node.settings.current(OWN)[name] == users.format("new")
    node.store(OWN, {name: cipher.encrypt(DEFAULT_BROKER, name, users.format("damaged"))})
    assert node.settings.in_force.static[name] == users.format("old")


def sasl_config(jaas: str) -> NodeConfig:
    texts = {
        **FILE,
        "listeners": "SASL://localhost:9092,CONTROLLER://localhost:9093",
        "listener.security.protocol.map": "SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SASL",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": jaas,
    }
    return node_config_of({name: Given(text, "file") for name, text in texts.items()}, source="file")


def test_users_of_plain_change_without_a_restart() -> None:
    users = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_a="{}";'
    config, name = sasl_config(users.format("old")), "listener.name.sasl.plain.sasl.jaas.config"
    clock: Any = SimpleNamespace(now_ms=lambda: 0)
    sasl = sasl_listener(config, "SASL", credentials=SimpleNamespace(), clock=clock)
    security = ListenerSecurity("SASL", "SASL_PLAINTEXT", principal_builder=DefaultPrincipalBuilder(), sasl=sasl)
    node = Node(config, ListenerEffect(security))

    def logs_in(password: str) -> bool:
        server = sasl.mechanisms["PLAIN"].make_server()
        try:
            server.evaluate_response(b"\0a\0" + password.encode())
        except Exception:
            return False
        return server.is_complete

    assert (logs_in("old"), logs_in("new")) == (True, False)
    refusal = node.refusal_of(OWN, {name: "PlainLoginModule nonsense hunter2"})
    assert name in refusal
    assert "hunter2" not in refusal
    assert node.refusal_of(OWN, {name: users.format("new")}) == ""
    node.store(OWN, {name: users.format("new")})
    assert (logs_in("old"), logs_in("new")) == (False, True)
    node.store(OWN, {name: None})
    assert (logs_in("old"), logs_in("new")) == (True, False)


def tls_config(authority: Authority, folder: Path) -> NodeConfig:
    texts = {
        **FILE,
        "listeners": "SSL://localhost:9092,CONTROLLER://localhost:9093",
        "listener.security.protocol.map": "SSL:SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SSL",
        **store(authority, "node", folder / "first.p12"),
    }
    return node_config_of({name: Given(text, "file") for name, text in texts.items()}, source="file")


def store(authority: Authority, name: str, path: Path) -> dict[str, str]:
    authority.issue(name).write_pkcs12(path)
    prefix = "listener.name.ssl.ssl.keystore."
    return {f"{prefix}location": str(path), f"{prefix}type": "PKCS12", f"{prefix}password": PASSWORD}


def test_certificates_change_without_a_restart(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority = Authority()
    config = tls_config(authority, tmp_path)
    tls = server_tls_of(config, "SSL")
    security = ListenerSecurity("SSL", "SSL", principal_builder=DefaultPrincipalBuilder(), tls=tls)
    node = Node(config, ListenerEffect(security))
    first = tls.context
    changed: dict[str, str | None] = {**store(authority, "node", tmp_path / "second.p12")}
    assert "no-such-file" in node.refusal_of(OWN, {"listener.name.ssl.ssl.keystore.location": "no-such-file"})
    stranger: dict[str, str | None] = {**store(authority, "stranger", tmp_path / "third.p12")}
    assert "ssl.allow.dn.changes" in node.refusal_of(OWN, stranger)
    assert node.refusal_of(OWN, changed) == ""
    node.store(OWN, changed)
    second = tls.context
    assert isinstance(second, ssl.SSLContext)
    assert second is not first
    node.store(OWN, {"listener.name.ssl.ssl.keystore.location": "no-such-file"})
    assert tls.settings.key_store_location == str(tmp_path / "second.p12")
    assert tls.context is not second, "the file may have changed, so it was read again"
    assert "no-such-file" in caplog.text


def test_tls_of_all_listeners_changes_without_a_restart(tmp_path: Path) -> None:
    config = tls_config(Authority(), tmp_path)
    tls = server_tls_of(config, "SSL")
    security = ListenerSecurity("SSL", "SSL", principal_builder=DefaultPrincipalBuilder(), tls=tls)
    node = Node(config, ListenerEffect(security))

    def versions() -> tuple[int, int]:
        assert isinstance(tls.context, ssl.SSLContext)
        return tls.context.minimum_version, tls.context.maximum_version

    both, newest = versions(), (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3)
    assert both != newest
    assert "ssl.enabled.protocols" in node.refusal_of(OWN, {"ssl.enabled.protocols": "SSLv3"})
    assert node.refusal_of(DEFAULT_BROKER, {"ssl.enabled.protocols": "TLSv1.3"}).startswith("Cannot update these")
    assert node.refusal_of(OWN, {"ssl.enabled.protocols": "TLSv1.3", "ssl.protocol": "TLSv1.2"}) == ""
    node.store(OWN, {"ssl.enabled.protocols": "TLSv1.3"})
    assert versions() == newest
    node.store(OWN, {"listener.name.ssl.ssl.enabled.protocols": "TLSv1.2,TLSv1.3"})
    assert versions() == both
    node.store(OWN, {"listener.name.ssl.ssl.enabled.protocols": None, "ssl.enabled.protocols": None})
    assert versions() == both


def file_with_providers(tmp_path: Path) -> NodeConfig:
    texts = {
        **FILE,
        "listeners": "SSL://localhost:9092,CONTROLLER://localhost:9093",
        "listener.security.protocol.map": "SSL:SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SSL",
        **store(Authority(), "node", tmp_path / "first.p12"),
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
    path = tmp_path / "server.properties"
    path.write_text("".join(f"{name}={text}\n" for name, text in texts.items()))
    return load_node_config(str(path))


def test_secrets_may_refer_to_a_provider_of_the_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    secrets = tmp_path / "secrets"
    secrets.write_text(f"right={PASSWORD}\nwrong=hunter2\n")
    config = file_with_providers(tmp_path)
    tls = server_tls_of(config, "SSL")
    security = ListenerSecurity("SSL", "SSL", principal_builder=DefaultPrincipalBuilder(), tls=tls)
    node, name = Node(config, ListenerEffect(security)), "listener.name.ssl.ssl.keystore.password"
    reference = f"${{file:{secrets}:right}}"
    assert node.refusal_of(OWN, {name: reference}) == ""
    node.store(OWN, {name: reference})
    assert node.settings.current(OWN)[name] == reference
    assert node.settings.in_force.value(name) == Password(PASSWORD)

    refusal = node.refusal_of(OWN, {name: f"${{file:{secrets}:wrong}}"})
    assert refusal
    assert "hunter2" not in refusal
    assert f"{secrets} has no key other" in node.refusal_of(OWN, {name: f"${{file:{secrets}:other}}"})
    location = "listener.name.ssl.ssl.keystore.location"
    shown = node.refusal_of(OWN, {location: f"${{file:{secrets}:wrong}}"})
    assert "hunter2" not in shown, "only secrets are resolved"
    assert "Not a number" in node.refusal(OWN, log_cleaner_backoff_ms=f"${{file:{secrets}:right}}")
    assert "need a restart" in node.refusal_of(DEFAULT_BROKER, {"config.providers": "file"})

    caplog.clear()
    node.store(OWN, {name: f"${{file:{secrets}:gone}}"})
    assert node.settings.in_force.value(name) == Password(PASSWORD)
    assert "a stored setting is ignored" in caplog.text


def test_the_cleaner_and_producer_ids_follow() -> None:
    followed: list[NodeConfig] = []
    maintenance: Any = SimpleNamespace(follow=followed.append)
    logs: Any = SimpleNamespace(producer_id_expiration_ms=1)
    settings: Any = SimpleNamespace(producer_id_expiration_ms=1)
    node = Node(None, CleanerEffect(maintenance), ProducerIdEffect(logs, settings))
    node.store(DEFAULT_BROKER, {"producer.id.expiration.ms": "60000"})
    assert (logs.producer_id_expiration_ms, settings.producer_id_expiration_ms, followed) == (60000, 60000, [])
    node.store(DEFAULT_BROKER, {"log.cleaner.io.max.bytes.per.second": "1000000"})
    assert [config.log_cleaner_io_max_bytes_per_second for config in followed] == [1_000_000.0]


def test_each_setting_that_kafka_can_change_dynamically_is_classified() -> None:
    for name in BROKER_CONFIG_DEF:
        support, mode = dynamic_support_of(name), BROKER_CONFIG_DEF[name].update_mode
        if mode == READ_ONLY:
            assert support is None
        elif support is None:
            assert (
                mode == PER_BROKER or name == "config.providers"
            )  # The node's own file determines which files are read.
        else:
            assert support.state is SupportState.WORKS or support.reason
