from __future__ import annotations

from typing import Any

import pytest

from barnabas.connect.plugins.api import SourceConnector
from barnabas.connect_spark.connectors.files.files_to_topic import FilesToTopic
from barnabas.connect_spark.connectors.generator import Generator
from barnabas.connect_spark.connectors.jdbc.jdbc_source import JdbcSource
from barnabas.connect_spark.connectors.topic_to_topic import TopicToTopic

NUMBERS = {"generator": "numbers"}
ORDERS = {"cluster": "other", "topic": "orders", "partition": 1}
FILE = {"folder": "/in", "file": "a.csv"}


@pytest.mark.parametrize(
    ("connector", "partition", "offset"),
    [
        (Generator, NUMBERS, {"next": 7}),
        (TopicToTopic, ORDERS, {"offset": 0}),
        (FilesToTopic, FILE, {"size": 3, "modified": 1}),
        (Generator, {"by": "mistake"}, None),
        (TopicToTopic, ORDERS, None),
    ],
)
def test_a_valid_position_is_accepted_and_any_position_can_be_deleted(
    connector: type[SourceConnector], partition: Any, offset: Any
) -> None:
    assert connector.alter_offsets({}, [(partition, offset)])


@pytest.mark.parametrize(
    ("connector", "partition", "offset", "message"),
    [
        (Generator, {"generator": "letters"}, {"next": 7}, 'must be like {"generator": "numbers"}, not'),
        (Generator, NUMBERS, {"next": "x"}, 'must be like {"next": 0}, not {"next": "x"}'),
        (Generator, NUMBERS, {"next": True}, "must be like"),
        (Generator, NUMBERS, {"next": -1}, "must be like"),
        (Generator, None, {"next": 1}, "not null"),
        (TopicToTopic, {**ORDERS, "partition": "1"}, {"offset": 1}, "partition of this connector"),
        (TopicToTopic, ORDERS, {"offset": 1.5}, "offset of this connector"),
        (FilesToTopic, {"file": "a.csv"}, {"size": 3, "modified": 1}, "partition of this connector"),
        (FilesToTopic, FILE, {"size": 3}, "offset of this connector"),
    ],
)
def test_an_invalid_position_is_refused_immediately(
    connector: type[SourceConnector], partition: Any, offset: Any, message: str
) -> None:
    with pytest.raises(ValueError, match="must be like") as raised:
        connector.alter_offsets({}, [(partition, offset)])
    assert message in str(raised.value)


def test_the_position_of_a_table_that_is_no_longer_read_can_be_deleted() -> None:
    config = {"connection.url": "jdbc:sqlite:/x", "mode": "bulk", "topic.prefix": "p-", "table.whitelist": "new"}
    assert JdbcSource.alter_offsets(config, [({"protocol": "1", "table": "old"}, None)])
    with pytest.raises(ValueError, match="not a partition of this connector"):
        JdbcSource.alter_offsets(config, [({"protocol": "1", "table": "old"}, {"incrementing": 1})])
