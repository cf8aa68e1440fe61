"""Limits the rate of creating and deleting partitions: ``controller_mutation_rate``, a token bucket (KIP-599).

Each created or deleted partition takes one token. A request may overdraw the bucket; then the next one must wait.
Newer versions of an API are refused with THROTTLING_QUOTA_EXCEEDED; older ones don't know that error and are served.
Both receive the time to wait. Quotas are those of the committed image.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.metadata.quota_rates import TokenBucket
from barnabas.metadata.quota_resolution import QuotaLevels

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.common.clock import Clock
    from barnabas.controller.controller_state import ControllerState
    from barnabas.metadata.image.client_quotas import ClientQuotasImage
    from barnabas.security.request_context import RequestContext

__all__ = ["UNLIMITED", "MutationAllowance", "MutationQuotas"]

_BUCKETS_MAX: Final = 10_000


class MutationAllowance:
    """The quota that one request may use."""

    __slots__ = ("_bucket", "_is_strict", "_limit", "_on_refusal", "_was_refused")

    def __init__(
        self,
        bucket: TokenBucket | None = None,
        limit: float = 0.0,
        *,
        is_strict: bool = False,
        on_refusal: Callable[[], None] = lambda: None,
    ) -> None:
        self._bucket = bucket
        self._on_refusal = on_refusal
        self._limit = limit
        self._is_strict = is_strict
        self._was_refused = False

    def use(self, partitions: int) -> None:
        """Take tokens. Raises THROTTLING_QUOTA_EXCEEDED if the bucket is overdrawn and the client knows that error."""
        bucket = self._bucket
        if bucket is None:
            return
        if self._is_strict and bucket.tokens < 0:
            self._was_refused = True
            self._on_refusal()
            raise ApiException(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")
        bucket.take(partitions)

    @property
    def throttle_ms(self) -> int:
        """The time to wait; 0 for a client that can be refused and was not."""
        if self._bucket is None or (self._is_strict and not self._was_refused):
            return 0
        return self._bucket.throttle_ms(self._limit)


UNLIMITED: Final = MutationAllowance()


class MutationQuotas:
    def __init__(self, state: ControllerState, clock: Clock, *, window_count: int, window_s: int) -> None:
        self._state = state
        self._clock = clock
        self._burst_s = float(window_count * window_s)
        self._image: ClientQuotasImage | None = None
        self._levels: QuotaLevels | None = None
        self._buckets: dict[object, TokenBucket] = {}
        self.refused_count = 0

    def allowance(self, context: RequestContext, *, strict_since: int) -> MutationAllowance:
        """``strict_since``: the first version of the API whose clients know THROTTLING_QUOTA_EXCEEDED."""
        image = self._state.committed.client_quotas
        if image is not self._image:
            self._image = image
            self._levels = QuotaLevels(image, "controller_mutation_rate") or None
        if self._levels is None:
            return UNLIMITED
        quota = self._levels.quota_of(context.principal.name, context.client_id or "")
        if quota is None:
            return UNLIMITED
        now_ms = self._clock.monotonic_ms()
        bucket = self._buckets.get(quota.share)
        if bucket is None:
            if len(self._buckets) >= _BUCKETS_MAX:
                self._buckets.clear()
            bucket = self._buckets[quota.share] = TokenBucket(quota.limit, burst_s=self._burst_s, now_ms=now_ms)
        bucket.fill(quota.limit, now_ms)
        is_strict = context.api_version >= strict_since
        return MutationAllowance(bucket, quota.limit, is_strict=is_strict, on_refusal=self._count_refusal)

    def _count_refusal(self) -> None:
        self.refused_count += 1
