"""The ports of a broker: the controller, its node's settings, the other brokers, the fetchers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from barnabas.broker.partition import Partition
    from barnabas.common.topic_partition import TopicPartition
    from barnabas.metadata.image.configs import ConfigResource
    from barnabas.protocol.schema import Message, Request
    from barnabas.security.request_context import RequestContext

__all__ = ["ControllerChannel", "DynamicSettings", "OtherBrokers", "ReplicaFetchers"]

R = TypeVar("R", bound="Message")


class ControllerChannel(Protocol):
    """Sends requests to the active controller: in the same process, or over the wire in an Envelope."""

    async def forward(self, request: Message, context: RequestContext) -> Message:
        """Return the controller's answer to ``request`` for the original principal and host.

        Raise ApiException if no controller answers in time, or if broker and controller violate each other's protocol;
        CloseConnection if the client must request the versions again.
        """
        ...

    async def send(self, request: Request[R]) -> R:
        """Send a request of the broker's own (heartbeats, producer ids)."""
        ...

    def versions(self) -> Mapping[int, tuple[int, int]] | None:
        """Return the API versions that the active controller serves; None if unknown, or the same as this broker's."""
        ...


class DynamicSettings(Protocol):
    """The dynamic settings of this broker, and of all brokers."""

    def current(self, resource: ConfigResource) -> Mapping[str, str]:
        """Return the configs set on the resource, in clear text. Raise ApiException."""
        ...

    async def check(
        self, resource: ConfigResource, changed: Mapping[str, str | None], after: Mapping[str, str]
    ) -> None:
        """Raise ApiException unless this node could run with ``after`` set on the resource."""
        ...


class OtherBrokers(Protocol):
    """Sends requests to the other brokers of the cluster."""

    async def ask(self, broker_id: int, request: Request[R], *, timeout_s: float | None = None) -> R:
        """Return the other broker's answer to this broker. Raise BROKER_NOT_AVAILABLE with the reason."""
        ...


class ReplicaFetchers(Protocol):
    """Copies the partitions that other brokers lead."""

    def follow(self, partitions: Iterable[Partition]) -> None:
        """Copy each partition from the leader that it names now, if any; called for each change of a partition.

        A partition that is already copied from the same leader in the same epoch is left unchanged.
        """
        ...

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop copying partitions that this broker leads now or that were removed. Their logs are no longer written."""
        ...

    def lag_of(self, topic_partition: TopicPartition) -> int | None:
        """Return the number of committed records by which it lags behind its leader; None while that is unknown."""
        ...
