"""The settings of PostgresChanges, and the forms of its events' names."""

from __future__ import annotations

import pytest

from barnabas.connect.plugins.testing import ConnectorKit
from barnabas.connect_spark.connectors.postgresql.debezium.column_types import Modes, PostgresType, value_plan
from barnabas.connect_spark.connectors.postgresql.debezium.envelope import event_plan
from barnabas.connect_spark.connectors.postgresql.debezium.events import Table
from barnabas.connect_spark.connectors.postgresql.pgoutput.messages import Column
from barnabas.connect_spark.connectors.postgresql.postgres_changes import PostgresChanges
from barnabas.connect_spark.connectors.postgresql.settings import ChangesSettings

SETTINGS = {
    "database.hostname": "127.0.0.1",
    "database.user": "cdc",
    "database.password": "hidden-password",
    "database.dbname": "shop",
    "topic.prefix": "shop",
}


def settings(**more: str) -> dict[str, str]:
    return {**SETTINGS, **{name.replace("_", "."): value for name, value in more.items()}}


def test_settings_of_debezium_are_valid() -> None:
    assert ConnectorKit(PostgresChanges, settings(plugin_name="pgoutput", slot_drop_on_stop="false")).errors == {}


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("plugin.name", "decoderbufs", "remove it, or write pgoutput"),
        ("column.exclude.list", "public.t.secret", "remove it, or write nothing"),
        ("provide.transaction.metadata", "true", "remove it, or write false"),
        ("slot.name", "My-Slot", "up to 63 of a-z, 0-9 and _"),
        ("topic.prefix", "a b", "characters that a topic's name can't have"),
        ("skipped.operations", "c,x", "x is unknown"),
        ("table.include.list", "public.(", "is not a regular expression"),
        ("decimal.handling.mode", "exact", "precise"),
        ("snapshot.mode", "always", "initial"),
        ("publication.autocreate.mode", "some", "filtered"),
    ],
)
def test_a_setting_that_can_not_be_used_is_named(name: str, value: str, reason: str) -> None:
    errors = ConnectorKit(PostgresChanges, {**SETTINGS, name: value}).errors
    assert [*errors] == [name]
    assert reason in errors[name][0]


def test_a_list_matches_whole_names() -> None:
    parsed = ChangesSettings.of(
        PostgresChanges.config_def.parse(settings(table_include_list=r"public\.orders,audit\..*"))
    )
    assert [parsed.includes(name) for name in ("public.orders", "public.orders2", "audit.x", "x.audit.x")] == [
        True,
        False,
        True,
        False,
    ]
    assert "hidden-password" not in repr(parsed)


def test_a_topic_has_no_character_that_is_not_allowed() -> None:
    table = Table("public", "größe 2", (Column("id", 23, -1, True),), ("id",))
    plan = event_plan("shop", table, {23: PostgresType("int4")}, Modes())
    assert plan.topic == "shop.public.gr__e_2"
    assert plan.value.name == "shop.public.gr__e_2.Envelope"
    assert plan.key is not None
    assert [field.schema.optional for field in plan.key.fields] == [False]


@pytest.mark.parametrize(
    ("modes", "type_name", "modifier", "schema"),
    [
        (Modes(), "timestamp", 3, "io.debezium.time.Timestamp"),
        (Modes(), "timestamp", -1, "io.debezium.time.MicroTimestamp"),
        (Modes(), "time", 3, "io.debezium.time.Time"),
        (Modes(times="adaptive_time_microseconds"), "time", 3, "io.debezium.time.MicroTime"),
        (Modes(times="connect"), "timestamp", 6, "org.apache.kafka.connect.data.Timestamp"),
        (Modes(times="connect"), "date", -1, "org.apache.kafka.connect.data.Date"),
        (Modes(), "numeric", (8 << 16 | 2) + 4, "org.apache.kafka.connect.data.Decimal"),
        (Modes(), "numeric", -1, "io.debezium.data.VariableScaleDecimal"),
        (Modes(), "numeric", (60 << 16 | 2) + 4, "io.debezium.data.VariableScaleDecimal"),
        (Modes(decimals="double"), "numeric", -1, None),
        (Modes(), "bit", 8, "io.debezium.data.Bits"),
        (Modes(), "uuid", -1, "io.debezium.data.Uuid"),
        (Modes(), "tsvector", -1, None),
    ],
)
def test_schemas_have_the_names_of_debezium(modes: Modes, type_name: str, modifier: int, schema: str | None) -> None:
    assert value_plan(1, modifier, {1: PostgresType(type_name)}, modes).schema.name == schema


def test_domains_arrays_and_enumerations() -> None:
    types = {
        1: PostgresType("small", "d", base=2, base_modifier=(4 << 16 | 1) + 4),
        2: PostgresType("numeric"),
        3: PostgresType("_mood", element=4),
        4: PostgresType("mood", "e", labels=("sad", "happy")),
    }
    assert dict(value_plan(1, -1, types, Modes()).schema.parameters)["scale"] == "1"
    moods = value_plan(3, -1, types, Modes())
    assert moods.convert("{sad,NULL}") == ["sad", None]
    assert moods.unavailable == ["__debezium_unavailable_value"]
    assert dict(moods.schema.item.parameters) == {"allowed": "sad,happy"}
