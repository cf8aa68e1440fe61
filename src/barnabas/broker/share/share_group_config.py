"""The settings of share groups: those of the node, and what a group has set instead.

They are read from the metadata image each time they are needed, so that a change takes effect immediately.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from barnabas.common.config_codes import ConfigResourceType
from barnabas.coordinator.share_partition.share_partition_settings import SharePartitionSettings
from barnabas.metadata.image.configs import ConfigResource

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from barnabas.broker.share.share_partition_config import Bounds, SharePartitionConfig
    from barnabas.metadata.image.configs import ConfigsImage

__all__ = ["ShareGroupConfig", "ShareGroupConfigs", "reset_age_ms"]

_BY_DURATION = "by_duration:"
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d*)?)S)?)?", re.IGNORECASE)


class ShareGroupConfig(NamedTuple):
    """The settings of a group."""

    limits: SharePartitionSettings
    is_committed_only: bool
    auto_offset_reset: str


class ShareGroupConfigs:
    """``configs`` returns the configs of the current metadata image."""

    def __init__(self, node: SharePartitionConfig, configs: Callable[[], ConfigsImage]) -> None:
        self._node = node
        self._configs = configs
        self._image: ConfigsImage | None = None
        self._by_group: dict[str, ShareGroupConfig] = {}

    def of(self, group_id: str) -> ShareGroupConfig:
        image = self._configs()
        if image is not self._image:
            self._image = image
            self._by_group = {}
        config = self._by_group.get(group_id)
        if config is None:
            resource = ConfigResource(int(ConfigResourceType.GROUP), group_id)
            config = self._by_group[group_id] = self._resolve(image.of(resource))
        return config

    def _resolve(self, configs: Mapping[str, str]) -> ShareGroupConfig:
        node = self._node
        return ShareGroupConfig(
            SharePartitionSettings(
                record_lock_duration_ms=_within(node.record_lock_duration_ms, configs, "share.record.lock.duration.ms"),
                delivery_count_limit=_within(node.delivery_count_limit, configs, "share.delivery.count.limit"),
                partition_max_record_locks=_within(
                    node.partition_max_record_locks, configs, "share.partition.max.record.locks"
                ),
                renew_acknowledge_enable=configs.get("share.renew.acknowledge.enable", "true").lower() == "true",
            ),
            is_committed_only=configs.get("share.isolation.level", "read_uncommitted").lower() == "read_committed",
            auto_offset_reset=configs.get("share.auto.offset.reset", "latest"),
        )


def _within(bounds: Bounds, configs: Mapping[str, str], name: str) -> int:
    """Return the group's value. If the node's bounds were changed after it was set, the nearest allowed one."""
    text = configs.get(name)
    return bounds.default if text is None else min(max(int(text), bounds.least), bounds.most)


def reset_age_ms(auto_offset_reset: str) -> int | None:
    """Return how old the first records of a new group may be; None if the reset is not by duration."""
    if not auto_offset_reset.startswith(_BY_DURATION):
        return None
    match = _DURATION.fullmatch(auto_offset_reset[len(_BY_DURATION) :])
    days, hours, minutes, seconds = match.groups("0") if match else ("0",) * 4
    return int(days) * 86_400_000 + int(hours) * 3_600_000 + int(minutes) * 60_000 + int(float(seconds) * 1000)
