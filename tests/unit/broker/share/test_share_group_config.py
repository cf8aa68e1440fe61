"""The settings of share groups: the node's, and those that a group has instead."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from barnabas.broker.share.share_group_config import ShareGroupConfigs, reset_age_ms
from barnabas.broker.share.share_partition_config import SharePartitionConfig
from barnabas.common.config_codes import ConfigResourceType
from barnabas.metadata.image.configs import ConfigResource, ConfigsImage
from barnabas.metadata.persistent_map import PersistentMap


def configs_of(values: dict[str, str]) -> ShareGroupConfigs:
    stored: dict[ConfigResource, Mapping[str, str]] = {ConfigResource(int(ConfigResourceType.GROUP), "g"): values}
    image = ConfigsImage(PersistentMap(stored))
    return ShareGroupConfigs(SharePartitionConfig(), lambda: image)


def test_a_group_without_configs_has_those_of_the_node() -> None:
    config = configs_of({"share.delivery.count.limit": "3"}).of("other")
    assert config.limits == (30_000, 5, 2_000, True)
    assert not config.is_committed_only
    assert config.auto_offset_reset == "latest"


def test_a_group_may_have_its_own() -> None:
    config = configs_of(
        {
            "share.record.lock.duration.ms": "20000",
            "share.delivery.count.limit": "3",
            "share.partition.max.record.locks": "500",
            "share.renew.acknowledge.enable": "False",
            "share.isolation.level": "READ_COMMITTED",
            "share.auto.offset.reset": "earliest",
        }
    ).of("g")
    assert config.limits == (20_000, 3, 500, False)
    assert config.is_committed_only
    assert config.auto_offset_reset == "earliest"


@pytest.mark.parametrize(("stored", "effective"), [("1", 2), ("11", 10)])
def test_bounds_that_were_changed_later_hold(stored: str, effective: int) -> None:
    config = configs_of({"share.delivery.count.limit": stored}).of("g")
    assert config.limits.delivery_count_limit == effective


@pytest.mark.parametrize(
    ("reset", "age_ms"),
    [
        ("latest", None),
        ("earliest", None),
        ("by_duration:PT1.5S", 1_500),
        ("by_duration:P1DT2H3M4S", 93_784_000),
        ("by_duration:p2d", 172_800_000),
    ],
)
def test_a_group_may_start_at_the_records_of_some_time(reset: str, age_ms: int | None) -> None:
    assert reset_age_ms(reset) == age_ms
