"""The settings of converters with a registry: what they mean, and what is refused before anything is requested."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.clients.schema_registry.oauth_tokens import OauthTokens
from barnabas.clients.schema_registry.subject_names import SubjectNameStrategy
from barnabas.common.config_value import ConfigException
from barnabas.connect.plugins.discovery import built_in_plugins
from barnabas.connect_spark.converters.converter_registry import CONVERTERS, converter_of
from barnabas.connect_spark.converters.registry.avro_converter import ConfluentAvroConverter
from barnabas.connect_spark.converters.registry.json_schema_converter import JsonSchemaConverter
from barnabas.connect_spark.converters.registry.protobuf_converter import ConfluentProtobufConverter

AVRO = "io.confluent.connect.avro.AvroConverter"
URL = {"schema.registry.url": "http://a:8081, http://b:8081"}


def made(side: str = "value", **settings: str) -> Any:
    return converter_of(f"{side}.converter", AVRO, {**URL, **settings})


def test_confluents_names_are_known() -> None:
    assert CONVERTERS[AVRO] is ConfluentAvroConverter
    assert CONVERTERS["io.confluent.connect.json.JsonSchemaConverter"] is JsonSchemaConverter
    assert CONVERTERS["JsonSchemaConverter"] is JsonSchemaConverter
    assert CONVERTERS["io.confluent.connect.protobuf.ProtobufConverter"] is ConfluentProtobufConverter


def test_short_names_mean_one_converter() -> None:
    names = [name for plugin in built_in_plugins() if plugin.type.text == "converter" for name in plugin.short_names]
    assert len(names) == len(set(names))
    assert "JsonSchemaConverter" in names


def test_defaults_are_confluents() -> None:
    options = made().options
    assert (options.is_key, options.registers, options.uses_latest, options.is_strict) == (False, True, False, True)
    assert options.strategy is SubjectNameStrategy.TOPIC


def test_a_keys_converter_has_the_keys_strategy() -> None:
    strategies = {"key.subject.name.strategy": "RecordNameStrategy"}
    assert made("key", **strategies).options.strategy is SubjectNameStrategy.RECORD
    assert made("value", **strategies).options.strategy is SubjectNameStrategy.TOPIC


def test_credentials_are_those_of_the_source_that_is_set() -> None:
    access = made(
        **{"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": "bob:secret"}
    ).registry._access
    assert (access.user_info, access.token) == ("bob:secret", None)
    bearer = made(**{"bearer.auth.credentials.source": "STATIC_TOKEN", "bearer.auth.token": "t"}).registry._access
    assert bearer.token() == "t"
    oauth = {
        "bearer.auth.credentials.source": "OAUTHBEARER",
        "bearer.auth.issuer.endpoint.url": "http://idp",
        "bearer.auth.client.id": "me",
        "bearer.auth.client.secret": "hidden",
    }
    assert isinstance(made(**oauth).registry._access.token, OauthTokens)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"schema.registry.url": ""}, "value.converter.schema.registry.url"),
        ({"schema.registry.url": "ftp://bob:secret@a"}, "ftp://a: write a URL"),
        ({"basic.auth.credentials.source": "USER_INFO"}, "basic.auth.user.info"),
        ({"basic.auth.credentials.source": "SASL_INHERIT"}, "USER_INFO"),
        ({"bearer.auth.credentials.source": "STATIC_TOKEN"}, "bearer.auth.token"),
        ({"bearer.auth.credentials.source": "OAUTHBEARER"}, "bearer.auth.issuer.endpoint.url"),
        ({"value.subject.name.strategy": "Odd"}, "TopicRecordNameStrategy"),
        ({"max.retries": "-1"}, "max.retries"),
        (
            {"schema.registry.url": "https://a", "schema.registry.ssl.truststore.location": "/none.pem"},
            "schema.registry.ssl.truststore",
        ),
    ],
)
def test_what_can_not_work_is_refused_by_name(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigException) as caught:
        made(**settings)
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)


def test_headers_have_no_registry() -> None:
    with pytest.raises(ConfigException, match="no such converter"):
        converter_of("header.converter", AVRO, URL)
