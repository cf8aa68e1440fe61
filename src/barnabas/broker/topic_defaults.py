"""Follows the dynamic settings of brokers in the metadata log, which are the topic defaults on this broker.

``server.settings.dynamic_effects`` applies the other dynamic settings. Topic defaults apply before the client that
changed them receives its answer, so that the next created topic has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.broker_config import topic_defaults
from barnabas.metadata.config_resolution import BrokerLevels, effective_broker_values
from barnabas.metadata.image.configs import DEFAULT_BROKER, ConfigResource

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from barnabas.common.topic_config import TopicConfig
    from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage
    from barnabas.metadata.publisher import LoaderManifest

__all__ = ["TopicDefaultsPublisher"]


class TopicDefaultsPublisher:
    """Calls ``set_defaults`` whenever settings of this broker, or of all brokers, change the topic defaults."""

    def __init__(
        self,
        *,
        broker_id: int,
        static_configs: Mapping[str, str],
        set_defaults: Callable[[TopicConfig], None],
    ) -> None:
        self._own = ConfigResource.broker(broker_id)
        self._static = static_configs
        self._set_defaults = set_defaults
        self._current = topic_defaults(effective_broker_values(BrokerLevels(static_configs)))

    def publish(self, delta: MetadataDelta, new_image: MetadataImage, manifest: LoaderManifest) -> None:
        if delta.configs is None or not delta.configs.changes.keys() & {self._own, DEFAULT_BROKER}:
            return
        configs = new_image.configs
        levels = BrokerLevels(self._static, configs.of(DEFAULT_BROKER), configs.of(self._own))
        defaults = topic_defaults(effective_broker_values(levels))
        if defaults != self._current:
            self._current = defaults
            self._set_defaults(defaults)
