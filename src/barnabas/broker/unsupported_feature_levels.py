"""Logs a warning when the level of a feature is raised whose APIs this broker does not serve.

The level itself is valid: a directory may move to a Kafka that serves the feature. Only levels that were raised since
this node started are logged, not those from the formatting of the cluster.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage
    from barnabas.metadata.publisher import LoaderManifest

__all__ = ["FeatureNotices"]

log = logging.getLogger(__name__)


class FeatureNotices:
    def __init__(self, *, is_served: Callable[[str], bool]) -> None:
        self._is_served = is_served
        self._levels: dict[str, int] | None = None

    def publish(self, delta: MetadataDelta, new_image: MetadataImage, manifest: LoaderManifest) -> None:
        if new_image.features.metadata_version is None or (self._levels is not None and delta.features is None):
            return
        before, self._levels = self._levels, new_image.features.all_levels()
        if before is None:
            return
        for name, level in self._levels.items():
            if level > before.get(name, 0) and not self._is_served(name):
                log.warning("%s is now at level %d, but this broker does not serve its APIs to clients", name, level)
