"""Which quota applies, who shares it, and how long a client above it waits."""

from __future__ import annotations

import pytest

from barnabas.metadata.image.client_quotas import ClientQuotasDelta, ClientQuotasImage
from barnabas.metadata.quota_rates import TokenBucket, WindowedRate, still_used
from barnabas.metadata.quota_resolution import Quota, QuotaLevels
from barnabas.protocol.records.client_quota_record import ClientQuotaRecord, EntityData

KEY = "producer_byte_rate"
IN_ORDER: list[tuple[dict[str, str | None], tuple[str | None, str | None]]] = [
    ({"user": "alice", "client-id": "app"}, ("alice", "app")),
    ({"user": "alice", "client-id": None}, ("alice", "app")),
    ({"user": "alice"}, ("alice", None)),
    ({"user": None, "client-id": "app"}, ("alice", "app")),
    ({"user": None, "client-id": None}, ("alice", "app")),
    ({"user": None}, ("alice", None)),
    ({"client-id": "app"}, (None, "app")),
    ({"client-id": None}, (None, "app")),
]


def levels(*entities: dict[str, str | None], key: str = KEY) -> QuotaLevels:
    """Quotas of 1, 2, 3 ... in the order of the entities."""
    delta = ClientQuotasDelta(ClientQuotasImage.EMPTY)
    for number, entity in enumerate(entities, 1):
        named = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
        delta.replay(ClientQuotaRecord(entity=named, key=key, value=float(number), remove=False))
    return QuotaLevels(delta.apply(), KEY)


@pytest.mark.parametrize("first", range(len(IN_ORDER)))
def test_the_first_of_eight_levels_applies(first: int) -> None:
    entities = [entity for entity, _ in IN_ORDER[first:]]
    assert levels(*entities).quota_of("alice", "app") == Quota(IN_ORDER[first][1], 1.0)


def test_a_client_without_a_quota_is_unlimited() -> None:
    assert not levels()
    assert not levels({"user": "alice"}, key="consumer_byte_rate")
    assert levels({"user": "bob"}, {"client-id": "other"}).quota_of("alice", "app") is None
    assert not levels({"ip": None})


def test_a_burst_within_the_windows_is_free_and_then_the_rate_applies() -> None:
    rate = WindowedRate(count=11, window_ms=1000)
    rate.record(1000, 0)
    assert rate.throttle_ms(100, 0) == 0
    rate.record(500, 0)
    assert rate.throttle_ms(100, 0) == 5000  # 1500 bytes take 15 s, and 10 are over as far as this counts.
    assert rate.throttle_ms(100, 5000) == 5000
    assert rate.throttle_ms(100, 11_000) == 0


def test_traffic_older_than_all_windows_is_forgotten() -> None:
    rate = WindowedRate(count=3, window_ms=1000)
    for second in range(10):
        rate.record(7, second * 1000)
    assert rate.total == 21
    assert not rate.is_idle(11_999)
    assert rate.is_idle(12_000)
    assert rate.total == 0


def test_over_a_long_time_no_client_exceeds_the_rate() -> None:
    rate, now_ms, sent = WindowedRate(count=11, window_ms=1000), 0, 0
    while now_ms < 600_000:
        rate.record(300, now_ms)
        sent += 300
        now_ms += max(rate.throttle_ms(1000, now_ms), 10)
    assert 590_000 <= sent <= 615_000


def test_a_bucket_may_be_overdrawn_and_fills_again() -> None:
    bucket = TokenBucket(2.0, burst_s=11, now_ms=0)
    assert bucket.tokens == 22
    bucket.take(30)
    assert bucket.throttle_ms(2.0) == 4000
    assert bucket.fill(2.0, 4000) == 0
    assert bucket.throttle_ms(2.0) == 0
    assert bucket.fill(2.0, 1_000_000) == 22


def test_a_client_with_many_invented_names_evicts_old_ones_without_a_search() -> None:
    rates = {name: WindowedRate(count=11, window_ms=1000) for name in "abcd"}
    rates["a"].record(1, 20_000)
    assert list(still_used(rates, 20_000)) == ["a"]
    for rate in rates.values():
        rate.record(1, 20_000)
    assert still_used(rates, 20_000) == {}
