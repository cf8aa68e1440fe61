"""Settings of SqlPipeline, and what is wrong with them, without Spark."""

from __future__ import annotations

import pytest

from barnabas.connect.plugins.testing import ConnectorKit
from barnabas.connect_spark.sql.sql_pipeline import SqlPipeline

TOPIC = {
    "inputs": "orders",
    "inputs.orders.topic": "orders",
    "inputs.orders.format": "json",
    "query": "SELECT id FROM orders",
    "output.topic": "ids",
}
LAKE = {"inputs": "orders,shops", "inputs.shops.table": "iceberg:lake.shops"}
TABLE = {**TOPIC, "output.topic": "", "output.mode": "upsert", "output.key": "id"}


@pytest.mark.parametrize(
    "own",
    [
        {},
        {"output.topic": "", "output.table": "parquet:/lake/ids", "output.partition.by": "date"},
        {**TABLE, "output.table": "delta:/lake/ids", "output.auto.evolve": "true", "output.delete.when": "id < 0"},
        {**TABLE, "output.table": "jdbc:sqlite:/lake/ids.db", "output.table.name": "ids"},
        {
            **TABLE,
            "output.table": "iceberg:lake.ids",
            "output.catalog.type": "hadoop",
            "output.catalog.warehouse": "/lake",
        },
    ],
)
def test_settings_without_mistakes_are_accepted(own: dict[str, str]) -> None:
    assert ConnectorKit(SqlPipeline, {**TOPIC, **own}).errors == {}


@pytest.mark.parametrize(
    ("own", "setting", "text"),
    [
        ({"query": "DROP TABLE orders"}, "query", "DROP is not a query"),
        ({"inputs.orders.format": "jsn"}, "inputs.orders.format", "jsn is not a format"),
        ({"output.table": "delta:/a"}, "output.topic", "Set either"),
        ({"state.location": "states"}, "state.location", "not an absolute path"),
        ({"transforms": "a"}, "transforms", "remove transforms"),
        ({"transaction.boundary": "connector"}, "transaction.boundary", ""),
        ({"shuffle.partitions": "0"}, "shuffle.partitions", ""),
        (
            {"output.topic": "", "output.table": "delta:/lake/a", "output.auto.evlove": "true"},
            "output.auto.evlove",
            "No such setting for delta:/lake/a",
        ),
        (
            {"output.topic": "", "output.table": "parquet:/lake/a", "output.partition.by": "shop"},
            "output.partition.by",
            "allowed",
        ),
        ({**TABLE, "output.table": "jdbc:sqlite:/a.db"}, "output.table.name", "Set it"),
        ({**TABLE, "output.table": "iceberg:ids", "output.catalog.type": "hadoop"}, "output.table", "namespace"),
        (
            {**LAKE, "inputs.shops.catalog.type": "rest"},
            "inputs.shops.catalog.uri",
            "needs the URL of the REST catalog",
        ),
        (
            {**LAKE, "inputs.shops.catalog.type": "hadoop", "inputs.shops.catalog.warehouse": "s3a://lake"},
            "inputs.shops.catalog.warehouse",
            "commits would be lost",
        ),
    ],
)
def test_a_mistake_is_reported_by_the_setting_that_has_it(own: dict[str, str], setting: str, text: str) -> None:
    errors = ConnectorKit(SqlPipeline, {**TOPIC, **own}).errors
    assert text in " ".join(errors[setting])


def test_a_task_waits_for_topics_that_do_not_exist() -> None:
    kit = ConnectorKit(SqlPipeline, TOPIC, topics={"orders": 2})
    assert kit.task_configs(max_tasks=3) == [kit.config]
    assert ConnectorKit(SqlPipeline, TOPIC, topics={}).task_configs(max_tasks=3) == []


def test_offsets_of_inputs_can_be_altered() -> None:
    position = {"input": "orders", "topic": "orders", "partition": 0}
    assert SqlPipeline.alter_offsets(TOPIC, [(position, {"offset": 3}), ({"pipeline": "state"}, None)])
    with pytest.raises(ValueError, match="must be like"):
        SqlPipeline.alter_offsets(TOPIC, [({**position, "topic": "other"}, {"offset": 3})])
