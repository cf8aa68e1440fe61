"""The client properties of share consumers, with Kafka's names, defaults and limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.clients.consumer.config import ConsumerConfig, consumer_config, consumer_values
from barnabas.clients.membership.share_session import AcquireMode

__all__ = ["ShareConfig", "share_config"]


@dataclass(frozen=True, slots=True)
class ShareConfig:
    """``is_implicit``: what was delivered is accepted by the next call for records, and at the end."""

    fetch: ConsumerConfig
    acquire_mode: AcquireMode
    is_implicit: bool


def share_config(properties: Mapping[str, str], *, source: str = "consumer settings") -> ShareConfig:
    """Parse the properties of a share consumer and ignore others. Raise InvalidClientConfig with all problems."""
    fetch = consumer_config(properties, source=source)
    given = consumer_values(properties)
    return ShareConfig(
        fetch,
        AcquireMode[str(given["share.acquire.mode"]).upper()],
        str(given["share.acknowledgement.mode"]).lower() == "implicit",
    )
