"""Builds the authorizer of a node from its settings, loads its rules from the metadata log, and signals readiness.

One authorizer serves the broker and the controller of a combined node: both decide by the same log. Its publisher is
the loader's first, so that a topic is never visible before the rules that were written before it.

The rules are complete when the loader has published the log up to the high watermark that was known at its first
publication, as in KIP-801. Until then the authorizer has no rules, and only the early listeners read requests, through
a gate that passes principals that need no rules. Then it receives all rules together, which takes half as long as one
by one. From then on it follows the log.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.resource import CLUSTER_NAME, ResourceType
from barnabas.network.readiness_gate import ReadinessGate
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.security.authorizer.authorizer import AclAuthorizer, AllowAllAuthorizer, Authorizer
from barnabas.security.principal import ANONYMOUS
from barnabas.server.controller_channel.broker_principal import own_context
from barnabas.server.start_errors import NodeStartError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage
    from barnabas.metadata.loader import MetadataLoader
    from barnabas.metadata.publisher import LoaderManifest
    from barnabas.network.listener import Listener
    from barnabas.network.request_dispatcher import RequestDispatcher
    from barnabas.security.authorizer.acl_publisher import AclPublisher
    from barnabas.security.principal import Principal
    from barnabas.server.settings.node_config import NodeConfig

__all__ = ["NodeAuthorizer", "authorizer_of"]

log = logging.getLogger(__name__)

_NAMELESS_ADVICE = (
    "give the controller listener a protocol that authenticates clients (SASL_SSL, SSL), and add the broker's name to "
    f"super.users; {ANONYMOUS} there would allow every client that does not log in"
)


def authorizer_of(config: NodeConfig) -> Authorizer:
    """Create the configured authorizer, still without rules. Raise NodeStartError if it refuses its settings."""
    if not config.authorizer_class_name:
        return AllowAllAuthorizer()
    from barnabas.security.authorizer.guarded_authorizer import guarded
    from barnabas.security.authorizer.standard_authorizer import StandardAuthorizer
    from barnabas.server.settings.authorizer import authorizer_class

    settings = {
        **config.static,
        "super.users": config.super_users,
        "allow.everyone.if.no.acl.found": str(config.allow_everyone_if_no_acl_found).lower(),
    }
    try:
        authorizer = authorizer_class(config.authorizer_class_name)()
        authorizer.configure(settings)
    except Exception as error:  # A user's class may raise anything.
        name = config.authorizer_class_name
        raise NodeStartError(
            f"authorizer.class.name={name} can't be created from its settings: {type(error).__name__}: {error}"
        ) from error
    return authorizer if type(authorizer) is StandardAuthorizer else guarded(authorizer)


class NodeAuthorizer:
    """``ready`` is set once all principals can be served, ``applied`` (never before it) once the log is read."""

    def __init__(self, config: NodeConfig, *, high_watermark: Callable[[], int | None]) -> None:
        self.authorizer = authorizer_of(config)
        self.ready = asyncio.Event()
        self.applied = asyncio.Event()
        self._config = config
        self._high_watermark = high_watermark
        self._target: int | None = None
        self._gated: list[tuple[Listener, RequestDispatcher]] = []
        self._rules: AclPublisher | None = None
        if isinstance(self.authorizer, AclAuthorizer):
            from barnabas.security.authorizer.acl_publisher import AclPublisher

            self._rules = AclPublisher(self.authorizer)
        else:
            self.ready.set()

    @property
    def is_absent(self) -> bool:
        return isinstance(self.authorizer, AllowAllAuthorizer)

    def install(self, loader: MetadataLoader) -> None:
        """Install the publisher; call this before any other publisher is installed."""
        loader.install(self)

    # --- MetadataPublisher

    def publish(self, delta: MetadataDelta, new_image: MetadataImage, manifest: LoaderManifest) -> None:
        for _ in self.publish_in_steps(delta, new_image, manifest):
            pass

    def publish_in_steps(
        self, delta: MetadataDelta, new_image: MetadataImage, manifest: LoaderManifest
    ) -> Iterator[None]:
        """Pass on the changes. The first time, pass on all rules, once they are complete."""
        if self.applied.is_set():
            if self._rules is not None:
                yield from self._rules.publish_in_steps(delta, new_image, manifest)
            return
        if self._target is None:
            self._target = self._high_watermark()
        if self._target is not None and new_image.offset + 1 >= self._target:
            yield from self._complete(new_image)

    def _complete(self, image: MetadataImage) -> Iterator[None]:
        if isinstance(self.authorizer, AclAuthorizer):
            from barnabas.security.authorizer.acl_publisher import rules_loaded

            yield from rules_loaded(self.authorizer, image)
            self.authorizer.complete_initial_load()
        self.ready.set()
        self.applied.set()
        for listener, dispatcher in self._gated:
            listener.processor = dispatcher
        self._gated.clear()

    # --- listeners

    def opens_early(self, listener_name: str) -> bool:
        """Return whether the listener reads requests before the rules are complete."""
        return not self.is_absent and listener_name in self._config.early_start_listeners

    def reads_early(self, listener_name: str) -> bool:
        """Return whether the listener reads early. Without an authorizer a controller does: others await its vote."""
        if self.is_absent:
            return any(listener_name == endpoint.listener for endpoint in self._config.controller_listeners)
        return self.opens_early(listener_name)

    def guard(self, listener: Listener, dispatcher: RequestDispatcher) -> None:
        """Send the listener's requests through the gate until the rules are complete."""
        if self.applied.is_set() or not self.reads_early(listener.name):
            return
        listener.processor = ReadinessGate(dispatcher, ready=self.applied, is_ready_for=self.authorizer.is_ready_for)
        self._gated.append((listener, dispatcher))

    # --- the node's own broker

    def warn_about_own_broker(self, principal: Principal) -> None:
        """Warn once about calls that work only because broker and controller share a process (decision 10)."""
        if not self.authorizer.is_ready_for(principal):
            return
        key = ApiKey.BROKER_HEARTBEAT
        context = own_context(self._config, principal, key, API_TABLE[key].highest)
        if not self.authorizer.authorize(
            context,
            AclOperation.CLUSTER_ACTION,
            ResourceType.CLUSTER,
            CLUSTER_NAME,
            log_if_allowed=False,
            log_if_denied=False,
        ):
            log.warning(
                "this node's own broker is %s for its controller and lacks CLUSTER_ACTION on Cluster:%s. Its calls are "
                "allowed because they never leave the process; a broker in another process would be refused: %s",
                principal,
                CLUSTER_NAME,
                _NAMELESS_ADVICE if principal == ANONYMOUS else f"add {principal} to super.users",
            )

    def close(self) -> None:
        self.authorizer.close()
