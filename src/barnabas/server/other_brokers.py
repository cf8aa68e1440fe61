"""Asks other brokers, over the listener that they use among each other, and in this broker's own name."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, cast

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.metadata.image.configs import ConfigResourceType
from barnabas.metadata.topic_default_differences import (
    SETTINGS_OF_TOPIC_DEFAULTS,
    static_settings,
    topic_default_differences,
)
from barnabas.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)

if TYPE_CHECKING:
    from barnabas.protocol.schema import Message
    from barnabas.server.node_core import NodeCore

__all__ = ["OtherBrokers", "compare_topic_defaults"]

log = logging.getLogger(__name__)


class OtherBrokers:
    """Implements the broker's port of the same name. It asks rarely: a connection serves one request."""

    def __init__(self, core: NodeCore) -> None:
        self._core = core

    async def ask(self, broker_id: int, request: Message) -> Message:
        """Raises BROKER_NOT_AVAILABLE, with the reason."""
        from barnabas.clients.client_config import Address
        from barnabas.clients.errors import ClientError
        from barnabas.clients.network_client import NetworkClient
        from barnabas.server.inter_broker_client import inter_broker_client_config
        from barnabas.server.node_storage import NodeStartError

        config = self._core.config
        broker = self._core.metadata.image.cluster.brokers.get(broker_id)
        listener = None if broker is None else broker.listeners.get(config.inter_broker_listener_name)
        if listener is None:
            raise _unavailable(broker_id, f"it has no listener {config.inter_broker_listener_name}")
        try:
            async with NetworkClient(
                inter_broker_client_config(config, client_id=f"broker-{config.node_id}")
            ) as client:
                connection = await client.connection_to(Address(listener.host, listener.port))
                return cast("Message", await connection.request(request))
        except (ClientError, NodeStartError) as error:
            raise _unavailable(broker_id, str(error)) from error


def _unavailable(broker_id: int, why: str) -> ApiException:
    return ApiException(ErrorCode.BROKER_NOT_AVAILABLE, f"Broker {broker_id} can't be asked: {why}")


async def compare_topic_defaults(core: NodeCore, others: OtherBrokers) -> None:
    """Warn of brokers whose files have other defaults of topics; those that can't be asked are passed over."""
    config = core.config
    own = {name: text for name, text in config.static.items() if name in SETTINGS_OF_TOPIC_DEFAULTS}
    brokers = core.metadata.image.cluster.brokers
    for broker_id in sorted(each.id for each in brokers.values() if each.is_active and each.id != config.node_id):
        resource = DescribeConfigsResource(
            resource_type=ConfigResourceType.BROKER,
            resource_name=str(broker_id),
            configuration_keys=list(SETTINGS_OF_TOPIC_DEFAULTS),
        )
        request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
        try:
            answer = cast("DescribeConfigsResponse", await others.ask(broker_id, request))
        except ApiException as error:
            log.debug("the settings of broker %d are not compared with this one's: %s", broker_id, error)
            continue
        (result,) = answer.results
        if result.error_code:
            log.debug("broker %d does not tell its settings: %s", broker_id, result.error_message)
            continue
        for difference in topic_default_differences(own, static_settings(result.configs)):
            log.warning(
                "topics without %s of their own have %s here and %s on broker %d: they behave by the one that leads "
                "them -> give %s the same value on both",
                difference.topic_setting,
                difference.own,
                difference.other,
                broker_id,
                " or ".join(difference.broker_settings),
            )
