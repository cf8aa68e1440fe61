from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas import __version__
from barnabas.common.config_providers import ConfigProviders
from barnabas.connect.decide.validation.connector_config import COMMON_CONFIG, SINK_CONFIG, SOURCE_CONFIG, plugin_config
from barnabas.connect.decide.validation.connector_validation import ConnectorValidation, ValidationDefaults
from barnabas.connect.errors import BadRequest, ConnectError, NotFound
from barnabas.connect.plugins.discovery import discover
from tests.unit.connect.plugins.example_connectors import (
    KAFKA_VERSION,
    FileStreamSinkConnector,
    FileStreamSourceConnector,
    registry,
    validation,
)

VECTORS = Path(__file__).resolve().parents[4] / "vectors" / "connect"
DEFINITIONS = json.loads((VECTORS / "config_definitions.json").read_text())

# Errors with Java's wording, or about features that only one of the two has.
_NOT_KAFKAS = ("barnabas.", "io.confluent.")
"""What the names of converters begin with that Kafka lacks."""

OTHER_WORDS = {
    'Invalid value null for configuration pattern: Invalid regex: Cannot invoke "String.isEmpty()" because '
    '"this.pattern" is null': "Invalid value null for configuration pattern: Invalid regex: there is none",
}


def answers(kind: str) -> Iterator[Any]:
    with gzip.open(VECTORS / "plugin-answers-4.3.1.jsonl.gz", "rt") as lines:
        for line in lines:
            capture = json.loads(line)
            if capture["path"].split("?")[0].endswith(kind):
                yield pytest.param(capture, id=capture["name"])


def in_our_words(answer: Any) -> Any:
    """Return Kafka's answer with our version and our texts."""
    if isinstance(answer, dict):
        return {name: in_our_words(value) for name, value in answer.items()}
    if isinstance(answer, list):
        return [in_our_words(item) for item in answer]
    if isinstance(answer, str):
        return OTHER_WORDS.get(answer, answer).replace(KAFKA_VERSION, __version__)
    return answer


def without_extras(answer: dict[str, Any]) -> dict[str, Any]:
    """Return our answer without documentation, converters that Kafka lacks, and our advice."""
    for config in answer["configs"]:
        (config["definition"] or {}).pop("documentation", None)
        value = config["value"]
        value["recommended_values"] = [name for name in value["recommended_values"] if not name.startswith(_NOT_KAFKAS)]
    return answer


def errors_of(config: Mapping[str, str | None], checks: ConnectorValidation | None = None) -> dict[str, list[str]]:
    infos = (checks or validation()).validate(config)
    errors: dict[str, list[str]] = {}
    for info in infos.configs:
        if info.value.errors:
            errors.setdefault(info.value.name, []).extend(info.value.errors)
    return errors


SOURCE = {"name": "v", "connector.class": "FileStreamSource", "topic": "t"}
SINK = {"name": "v", "connector.class": "FileStreamSink", "topics": "a"}


class TestCaptures:
    @pytest.mark.parametrize(
        "capture", [answer for answer in answers("/validate") if answer.values[0]["status"] == 200]
    )
    def test_a_validation_is_answered_as_by_kafka(self, capture: dict[str, Any]) -> None:
        ours = msgspec.to_builtins(validation().validate(json.loads(capture["request"])))
        assert without_extras(ours) == in_our_words(capture["answer"])

    @pytest.mark.parametrize("capture", list(answers("/config")))
    def test_settings_of_a_plugin_are_listed_as_by_kafka(self, capture: dict[str, Any]) -> None:
        if not capture["path"].startswith("/connector-plugins/"):
            return
        path, _, query = capture["path"].partition("?")
        name = path.split("/")[2].replace("%24", "$")
        version = query.removeprefix("version=").replace(KAFKA_VERSION, __version__) or None
        if capture["status"] == 200:
            ours = msgspec.to_builtins(plugin_config(registry(), name, version))
            ours = [setting for setting in ours if not setting["name"].startswith("barnabas.")]
            for setting in ours:
                setting.pop("documentation")
            assert ours == in_our_words(capture["answer"])
        else:
            with pytest.raises((NotFound, BadRequest)) as caught:
                plugin_config(registry(), name, version)
            assert caught.value.http_status == capture["status"]
            java_name = "org.apache.kafka.connect.file.FileStreamSourceConnector"
            ours = str(caught.value).replace(
                f"{FileStreamSourceConnector.__module__}.FileStreamSourceConnector", java_name
            )
            assert ours == in_our_words(capture["answer"])["message"]

    @pytest.mark.parametrize(
        "capture", [answer for answer in answers("/connectors") if answer.values[0]["status"] == 400]
    )
    def test_configurations_that_kafka_refuses_have_the_same_errors(self, capture: dict[str, Any]) -> None:
        body = json.loads(capture["request"])
        config = {**body["config"], "name": (body.get("name") or "").strip()}
        text = capture["answer"]["message"]
        if "Failed to find any class" in text:
            with pytest.raises(BadRequest, match="Failed to find any class that implements Connector"):
                validation().validate(config)
            return
        infos = validation().validate(config)
        lines = text.split("\n")
        assert lines[0].endswith(f"the following {infos.error_count} error(s):")
        assert [error for info in infos.configs for error in info.value.errors] == lines[1:-1]


class TestDefinitions:
    @pytest.mark.parametrize(
        ("kind", "keys"),
        [
            ("connector", COMMON_CONFIG),
            ("sink", COMMON_CONFIG + SINK_CONFIG),
            ("source", COMMON_CONFIG + SOURCE_CONFIG),
        ],
    )
    def test_are_those_of_kafka(self, kind: str, keys: Any) -> None:
        ours = [
            [
                key.name,
                key.type.name,
                "<required>" if key.required else key.default_text,
                key.importance.name,
                key.group,
                key.order_in_group,
            ]
            for key in keys
        ]
        assert ours == [[*row[:4], *row[5:]] for row in DEFINITIONS[kind]]

    @pytest.mark.parametrize("kind", ["connector", "sink", "source"])
    def test_have_the_validators_of_kafka(self, kind: str) -> None:
        keys = COMMON_CONFIG + SINK_CONFIG + SOURCE_CONFIG
        for name, _, _, _, expected, *_ in DEFINITIONS[kind]:
            if expected and "org.apache.kafka" not in expected:
                assert str(keys[name].validator) == expected

    def test_every_setting_is_explained(self) -> None:
        for plugin in registry():
            if plugin.location == "barnabas":
                assert [key.name for key in plugin.config_def if not key.documentation] == []
        assert [key.name for key in COMMON_CONFIG + SINK_CONFIG + SOURCE_CONFIG if not key.documentation] == []


class TestConnector:
    def test_an_unknown_class_is_refused_with_the_known_ones(self) -> None:
        with pytest.raises(BadRequest, match="available connectors are: .*FileStreamSinkConnector"):
            validation().validate({"name": "v", "connector.class": "NoSuch"})

    @pytest.mark.parametrize("config", [{}, {"name": "v"}, {"connector.class": " "}, {"connector.class": None}])
    def test_a_connector_reports_its_type(self, config: dict[str, str | None]) -> None:
        with pytest.raises(BadRequest, match="contains no connector type"):
            validation().validate(config)

    @pytest.mark.parametrize(
        "name",
        [
            "FileStreamSource",
            "FileStreamSourceConnector",
            "org.apache.kafka.connect.file.FileStreamSourceConnector",
            f"{FileStreamSourceConnector.__module__}.FileStreamSourceConnector",
        ],
    )
    def test_a_connector_has_several_names(self, name: str) -> None:
        assert errors_of({**SOURCE, "connector.class": name}) == {}

    def test_an_unknown_version_is_reported_at_class_and_version(self) -> None:
        errors = errors_of({**SOURCE, "connector.plugin.version": "[9.0,)"})
        assert set(errors) == {"connector.class", "connector.plugin.version"}
        assert f"version range [9.0,), available versions: [{__version__}]" in errors["connector.class"][0]

    def test_an_invalid_version_is_reported_once(self) -> None:
        assert [*errors_of({**SOURCE, "connector.plugin.version": "[1"})] == ["connector.plugin.version"]

    def test_a_connector_adds_its_own_errors(self) -> None:
        config = {"name": "v", "connector.class": "Picky", "password": "x", "url": "bad:1"}
        infos = validation().validate(config)
        assert infos.error_count == 2
        assert infos.configs[0].definition is None
        assert errors_of(config) == {"url": ["can't connect to bad:1"], "elsewhere": ["is odd"]}

    def test_an_exception_during_validation_is_a_server_error(self) -> None:
        with pytest.raises(ConnectError, match="failed to validate: RuntimeError: no database") as caught:
            validation().validate({"name": "v", "connector.class": "Picky", "password": "x", "url": "explode"})
        assert caught.value.http_status == 500

    def test_internal_settings_are_not_shown(self) -> None:
        assert "hidden" not in [key.name for key in plugin_config(registry(), "Picky", None)]

    @given(st.text(max_size=5))
    def test_a_name_has_no_control_characters_and_is_not_empty(self, name: str) -> None:
        stripped = name.strip("".join(map(chr, range(0x21))))
        is_bad = not stripped or any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 for c in stripped)
        assert ("name" in errors_of({**SOURCE, "name": name})) == is_bad

    @pytest.mark.parametrize("name", ["topic", "file", "tasks.max", "unknown", "transforms"])
    def test_null_is_not_a_value(self, name: str) -> None:
        errors = errors_of({**SOURCE, name: None})
        assert "Null value can not be supplied as the configuration value." in errors[name]


class TestSink:
    def test_needs_topics(self) -> None:
        text = "Must configure one of topics or topics.regex"
        config = {"name": "v", "connector.class": "FileStreamSink"}
        assert errors_of(config) == {"topics": [text], "topics.regex": [text]}

    def test_a_pattern_has_java_syntax(self) -> None:
        config: dict[str, str | None] = {**SINK, "topics": "", "topics.regex": "a("}
        assert "Invalid regex" in errors_of(config)["topics.regex"][0]
        assert errors_of({**config, "topics.regex": r"\p{Lower}++"}) == {}

    def test_dead_letters_must_not_go_to_their_source_topic(self) -> None:
        dead_letters = {"errors.deadletterqueue.topic.name": "dead"}
        assert (
            "may not be included in the list" in errors_of({**SINK, **dead_letters, "topics": "a, dead"})["topics"][0]
        )
        config = {**SINK, **dead_letters, "topics": "", "topics.regex": "d.*"}
        assert "may not be included in the regex" in errors_of(config)["topics.regex"][0]
        assert errors_of({**config, "topics.regex": "d"}) == {}

    def test_a_sink_must_not_use_the_group_of_the_workers(self) -> None:
        checks = ConnectorValidation(registry(), ValidationDefaults("connect-v", {"key": "Json", "value": "String"}))
        assert "conflicts with Connect worker group connect-v" in errors_of(SINK, checks)["name"][0]
        assert errors_of({**SINK, "consumer.override.group.id": "x"}, checks) == {}


class TestSource:
    def test_a_worker_without_exactly_once_support_refuses_a_connector_that_requires_it(self) -> None:
        checks = ConnectorValidation(registry(), ValidationDefaults("cc", {"key": "Json", "value": "String"}))
        errors = errors_of({**SOURCE, "exactly.once.support": "REQUIRED"}, checks)
        not_enabled, not_declared = errors["exactly.once.support"]
        assert not_enabled == "This worker does not have exactly-once source support enabled."
        assert not_declared.startswith("The connector does not implement the API required")

    @pytest.mark.parametrize(
        ("case", "error"),
        [
            ("yes", None),
            ("no", "The connector does not support exactly-once semantics with the provided configuration."),
            ("broken", "An unexpected error occurred during validation: no idea"),
        ],
    )
    def test_a_connector_says_whether_it_is_exactly_once(self, case: str, error: str | None) -> None:
        config = {"name": "v", "connector.class": "Picky", "password": "x", "exactly.once.support": "required"}
        errors = errors_of({**config, "once": case})
        assert errors == ({} if error is None else {"exactly.once.support": [error]})

    @pytest.mark.parametrize(
        ("case", "error"),
        [
            ("yes", None),
            (
                "no",
                "The connector does not support connector-defined transaction boundaries with the given configuration.",
            ),
            ("none", "This connector has returned a null value from its canDefineTransactionBoundaries method"),
            ("broken", "An unexpected error occurred during validation: no idea"),
        ],
    )
    def test_a_connector_says_whether_it_ends_its_transactions(self, case: str, error: str | None) -> None:
        config = {"name": "v", "connector.class": "Picky", "password": "x", "transaction.boundary": "Connector"}
        errors = errors_of({**config, "bounds": case})
        if error is None:
            assert errors == {}
        else:
            [[found]] = errors.values()
            assert found.startswith(error)
            assert set(errors) == {"transaction.boundary"}

    def test_by_default_a_connector_does_not_end_its_transactions(self) -> None:
        [[error]] = errors_of({**SOURCE, "transaction.boundary": "connector"}).values()
        assert error.endswith("Please reconfigure it to use a different transaction boundary definition.")

    def test_a_transaction_does_not_span_two_clusters(self) -> None:
        config = {**SOURCE, "producer.override.bootstrap.servers": "other:9092"}
        assert "cluster of the worker" in errors_of(config)["producer.override.bootstrap.servers"][0]
        without = ConnectorValidation(registry(), ValidationDefaults("cc", {"key": "Json", "value": "String"}))
        assert errors_of(config, without) == {}

    def test_rules_for_topic_creation_must_be_complete(self) -> None:
        config = {**SOURCE, "topic.creation.default.partitions": "3"}
        assert [*errors_of(config)] == ["topic.creation.default.replication.factor"]
        config |= {"topic.creation.default.replication.factor": "1", "topic.creation.groups": "big"}
        assert [*errors_of(config)] == ["topic.creation.big.include"]
        assert errors_of({**config, "topic.creation.big.include": "big.*,large"}) == {}
        assert [*errors_of({**config, "topic.creation.big.include": "("})] == ["topic.creation.big.include"]
        config |= {"topic.creation.big.include": "x", "topic.creation.big.partitions": "0"}
        assert "must be positive" in errors_of(config)["topic.creation.big.partitions"][0]


class TestTransforms:
    HOIST = {"transforms": "h", "transforms.h.type": "org.apache.kafka.connect.transforms.HoistField$Value"}

    @pytest.mark.parametrize("name", ["HoistField$Value", " org.apache.kafka.connect.transforms.HoistField$Value"])
    def test_full_and_simple_names_are_accepted(self, name: str) -> None:
        config = {**SOURCE, **self.HOIST, "transforms.h.type": name, "transforms.h.field": "x"}
        infos = validation().validate(config)
        assert infos.error_count == 0
        shown = {info.value.name: info.value.value for info in infos.configs}
        assert shown["transforms.h.type"] == "org.apache.kafka.connect.transforms.HoistField$Value"

    def test_have_settings_of_their_own(self) -> None:
        assert "transforms.h.field" in errors_of({**SOURCE, **self.HOIST})

    def test_a_converter_is_not_a_transform(self) -> None:
        config = {**SOURCE, "transforms": "h", "transforms.h.type": "JsonConverter"}
        assert "Not a Transformation" in errors_of(config)["transforms.h.type"][0]

    @pytest.mark.parametrize("text", ["a,a", "a,,b"])
    def test_an_alias_must_be_unique_and_not_empty(self, text: str) -> None:
        assert "alias" in errors_of({**SOURCE, "transforms": text})["transforms"][0].lower()

    def test_a_predicate_must_exist(self) -> None:
        config = {**SOURCE, **self.HOIST, "transforms.h.field": "x", "transforms.h.predicate": "p"}
        assert "no such alias" in errors_of(config)["transforms.h.predicate"][0]
        config |= {"predicates": "p", "predicates.p.type": "RecordIsTombstone"}
        assert errors_of(config) == {}

    def test_negate_needs_a_predicate(self) -> None:
        config = {**SOURCE, **self.HOIST, "transforms.h.field": "x", "transforms.h.negate": "true"}
        assert "no config 'transforms.h.predicate'" in errors_of(config)["transforms.h.negate"][0]

    def test_a_version_must_exist(self) -> None:
        config = {**SOURCE, **self.HOIST, "transforms.h.field": "x", "transforms.h.plugin.version": "77"}
        assert "version range [77,77]" in errors_of(config)["transforms.h.plugin.version"][0]

    @pytest.mark.parametrize("spec", ["int7", "a:int99", "a:", "a:int8:b", ""])
    def test_casts_require_known_types(self, spec: str) -> None:
        config = {**SOURCE, "transforms": "c", "transforms.c.type": "Cast$Value", "transforms.c.spec": spec}
        assert [*errors_of(config)] == ["transforms.c.spec"]


class TestOverrides:
    def test_are_shown_with_their_definition(self) -> None:
        infos = validation().validate({**SINK, "consumer.override.max.poll.records": "5"})
        info = infos.configs[-1]
        assert info.definition is not None
        assert (info.definition.name, info.definition.type, info.value.value) == (
            "consumer.override.max.poll.records",
            "INT",
            "5",
        )

    def test_an_unknown_override_has_no_definition(self) -> None:
        assert validation().validate({**SINK, "consumer.override.x": "5"}).configs[-1].definition is None

    @pytest.mark.parametrize(
        ("policy", "allowed"),
        [
            ("All", {"linger.ms", "sasl.mechanism"}),
            ("None", set()),
            ("Principal", {"sasl.mechanism"}),
            ("Allowlist", {"linger.ms"}),
        ],
    )
    def test_the_policy_decides_which_overrides_are_allowed(self, policy: str, allowed: set[str]) -> None:
        for name, text in (("linger.ms", "5"), ("sasl.mechanism", "PLAIN")):
            errors = errors_of({**SOURCE, f"producer.override.{name}": text}, validation(policy, ("linger.ms",)))
            if name in allowed:
                assert errors == {}
            else:
                says = f"The '{policy}' policy does not allow '{name}' to be overridden in the connector configuration."
                assert errors == {f"producer.override.{name}": [says]}

    def test_transactions_are_refused(self) -> None:
        [[error]] = errors_of({**SOURCE, "producer.override.transactional.id": "x"}).values()
        assert "no transactions" in error

    def test_overrides_of_unused_clients_are_not_checked(self) -> None:
        assert errors_of({**SINK, "producer.override.transactional.id": "x"}) == {}

    def test_a_setting_with_two_errors_counts_as_one_error(self) -> None:
        config = {**SOURCE, "producer.override.linger.ms": "x"}
        assert validation("None").validate(config).error_count == 1

    def test_a_login_is_hidden(self) -> None:
        infos = validation().validate({**SOURCE, "producer.override.sasl.jaas.config": "secret"})
        assert infos.configs[-1].value.value == "[hidden]"


class TestConverters:
    def test_settings_of_the_connectors_own_converter_are_checked(self) -> None:
        config = {**SOURCE, "value.converter": "JsonConverter", "value.converter.schemas.enable": "maybe"}
        assert [*errors_of(config)] == ["value.converter.schemas.enable"]
        assert "Schemas" in validation().validate(config).groups

    def test_settings_of_the_workers_converter_are_not_checked(self) -> None:
        assert errors_of({**SOURCE, "value.converter.schemas.enable": "maybe"}) == {}

    def test_a_header_converter_is_not_a_converter(self) -> None:
        assert "Not a Converter" in errors_of({**SOURCE, "key.converter": "SimpleHeaderConverter"})["key.converter"][0]


class TestOwnSettings:
    def test_own_settings_are_shown_if_they_are_set(self) -> None:
        names = [info.value.name for info in validation().validate({**SINK, "barnabas.batch.records.max": "5"}).configs]
        assert "barnabas.batch.records.max" in names
        assert "barnabas.trigger.interval.ms" not in names
        assert [*errors_of({**SINK, "barnabas.batch.records.max": "0"})] == ["barnabas.batch.records.max"]

    @pytest.mark.parametrize("name", ["barnabas.triger.interval.ms", "barnabas.task.partitions"])
    def test_unknown_settings_with_our_prefix_are_refused(self, name: str) -> None:
        assert "no such setting exists" in errors_of({**SINK, name: "5"})[name][0]


class TestSecrets:
    def checks(self, folder: Path) -> ConnectorValidation:
        (folder / "secret").write_text("bad-pässword")
        provider = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
        providers = ConfigProviders({"config.providers": "dir", "config.providers.dir.class": provider})
        defaults = ValidationDefaults("cc", {"key": "Json", "value": "Json", "header": "Json"})
        return ConnectorValidation(registry(), defaults, providers)

    @pytest.mark.parametrize("name", ["url", "password", "tasks.max", "elsewhere", "producer.override.linger.ms"])
    def test_resolved_secrets_are_used_and_never_shown(self, tmp_path: Path, name: str) -> None:
        reference = f"${{dir:{tmp_path}:secret}}"
        config = {"name": "v", "connector.class": "Picky", "password": "x", name: reference}
        infos = self.checks(tmp_path).validate(config)
        assert "pässword" not in repr(infos)
        if name != "elsewhere":
            assert reference in [info.value.value for info in infos.configs]
        if name == "url":
            assert f"can't connect to {reference}" in repr(infos)

    @pytest.mark.parametrize("name", ["url", "password", "tasks.max", "elsewhere", "producer.override.linger.ms"])
    def test_a_missing_secret_is_an_error_of_its_setting(self, tmp_path: Path, name: str) -> None:
        reference = f"${{dir:{tmp_path}:other}}"
        config = {"name": "v", "connector.class": "Picky", "password": "x", name: reference}
        errors = errors_of(config, self.checks(tmp_path))
        assert [*errors] == [name]
        assert "can't read" in errors[name][-1]

    def test_a_reference_to_an_unknown_provider_is_kept_unchanged(self, tmp_path: Path) -> None:
        assert errors_of({**SOURCE, "file": "${vault:a:b}"}, self.checks(tmp_path)) == {}


def test_a_sink_of_the_example_is_a_sink() -> None:
    assert registry().connector_type({"connector.class": FileStreamSinkConnector.__name__}) == "sink"
    assert registry().connector_type({"connector.class": "NoSuch"}) == "unknown"
    assert registry().connector_version({"connector.class": "Picky"}) == "2.1"


@pytest.mark.parametrize("setting", ["transforms", "predicates", "topic.creation.groups"])
def test_a_list_of_too_many_aliases_is_refused_without_checking_each(setting: str) -> None:
    config = {"connector.class": "MockSource", "name": "m", setting: ",".join(f"a{number}" for number in range(5000))}
    config["topic.creation.default.partitions"] = "1"
    config["topic.creation.default.replication.factor"] = "1"
    defaults = ValidationDefaults("g", dict.fromkeys(("key", "value", "header"), "JsonConverter"))
    infos = ConnectorValidation(discover([]), defaults).validate(config).configs
    [errors] = [info.value.errors for info in infos if info.value.name == setting]
    assert "It has 5000 entries; at most 100 can be used." in errors[0]
    assert len(infos) < 1000
