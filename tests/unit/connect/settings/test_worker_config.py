from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.config_value import ConfigType
from barnabas.common.settings.setting import SupportState, attributes_of
from barnabas.connect.settings.listener_urls import Listener, parse_listeners
from barnabas.connect.settings.worker_config import (
    InvalidWorkerConfig,
    WorkerConfig,
    load_worker_config,
    worker_config_of,
)
from barnabas.connect.settings.worker_config_rules import check_header_rules
from barnabas.connect.settings.worker_settings import (
    REMOVED_WORKER_SETTINGS,
    WORKER_CONFIG_DEF,
    WorkerSettings,
    worker_config_doc,
)

VECTORS = Path(__file__).resolve().parents[3] / "vectors" / "connect"
DEFINITIONS = json.loads((VECTORS / "config_definitions.json").read_text())
STARTS = json.loads((VECTORS / "worker_starts.json").read_text())

ATTRIBUTES = attributes_of(WorkerSettings)
LEAST = {
    "bootstrap.servers": "127.0.0.1:9092",
    "group.id": "cc",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "JsonConverter",
    "config.storage.topic": "cc-configs",
    "offset.storage.topic": "cc-offsets",
    "status.storage.topic": "cc-status",
}

# Errors that Kafka reports only when it opens the listener.
REFUSED_EARLIER = ({"listeners": "foo"}, {"admin.listeners": "bar"})


def config_of(**changes: str) -> WorkerConfig:
    return worker_config_of(LEAST | {name.replace("_", "."): text for name, text in changes.items()})


def problems_of(changes: dict[str, str]) -> list[str]:
    try:
        worker_config_of(LEAST | changes)
    except InvalidWorkerConfig as error:
        return [str(problem) for problem in error.problems]
    return []


class TestTable:
    def test_names_types_defaults_and_importances_are_those_of_kafka(self) -> None:
        rows = [WORKER_CONFIG_DEF[name] for name, *_ in DEFINITIONS["worker"]]
        assert list(WORKER_CONFIG_DEF)[: len(rows)] == [row.name for row in rows]
        ours = [[row.name, row.type.name, row.default_text, row.importance.name] for row in rows]
        assert ours == [
            [name, type_, default, importance] for name, type_, default, importance, _ in DEFINITIONS["worker"]
        ]

    def test_has_the_validators_of_kafka(self) -> None:
        for name, _, _, _, expected in DEFINITIONS["worker"]:
            validator = WORKER_CONFIG_DEF[name].validator
            if validator is not None and str(validator):
                assert sorted(str(validator)) == sorted(expected), name

    def test_every_setting_is_explained(self) -> None:
        assert [name for name in WORKER_CONFIG_DEF if not worker_config_doc(name)] == []

    def test_every_setting_is_used_or_has_no_effect_or_is_refused(self) -> None:
        for name in WORKER_CONFIG_DEF:
            support = WORKER_CONFIG_DEF[name].support
            if support.state is not SupportState.WORKS:
                assert support.reason, name

    @pytest.mark.parametrize("name", ATTRIBUTES)
    def test_a_setting_with_an_attribute_is_documented_as_working(self, name: str) -> None:
        assert WORKER_CONFIG_DEF[name].support.state is SupportState.WORKS

    @pytest.mark.parametrize("name", [n for n in WORKER_CONFIG_DEF if not WORKER_CONFIG_DEF[n].required])
    def test_a_refused_setting_accepts_its_default(self, name: str) -> None:
        key = WORKER_CONFIG_DEF[name]
        if WORKER_CONFIG_DEF[name].support.state is SupportState.REFUSED and key.default_text is not None:
            assert problems_of({name: key.default_text}) == []

    @pytest.mark.parametrize("master", ["local[*]", "local[4]", "spark://host:7077", "sc://host:15002/;token=secret"])
    def test_exactly_once_sources_run_wherever_spark_is(self, master: str) -> None:
        assert problems_of({"exactly.once.source.support": "Enabled", "barnabas.connect.spark.master": master}) == []
        assert problems_of({"exactly.once.source.support": "preparing", "barnabas.connect.spark.master": master}) == []

    @pytest.mark.parametrize("name", WORKER_CONFIG_DEF)
    def test_a_refused_setting_accepts_no_other_value(self, name: str) -> None:
        other = {
            ConfigType.BOOLEAN: "true",
            ConfigType.DOUBLE: "0.7",
            ConfigType.CLASS: "a.B",
            ConfigType.INT: "77",
            ConfigType.LONG: "77",
        }.get(WORKER_CONFIG_DEF[name].type, "something")
        texts = {"sasl.oauthbearer.assertion.algorithm": "ES256"}
        if WORKER_CONFIG_DEF[name].support.state is SupportState.REFUSED:
            [problem] = problems_of({name: texts.get(name, other)})
            assert problem.startswith("Invalid value ")
            assert name in problem


class TestStart:
    @pytest.mark.parametrize(("settings", "answer"), STARTS)
    def test_a_worker_accepts_the_settings_that_kafka_accepts(self, settings: list[str], answer: str) -> None:
        changes = dict(zip(settings[::2], settings[1::2], strict=True))
        found = problems_of(changes)
        if changes in REFUSED_EARLIER:
            assert "write http://host:port" in found[0]
        elif answer.startswith("OK"):
            assert found == []
        else:
            assert len(found) == 1
            assert found[0].startswith(answer.split(" by this JVM")[0])

    @given(st.integers(-(2**31), 2**31 - 1))
    def test_numbers_of_partitions_are_positive_or_left_to_the_brokers(self, count: int) -> None:
        found = problems_of({"status.storage.partitions": str(count)})
        assert bool(found) == (count == 0 or count < -1)

    @pytest.mark.parametrize("store", ["config", "offset", "status"])
    @pytest.mark.parametrize("factor", ["0", "-2"])
    def test_a_replication_factor_of_zero_is_refused(self, store: str, factor: str) -> None:
        assert problems_of({f"{store}.storage.replication.factor": factor}) == [
            f"Invalid value {factor} for configuration {store}.storage.replication.factor: "
            "Replication factor must be positive, or -1 to use the broker's default"
        ]

    def test_all_errors_are_reported_together(self) -> None:
        found = problems_of({"connect.protocols": "eager", "session.timeout.ms": "x", "rest.port": "8083"})
        assert len(found) == 3
        assert "did you mean connect.protocol?" in found[0]
        assert "write listeners=http://host:port" in found[2]

    @pytest.mark.parametrize(
        "name", sorted(set(LEAST) & {n for n in WORKER_CONFIG_DEF if WORKER_CONFIG_DEF[n].required})
    )
    def test_a_missing_required_setting_is_reported(self, name: str) -> None:
        with pytest.raises(InvalidWorkerConfig) as caught:
            worker_config_of({other: text for other, text in LEAST.items() if other != name})
        assert f'Missing required configuration "{name}" which has no default value.' in str(caught.value)

    def test_an_algorithm_is_validated_only_if_it_is_used(self) -> None:
        other = {"inter.worker.signature.algorithm": "HmacSHA512", "inter.worker.verification.algorithms": "HmacSHA512"}
        assert problems_of(other) == []

    def test_the_heartbeat_interval_must_be_shorter_than_the_session(self) -> None:
        assert "must be lower than session.timeout.ms" in problems_of({"heartbeat.interval.ms": "10000"})[0]

    @pytest.mark.parametrize("name", REMOVED_WORKER_SETTINGS)
    def test_settings_of_older_kafkas_are_refused_with_advice(self, name: str) -> None:
        assert REMOVED_WORKER_SETTINGS[name] in problems_of({name: "1"})[0]

    def test_java_plugin_settings_of_a_shared_file_are_accepted_with_a_warning(self) -> None:
        config = config_of(plugin_path="/opt/plugins", plugin_discovery="service_load")
        assert [warning.split(" ")[0] for warning in config.warnings] == ["plugin.path", "plugin.discovery"]

    def test_an_impossible_login_is_refused_at_the_start(self) -> None:
        assert "sasl.jaas.config" in " ".join(problems_of({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}))

    @pytest.mark.parametrize("policy", ["All", "None", "Principal", "Allowlist"])
    def test_a_policy_is_named_by_its_name_or_its_java_class(self, policy: str) -> None:
        java = f"org.apache.kafka.connect.connector.policy.{policy}ConnectorClientConfigOverridePolicy"
        for text in (policy, java):
            config = config_of(connector_client_config_override_policy=text)
            assert config.connector_client_config_override_policy == policy
        assert problems_of({"connector.client.config.override.policy": "com.example.Mine"})


class TestListeners:
    def test_without_a_listener_setting_only_loopback_is_served(self) -> None:
        assert config_of().listeners == (Listener("http", "127.0.0.1", 8083),)

    def test_with_authentication_the_default_is_kafkas(self) -> None:
        config = config_of(**{"barnabas.connect.authentication": "basic", "barnabas.connect.users.file": "users"})
        assert config.listeners == (Listener("http", "", 8083),)

    @pytest.mark.parametrize(
        "listener", ["http://:8083", "http://0.0.0.0:8083", "http://10.0.0.5:1", "http://connect:8083", "http://[::]:1"]
    )
    @pytest.mark.parametrize("name", ["listeners", "admin.listeners"])
    def test_an_exposed_listener_needs_authentication_or_an_explicit_setting(self, name: str, listener: str) -> None:
        [problem] = problems_of({name: listener})
        assert "barnabas.connect.insecure=true" in problem
        assert problems_of({name: listener, "barnabas.connect.insecure": "true"}) == []
        basic = {"barnabas.connect.authentication": "basic", "barnabas.connect.users.file": "users"}
        assert problems_of({name: listener, **basic}) == []

    @pytest.mark.parametrize("listener", ["http://127.0.0.1:0", "HTTP://localhost:8083", "http://[::1]:8083"])
    def test_loopback_is_served_without_authentication(self, listener: str) -> None:
        assert problems_of({"listeners": listener}) == []

    @pytest.mark.parametrize(
        "url", ["foo", "ftp://a:1", "http://a", "http://a:66000", "http://a:1/path", "http://::1:80"]
    )
    def test_invalid_listener_urls_are_refused(self, url: str) -> None:
        assert "write http://host:port" in problems_of({"listeners": url})[0]

    def test_https_needs_a_key(self) -> None:
        assert "https needs ssl.keystore.location" in problems_of({"listeners": "https://localhost:1"})[0]
        given = {"listeners": "https://localhost:1", "listeners.https.ssl.truststore.location": "trust.pem"}
        assert "https needs listeners.https.ssl.keystore.location" in problems_of(given)[0]

    @pytest.mark.parametrize("name", ["listeners.https.ssl.keystor.location", "admin.listeners.https.group.id"])
    def test_a_misspelt_setting_of_https_is_refused(self, name: str) -> None:
        assert "no such setting exists" in problems_of({name: "x"})[0]

    def test_the_advertised_url_is_the_first_listeners(self) -> None:
        insecure = {"barnabas.connect.insecure": "true"}
        assert config_of(listeners="http://:0", **insecure).advertised_url("here") == "http://here:0/"
        [listener] = parse_listeners("listeners", ["http://[::1]:0"])
        assert config_of(listeners="http://[::1]:0").advertised_url("here", {listener: 7}) == "http://[::1]:7/"

    def test_the_advertised_url_can_be_set(self) -> None:
        given = {
            "listeners": "http://localhost:1,https://localhost:2",
            "ssl.keystore.location": "a.pem",
            "rest.advertised.listener": "https",
            "rest.advertised.host.name": "connect.example",
            "rest.advertised.port": "443",
        }
        assert worker_config_of(LEAST | given).advertised_url("here") == "https://connect.example:443/"
        assert problems_of({"rest.advertised.listener": "https"})

    def test_admin_listeners_have_three_modes(self) -> None:
        assert config_of().admin_listeners is None
        assert config_of(admin_listeners="").admin_listeners == ()
        assert config_of(admin_listeners="http://localhost:9").admin_listeners == (Listener("http", "localhost", 9),)

    @pytest.mark.parametrize("kinds", ["none,basic", "kerberos", ""])
    def test_invalid_authentication_kinds_are_refused(self, kinds: str) -> None:
        assert problems_of({"barnabas.connect.authentication": kinds})

    @pytest.mark.parametrize(
        ("kind", "needed"),
        [("basic", "users.file"), ("jwt", "jwt.keys.file"), ("mtls", "ssl.client.auth")],
    )
    def test_an_authentication_kind_names_its_required_settings(self, kind: str, needed: str) -> None:
        assert needed in problems_of({"barnabas.connect.authentication": kind})[0]


class TestHeaderRules:
    def test_rules_are_separated_by_commas(self) -> None:
        check_header_rules('set X-Frame-Options: DENY, "add Cache-Control: no-cache, no-store", setDate A: 0')
        check_header_rules("")

    @pytest.mark.parametrize(
        "text", ["set", "set a", "set a b: c", "remove A: b", "setDate A: today", "set A: b\rc", "set : b"]
    )
    def test_invalid_rules_are_refused(self, text: str) -> None:
        assert len(problems_of({"response.http.headers.config": text})) == 1


class TestFamilies:
    def test_admin_clients_use_the_settings_of_the_worker_too(self) -> None:
        config = config_of(**{"retry.backoff.ms": "5", "admin.retry.backoff.max.ms": "9", "admin.listeners": ""})
        assert config.admin_properties["retry.backoff.ms"] == "5"
        assert config.admin_properties["retry.backoff.max.ms"] == "9"
        assert "listeners" not in config.admin_properties

    def test_clients_of_the_worker_receive_only_their_own_settings(self) -> None:
        config = config_of(**{"sasl.kerberos.kinit.cmd": "/usr/bin/kinit", "producer.linger.ms": "5"})
        assert config.client_properties == {"bootstrap.servers": "127.0.0.1:9092", "request.timeout.ms": "40000"}

    def test_an_internal_topic_is_always_compacted(self) -> None:
        config = config_of(**{"status.storage.cleanup.policy": "delete", "status.storage.segment.bytes": "1000000"})
        assert config.warnings == ["status.storage.cleanup.policy is ignored: this topic is always compacted"]

    def test_a_session_timeout_close_to_the_shutdown_timeout_causes_a_warning(self) -> None:
        [warning] = config_of(**{"session.timeout.ms": "6000"}).warnings
        assert warning.startswith(
            "session.timeout.ms (6000) less task.shutdown.graceful.timeout.ms (5000) leaves 1000 ms"
        )
        assert config_of(**{"session.timeout.ms": "6000", "task.shutdown.graceful.timeout.ms": "3000"}).warnings == []

    def test_an_unknown_client_setting_causes_a_warning_as_in_kafka(self) -> None:
        assert "ligner.ms" in config_of(**{"producer.ligner.ms": "5"}).warnings[0]

    def test_converters_have_their_own_settings(self) -> None:
        assert config_of(**{"key.converter.schemas.enable": "false"}).with_prefix("key.converter.") == {
            "schemas.enable": "false"
        }


class TestFile:
    def test_a_mistake_in_a_file_is_reported_with_its_line(self, tmp_path: Path) -> None:
        file = tmp_path / "connect-distributed.properties"
        file.write_text("".join(f"{name}={text}\n" for name, text in LEAST.items()) + "offset.flush.interval.ms=soon\n")
        with pytest.raises(InvalidWorkerConfig, match=f"{file} line 8"):
            load_worker_config(str(file))

    def test_an_override_wins(self, tmp_path: Path) -> None:
        file = tmp_path / "connect-distributed.properties"
        file.write_text("".join(f"{name}={text}\n" for name, text in LEAST.items()))
        assert load_worker_config(str(file), ["group.id=other"]).group_id == "other"
        with pytest.raises(InvalidWorkerConfig, match="does not have the form key=value"):
            load_worker_config(str(file), ["group.id"])

    def test_a_secret_is_resolved_by_a_provider_and_not_shown(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("STORE_PASSWORD", "pässword")
        given = {
            "config.providers": "env",
            "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
            "ssl.truststore.password": "${env:STORE_PASSWORD}",
        }
        config = worker_config_of(LEAST | given)
        assert config.client_properties["ssl.truststore.password"] == "pässword"
        assert "pässword" not in repr(config.values)
        assert (
            "the environment has no variable"
            in problems_of({**given, "ssl.truststore.password": "${env:NO_SUCH_ONE}"})[0]
        )

    def test_a_key_of_an_object_store_must_be_a_reference(self, monkeypatch: pytest.MonkeyPatch) -> None:
        name = "barnabas.connect.spark.conf.spark.hadoop.fs.s3a.secret.key"
        [problem] = problems_of({name: "abc123"})
        assert "is a secret in plain text" in problem
        assert "write it as a reference to a config provider" in problem
        assert "abc123" not in problem
        monkeypatch.setenv("S3_KEY", "abc123")
        provider = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
        given = {"config.providers": "env", "config.providers.env.class": provider, name: "${env:S3_KEY}"}
        assert worker_config_of(LEAST | given).texts[name] == "abc123"

    def test_the_file_that_kafka_ships_is_sufficient(self) -> None:
        shipped = {
            "bootstrap.servers": "localhost:9092",
            "group.id": "connect-cluster",
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "key.converter.schemas.enable": "true",
            "value.converter.schemas.enable": "true",
            "offset.storage.topic": "connect-offsets",
            "offset.storage.replication.factor": "1",
            "config.storage.topic": "connect-configs",
            "config.storage.replication.factor": "1",
            "status.storage.topic": "connect-status",
            "status.storage.replication.factor": "1",
            "offset.flush.interval.ms": "10000",
        }
        assert worker_config_of(shipped).warnings == [
            "offset.flush.interval.ms has no effect here. Positions are written after each batch of records. "
            "It is only the default of transaction.boundary.interval.ms"
        ]


class TestWebhook:
    URL = "barnabas.connect.webhook.url"
    SECRET = "barnabas.connect.webhook.secret"

    @pytest.mark.parametrize("url", ["https://hooks.example/T0/B0?x=1", "http://127.0.0.1:9093/alerts"])
    def test_a_url_of_http_is_accepted(self, url: str) -> None:
        assert problems_of({self.URL: url}) == []

    @pytest.mark.parametrize(
        ("url", "reason"),
        [
            ("hooks.example/T0", "must begin with https://"),
            ("ftp://hooks.example/", "must begin with https://"),
            ("https:///T0-in-the-path", "must begin with https://"),
            ("https://user:word@hooks.example/", "must not have a user or a password"),
            ("https://hooks.example/#T0", "must not have a fragment"),
            ("https://hooks.example:70000/", "can't be parsed"),
            ("https://user:T0/word@hooks.example/", "can't be parsed"),
            ("https://[T0/", "can't be parsed"),
            ("https://hooks.example/T0\x00x", "a character that can't be printed"),
            ("https://T0\u2100.example/", "can't be parsed"),
        ],
    )
    def test_another_url_is_refused_without_being_shown(self, url: str, reason: str) -> None:
        [problem] = problems_of({self.URL: url})
        assert reason in problem
        assert "T0" not in problem
        assert "word@" not in problem

    def test_a_secret_must_be_a_reference(self, tmp_path: Path) -> None:
        assert "is a secret in plain text" in problems_of({self.URL: "https://h/", self.SECRET: "0123456789abcdef"})[0]

    def test_a_secret_comes_from_a_provider_and_is_checked(self, tmp_path: Path) -> None:
        secrets = tmp_path / "secrets.properties"
        secrets.write_text("long=0123456789abcdef\nshort=abc\n")
        provider = {
            "config.providers": "file",
            "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        }
        given = {self.URL: "https://h/", **provider}
        assert problems_of({**given, self.SECRET: f"${{file:{secrets}:long}}"}) == []
        [problem] = problems_of({**given, self.SECRET: f"${{file:{secrets}:short}}"})
        assert "it has 3 bytes" in problem
        assert "abc" not in problem
        [problem] = problems_of({**provider, self.SECRET: f"${{file:{secrets}:long}}"})
        assert "has no effect without barnabas.connect.webhook.url" in problem
