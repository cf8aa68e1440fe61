from __future__ import annotations

from collections.abc import Mapping

import pytest

from barnabas.common.config_value import ConfigException
from barnabas.connect.decide.validation.transforms_config import TRANSFORMS
from barnabas.connect_spark.transforms.date_patterns import spark_pattern
from barnabas.connect_spark.transforms.field_path import path_of
from barnabas.connect_spark.transforms.field_transforms import ExtractField
from barnabas.connect_spark.transforms.record_expressions import Side
from barnabas.connect_spark.transforms.transform_chain import TransformChain, transform_of

_ENOUGH: Mapping[str, Mapping[str, str]] = {
    "Cast": {"spec": "a:int32"},
    "DropHeaders": {"headers": "a"},
    "ExtractField": {"field": "a"},
    "HeaderFrom": {"fields": "a", "headers": "b", "operation": "copy"},
    "HoistField": {"field": "a"},
    "InsertField": {"topic.field": "a"},
    "InsertHeader": {"header": "a", "value.literal": "b"},
    "MaskField": {"fields": "a"},
    "RegexRouter": {"regex": "a", "replacement": "b"},
    "SetSchemaMetadata": {"schema.name": "a"},
    "TimestampConverter": {"target.type": "unix"},
    "ValueToKey": {"fields": "a"},
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_every_transform_that_validation_knows_exists(name: str) -> None:
    simple, _, side = name.partition("$")
    transform = transform_of(name, dict(_ENOUGH.get(simple, {})))
    assert transform.name == simple
    if side:
        assert getattr(transform, "side") is Side(side.lower())  # noqa: B009


def test_full_and_simple_names_mean_the_same_transform() -> None:
    def chain(name: str) -> TransformChain:
        return TransformChain.of({"transforms": "t", "transforms.t.type": name, "transforms.t.field": "a"})

    assert chain("org.apache.kafka.connect.transforms.ExtractField$Value") == chain("ExtractField$Value")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"transforms": "t"}, "transforms.t.type: no such transform"),
        ({"transforms": "t", "transforms.t.type": "Odd"}, "transforms.t.type"),
        ({"transforms": "t", "transforms.t.type": "Cast$Value", "transforms.t.spec": "a:odd"}, "transforms.t.spec"),
        (
            {"transforms": "t", "transforms.t.type": "Cast$Value", "transforms.t.spec": "int8,a:int8"},
            "transforms.t.spec",
        ),
        ({"transforms": "t", "transforms.t.type": "InsertField$Key"}, "No field insertion configured"),
        (
            {"transforms": "t", "transforms.t.type": "InsertField$Key", "transforms.t.static.field": "a"},
            "transforms.t.static.value",
        ),
        ({"transforms": "t", "transforms.t.type": "Filter", "transforms.t.predicate": "p"}, "transforms.t.predicate"),
        ({"predicates": "p", "predicates.p.type": "Odd"}, "predicates.p.type"),
        (
            {"transforms": "t", "transforms.t.type": "TimestampRouter", "transforms.t.timestamp.format": "ww"},
            "transforms.t.timestamp.format",
        ),
    ],
)
def test_an_invalid_setting_is_named(config: Mapping[str, str], message: str) -> None:
    with pytest.raises(ConfigException) as error:
        TransformChain.of(config)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("a", ("a",)),
        ("a.b.c", ("a", "b", "c")),
        ("`a.b`.c", ("a.b", "c")),
        ("a.`b.c`", ("a", "b.c")),
        ("a`b.c", ("a`b", "c")),
        ("`a\\`.b`.c", ("a`.b", "c")),
        ("", ("",)),
    ],
)
def test_a_path_has_dots_and_backticks(path: str, steps: tuple[str, ...]) -> None:
    assert path_of("field", path) == steps


def test_a_path_with_an_unclosed_backtick_is_refused() -> None:
    with pytest.raises(ConfigException, match="is not closed"):
        path_of("field", "`a.b")


def test_a_dot_is_part_of_the_name_unless_the_syntax_version_is_v2() -> None:
    assert transform_of("ExtractField$Value", {"field": "a.b"}) == ExtractField("a.b", ("a.b",), True)


def test_quoted_text_may_contain_any_character() -> None:
    assert spark_pattern("format", "yyyy'week'MM") == "yyyy'week'MM"
