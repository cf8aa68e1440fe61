"""What a user may write, and how the work is split."""

from __future__ import annotations

import pytest

from barnabas.connect.plugins.testing import ConnectorKit
from barnabas.connect_spark.connectors.nexmark.nexmark_source import NexmarkSource


@pytest.mark.parametrize("time", ["2015-07-15", "2015-07-15T00:00:00", "yesterday"])
def test_a_start_without_a_zone_is_refused_with_an_example(time: str) -> None:
    errors = ConnectorKit(NexmarkSource, {"event.time.start": time}).errors
    assert [*errors] == ["event.time.start"]
    assert "such as 2015-07-15T00:00:00Z" in errors["event.time.start"][0]


def test_every_task_has_shares_and_there_are_no_more_tasks_than_shares() -> None:
    kit = ConnectorKit(NexmarkSource, {})
    assert [config["nexmark.shares"] for config in kit.task_configs(3)] == [
        "0,3,6,9,12,15",
        "1,4,7,10,13",
        "2,5,8,11,14",
    ]
    assert len(kit.task_configs(40)) == 16


def test_a_share_that_does_not_exist_is_refused() -> None:
    assert NexmarkSource.alter_offsets({}, [({"nexmark.share": 15}, {"next": 7})])
    assert NexmarkSource.alter_offsets({}, [({"nexmark.share": 16}, None)])
    with pytest.raises(ValueError, match="a share from 0 to 15"):
        NexmarkSource.alter_offsets({}, [({"nexmark.share": 16}, {"next": 7})])
    with pytest.raises(ValueError, match="must be like"):
        NexmarkSource.alter_offsets({}, [({"nexmark.share": 1}, {"next": -7})])
