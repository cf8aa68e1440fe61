from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from barnabas.connect.decide.tasks.transaction_requests import TransactionEnd, TransactionRequests
from barnabas.connect.plugins.api import Config, SourceOffset
from barnabas.connect.plugins.testing import ConnectorKit
from tests.unit.connect.plugins.example_connectors import FileStreamSinkConnector, FileStreamSourceConnector


class TooMany(FileStreamSourceConnector):
    def task_configs(self, max_tasks: int) -> Sequence[Config]:
        return [dict(self.config)] * (max_tasks + 1)


class NoStrings(FileStreamSourceConnector):
    def task_configs(self, max_tasks: int) -> Sequence[Config]:
        return [{"rows": 5}]  # type: ignore[dict-item]


class ByTopic(FileStreamSourceConnector):
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return [{**self.config, "topic": topic} for topic in self.context.partition_counts()][:max_tasks]


def test_the_kit_reports_the_errors_that_a_user_sees() -> None:
    assert ConnectorKit(FileStreamSourceConnector, {"topic": "t"}).errors == {}
    assert set(ConnectorKit(FileStreamSourceConnector, {"batch.size": "x"}).errors) == {"topic", "batch.size"}
    assert ConnectorKit(FileStreamSinkConnector, {}).errors == {}


def test_the_kit_splits_the_work() -> None:
    kit = ConnectorKit(ByTopic, {"topic": "t"}, topics={"a": 1, "b": 2})
    assert [config["topic"] for config in kit.task_configs(2)] == ["a", "b"]
    assert len(ConnectorKit(FileStreamSinkConnector, {}).task_configs(3)) == 3


@pytest.mark.parametrize("connector", [TooMany, NoStrings])
def test_a_connector_that_violates_the_rules_is_detected(connector: type[FileStreamSourceConnector]) -> None:
    with pytest.raises(AssertionError):
        ConnectorKit(connector, {"topic": "t"}).task_configs(1)


def test_a_task_can_read_its_stored_offsets() -> None:
    kit = ConnectorKit(FileStreamSourceConnector, {"topic": "t"})
    task = kit.task(offsets=[SourceOffset({"filename": "a"}, {"position": 7})])
    assert task.context.source_offset({"filename": "a"}) == {"position": 7}
    assert task.context.source_offset({"filename": "b"}) is None
    assert task.settings["batch.size"] == 2000


def test_a_task_of_the_kit_can_end_its_transactions() -> None:
    task = ConnectorKit(FileStreamSourceConnector, {"topic": "t", "transaction.boundary": "connector"}).task()
    requests = task.context.transactions
    assert isinstance(requests, TransactionRequests)
    requests.commit_transaction()
    assert requests.take() is TransactionEnd.COMMIT
    assert ConnectorKit(FileStreamSourceConnector, {"topic": "t"}).task().context.transactions is None
