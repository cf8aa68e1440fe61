"""Client quotas of a broker: bytes produced, bytes fetched, and time of the request threads (KIP-13, KIP-124).

A client that exceeds a quota receives its answer immediately, with the time to wait in ``throttle_time_ms``. For that
time its connection is not read (KIP-219). If a fetch was too large, Kafka discards the data and answers without
records, to read them again later. Here the records are sent, and the wait is the same. A fetch is never larger than the
quota allows in all of its windows together.

Quotas are read from the metadata image. While no quota is set, this module is not called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.metadata.quota_rates import WindowedRate, still_used
from barnabas.metadata.quota_resolution import QuotaLevels
from barnabas.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.common.clock import Clock
    from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage
    from barnabas.metadata.publisher import LoaderManifest
    from barnabas.metadata.quota_resolution import Quota
    from barnabas.protocol.messages.fetch import FetchRequest
    from barnabas.protocol.messages.share_fetch import ShareFetchRequest
    from barnabas.protocol.schema import Message
    from barnabas.security.request_context import RequestContext

__all__ = ["ClientQuotas"]

_REMEMBERED_MAX = 10_000
_PARTITION_OVERHEAD = 40
_INT32_MAX = 2**31 - 1
_FETCHES = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH})


class _Kind:
    """One type of quota, with the usage of every client that has one."""

    __slots__ = ("_by_client", "_new_rate", "_rates", "levels", "throttle_ms_max", "throttled_count", "throttled_ms")

    def __init__(self, new_rate: Callable[[], WindowedRate], throttle_ms_max: int | None = None) -> None:
        self._new_rate = new_rate
        self._rates: dict[object, WindowedRate] = {}
        self._by_client: dict[tuple[str, str], Quota | None] = {}
        self.levels: QuotaLevels | None = None
        self.throttle_ms_max = throttle_ms_max
        self.throttled_count = 0
        self.throttled_ms = 0

    def follow(self, levels: QuotaLevels) -> None:
        """Apply changed quotas and keep the usage. Clients without a quota expire in time."""
        self.levels = levels if levels else None
        self._by_client = {}
        if not levels:
            self._rates = {}

    def quota_of(self, context: RequestContext) -> Quota | None:
        client = (context.principal.name, context.client_id or "")
        try:
            return self._by_client[client]
        except KeyError:
            if len(self._by_client) >= _REMEMBERED_MAX:
                self._by_client = {}
            quota = self._by_client[client] = None if self.levels is None else self.levels.quota_of(*client)
            return quota

    def record(self, context: RequestContext, value: float, now_ms: int) -> int:
        """Count usage, and return how long the client must wait, in milliseconds."""
        quota = self.quota_of(context)
        if quota is None:
            return 0
        rate = self._rates.get(quota.share)
        if rate is None:
            if len(self._rates) >= _REMEMBERED_MAX:
                self._rates = still_used(self._rates, now_ms)
            rate = self._rates[quota.share] = self._new_rate()
        rate.record(value, now_ms)
        throttle_ms = rate.throttle_ms(quota.limit, now_ms)
        if throttle_ms:
            if self.throttle_ms_max is not None:
                throttle_ms = min(throttle_ms, self.throttle_ms_max)
            self.throttled_count += 1
            self.throttled_ms += throttle_ms
        return throttle_ms


class ClientQuotas:
    """A MetadataPublisher. ``on_change`` receives whether any quota is set, whenever quotas change."""

    def __init__(
        self, *, clock: Clock, window_count: int, window_s: int, on_change: Callable[[bool], None] = lambda is_set: None
    ) -> None:
        self._clock = clock
        self._on_change = on_change
        self._windows_s = max(window_count - 1, 1) * window_s
        window_ms = window_s * 1000

        def new_rate() -> WindowedRate:
            return WindowedRate(count=window_count, window_ms=window_ms)

        self._produced = _Kind(new_rate)
        self._fetched = _Kind(new_rate)
        self._busy = _Kind(new_rate, throttle_ms_max=window_ms)
        self._has_mutation_quota = False

    # --- MetadataPublisher

    def publish(self, delta: MetadataDelta, new_image: MetadataImage, manifest: LoaderManifest) -> None:
        if not manifest.is_snapshot and delta.client_quotas is None:
            return
        quotas = new_image.client_quotas
        self._produced.follow(QuotaLevels(quotas, "producer_byte_rate"))
        self._fetched.follow(QuotaLevels(quotas, "consumer_byte_rate"))
        self._busy.follow(QuotaLevels(quotas, "request_percentage"))
        self._has_mutation_quota = bool(QuotaLevels(quotas, "controller_mutation_rate"))
        self._on_change(self.is_set)

    @property
    def is_set(self) -> bool:
        """Whether any answer may have to be throttled. The controller keeps the quotas of mutations."""
        kinds = (self._produced, self._fetched, self._busy)
        return self._has_mutation_quota or any(kind.levels is not None for kind in kinds)

    def throttled(self) -> dict[str, tuple[int, int]]:
        """Return, by type of quota, how many answers had to wait, and for how many milliseconds in total."""
        kinds = {"Produce": self._produced, "Fetch": self._fetched, "Request": self._busy}
        return {name: (kind.throttled_count, kind.throttled_ms) for name, kind in kinds.items()}

    # --- requests

    def limit_fetch(self, request: FetchRequest | ShareFetchRequest, context: RequestContext) -> None:
        """Reduce the size limit of a fetch to the bytes that its quota allows in all windows together."""
        if self._fetched.levels is None:
            return
        quota = self._fetched.quota_of(context)
        if quota is not None:
            request.max_bytes = min(request.max_bytes, int(min(quota.limit * self._windows_s, _INT32_MAX)))
            request.min_bytes = min(request.min_bytes, request.max_bytes)

    def throttle_ms(self, context: RequestContext, response: Message | None, request_bytes: int, busy_s: float) -> int:
        """Count the request, and return how long its connection must be muted. Set the same time in ``response``."""
        now_ms = self._clock.monotonic_ms()
        throttle_ms = 0
        if self._produced.levels is not None and context.api_key is ApiKey.PRODUCE:
            throttle_ms = self._produced.record(context, request_bytes, now_ms)
        elif self._fetched.levels is not None and context.api_key in _FETCHES:
            throttle_ms = self._fetched.record(context, _fetched_bytes(response), now_ms)
        if self._busy.levels is not None:
            throttle_ms = max(throttle_ms, self._busy.record(context, busy_s * 100, now_ms))
        throttled: Any = response
        decided_elsewhere = getattr(throttled, "throttle_time_ms", None)
        if decided_elsewhere is not None:
            throttle_ms = throttled.throttle_time_ms = max(throttle_ms, decided_elsewhere)
        return throttle_ms


def _fetched_bytes(response: Any) -> int:
    return sum(
        _PARTITION_OVERHEAD + len(partition.records or b"")
        for topic in response.responses
        for partition in topic.partitions
    )
