"""The controller of a node: the parts that ``controller`` in ``process.roles`` adds to the core."""

from __future__ import annotations

import logging
import os
import random
from functools import partial
from typing import TYPE_CHECKING

from barnabas.common.uuid import Uuid
from barnabas.controller.quorum_controller import QuorumController
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.server.component_configs import controller_config
from barnabas.server.controller.dispatcher import ControllerDispatcher
from barnabas.server.controller.quorum_handlers import SERVED_IN_PROCESS, QuorumHandlers
from barnabas.server.controller.registration import ControllerRegistration
from barnabas.server.controller.service import ControllerService
from barnabas.server.controller_channel.broker_principal import own_context, own_principal
from barnabas.server.controller_channel.combined import CombinedChannel
from barnabas.server.controller_channel.in_process import InProcessChannel
from barnabas.server.settings.encryption_keys import offered_features
from barnabas.storage.bootstrap_file import read_bootstrap_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.network.request_metrics import ApiStats
    from barnabas.protocol.api_keys import ApiKey
    from barnabas.server.controller.policy_worker import Policies
    from barnabas.server.controller_channel.network import NetworkChannel
    from barnabas.server.listeners.node_listeners import NodeListeners
    from barnabas.server.node_core import NodeCore
    from barnabas.server.settings.endpoints import Endpoint

__all__ = ["ControllerPart"]

log = logging.getLogger("barnabas.server.node")


class ControllerPart:
    """``channel`` leads to the active controller: to this one without a network, or to another one."""

    def __init__(self, core: NodeCore, make_remote: Callable[[], NetworkChannel]) -> None:
        config = core.config
        self._core = core
        self.stats: dict[ApiKey, ApiStats] = {}
        self.own_principal = own_principal(config)
        self._service = ControllerService(clock=core.clock, turn_times=core.turn_times)
        self.policies = self._policies()
        self.controller = QuorumController(
            controller_config(config, core.identity, self.policies, core.config_cipher),
            clock=core.clock,
            new_uuid=lambda: Uuid(os.urandom(16)),
            random_int=random.SystemRandom().randrange,
            bootstrap=[
                ApiMessageAndVersion(record, 0)
                for record in read_bootstrap_file(config.metadata_log_dir, core.serde) or ()
            ],
            on_appends=self._service.wake,
            on_fault=lambda fault: log.error("controller fault", exc_info=fault),
            describe_quorum=core.driver.describe_quorum,
            upgrade_quorum=core.driver.upgrade_kraft_version,
        )
        self.channel = CombinedChannel(
            InProcessChannel(
                controller=self.controller,
                handlers=QuorumHandlers(
                    core.driver, self.policies, served=SERVED_IN_PROCESS, turn_times=core.turn_times
                ),
                authorizer=core.authorizer,
                own_context=partial(own_context, config, self.own_principal),
                notice_time=core.driver.notice_time,
            ),
            self.controller,
            is_alone=lambda: core.driver.node.is_only_voter,
            make_remote=make_remote,
        )
        self.registration = ControllerRegistration(
            self.channel.send,
            node_id=config.node_id,
            incarnation_id=Uuid(os.urandom(16)),
            features=offered_features(core.config_cipher),
        )
        self.connections = core.connection_quotas(config.controller_listeners)

    def _policies(self) -> Policies | None:
        config = self._core.config
        if not (config.create_topic_policy_class_name or config.alter_config_policy_class_name):
            return None
        from barnabas.server.controller.policy_worker import policies_of  # A node without policies does not load it.

        return policies_of(config)

    async def bind(self, listeners: NodeListeners) -> None:
        core = self._core
        handlers = QuorumHandlers(core.driver, self.policies, turn_times=core.turn_times)
        for endpoint in core.config.controller_listeners:
            dispatcher = ControllerDispatcher(
                server=self.controller,
                handlers=handlers,
                authorizer=core.authorizer,
                stats=self.stats,
                ready=core.authorization.ready,
                security_protocol=endpoint.security_protocol,
                limits=core.request_limits,
                work=core.long_work,
                deserialize=partial(listeners.deserialize_principal, endpoint.listener),
                notice_time=core.driver.notice_time,
            )
            await listeners.open(endpoint, dispatcher, self.connections)

    def connect(self) -> None:
        """Start the controller. From now on its decisions are appended to the log."""
        self._service.connect(self._core.driver, self.controller)

    def advertised(self, listeners: NodeListeners) -> list[Endpoint]:
        config = self._core.config
        return listeners.advertised(config.advertised_controller_listeners or config.controller_listeners)

    async def join(self, listeners: NodeListeners) -> None:
        """Register this controller at the active one. Raise ApiException if it refuses."""
        await self.registration.register(self.advertised(listeners))

    def close(self) -> None:
        self.registration.close()
        self._service.close()

    def close_policies(self) -> None:
        if self.policies is not None:
            self.policies.close()
