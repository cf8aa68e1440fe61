"""What a broker needs from others: the controller, wherever it runs."""

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
    """The way to the active controller: in the same process, or over the wire in an Envelope."""

    async def forward(self, request: Message, context: RequestContext) -> Message:
        """Have the controller answer ``request`` for the original principal and host.

        Raises ApiException when no controller answers in time, or when broker and controller don't understand each
        other; CloseConnection when the client has to ask for versions anew.
        """
        ...

    async def send(self, request: Request[R]) -> R:
        """A request of the broker's own (heartbeats, producer ids)."""
        ...

    def versions(self) -> Mapping[int, tuple[int, int]] | None:
        """What the active controller serves, by API key; None where it is not known, or serves the same."""
        ...


class DynamicSettings(Protocol):
    """The settings of this broker, and of all, that may change while it runs."""

    def current(self, resource: ConfigResource) -> Mapping[str, str]:
        """What is set on the resource, in clear. Raises ApiException."""
        ...

    async def check(
        self, resource: ConfigResource, changed: Mapping[str, str | None], after: Mapping[str, str]
    ) -> None:
        """Raise ApiException unless this node could run with ``after`` set on the resource."""
        ...


class OtherBrokers(Protocol):
    """The way to the other brokers of the cluster."""

    async def ask(self, broker_id: int, request: Request[R]) -> R:
        """Its answer, to this broker. Raises BROKER_NOT_AVAILABLE with the reason."""
        ...


class ReplicaFetchers(Protocol):
    """Copies what others lead."""

    def follow(self, partitions: Iterable[Partition]) -> None:
        """Copy each from the leader that it names now, if it names one; to be called for each change of a partition.

        Nothing happens to one that is copied from the same leader in the same epoch already.
        """
        ...

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        """They are led here from now on, or gone: nothing is written to their logs after this call."""
        ...

    def lag_of(self, topic_partition: TopicPartition) -> int | None:
        """By how many committed records it is behind its leader; None while that is not known."""
        ...
