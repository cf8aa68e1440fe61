"""Warns about brokers whose files set other topic defaults. Imported only if other brokers exist."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from barnabas.common.errors import ApiException
from barnabas.metadata.image.configs import ConfigResourceType
from barnabas.metadata.topic_default_differences import (
    SETTINGS_OF_TOPIC_DEFAULTS,
    static_settings,
    topic_default_differences,
)
from barnabas.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)

if TYPE_CHECKING:
    from barnabas.server.broker.inter_broker_requests import OtherBrokers
    from barnabas.server.node_core import NodeCore

__all__ = ["compare_topic_defaults"]

log = logging.getLogger(__name__)


async def compare_topic_defaults(core: NodeCore, others: OtherBrokers) -> None:
    """Log a warning for each broker whose file has other topic defaults. Unreachable brokers are skipped."""
    config = core.config
    own = {name: text for name, text in config.static.items() if name in SETTINGS_OF_TOPIC_DEFAULTS}
    brokers = core.metadata.image.cluster.brokers
    for broker_id in sorted(
        broker.id for broker in brokers.values() if broker.is_active and broker.id != config.node_id
    ):
        resource = DescribeConfigsResource(
            resource_type=ConfigResourceType.BROKER,
            resource_name=str(broker_id),
            configuration_keys=list(SETTINGS_OF_TOPIC_DEFAULTS),
        )
        request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
        try:
            answer = await others.ask(broker_id, request)
        except ApiException as error:
            log.debug("the settings of broker %d are not compared with this one's: %s", broker_id, error)
            continue
        (result,) = answer.results
        if result.error_code:
            log.debug("broker %d does not return its settings: %s", broker_id, result.error_message)
            continue
        for difference in topic_default_differences(own, static_settings(result.configs)):
            log.warning(
                "topics that do not set %s have %s here and %s on broker %d: the value of the leader applies "
                "-> give %s the same value on both",
                difference.topic_setting,
                difference.own,
                difference.other,
                broker_id,
                " or ".join(difference.broker_settings),
            )
