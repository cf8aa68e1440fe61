"""Which replicas are throttled, and when they are held back."""

from __future__ import annotations

from barnabas.broker.replication.replication_quota import ReplicationQuota, ReplicationQuotas
from barnabas.common.topic_config import TopicConfig
from barnabas.common.topic_partition import TopicPartition
from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage, MetadataProvenance
from barnabas.metadata.publisher import LoaderManifest
from barnabas.protocol.records.config_record import ConfigRecord
from tests.unit.broker.replication.follower import (
    MemoryReplica,
    answer,
    data,
    fetch,
    forgotten,
    new_fetcher,
    requested_partitions,
    response,
)

BROKER, TOPIC = 4, 2


def new_quota() -> ReplicationQuota:
    quota = ReplicationQuota(window_count=11, window_ms=1000)
    quota.throttle("t", ["0:1", "1:2"], 1)
    quota.limit = 1000
    return quota


def test_a_list_names_partitions_with_their_brokers() -> None:
    quota = new_quota()
    assert quota.is_throttled(TopicPartition("t", 0))
    assert not quota.is_throttled(TopicPartition("t", 1))
    assert not quota.is_throttled(TopicPartition("u", 0))
    quota.throttle("t", ["*"], 1)
    assert quota.is_throttled(TopicPartition("t", 7))
    quota.throttle("t", ["7:2"], 1)
    assert not quota.is_throttled(TopicPartition("t", 7))


def test_traffic_above_the_rate_waits_until_the_average_is_below_it() -> None:
    quota = new_quota()
    assert quota.wait_ms(0) == 0
    quota.record(1000, 0)
    assert quota.wait_ms(0) == 0
    quota.record(2000, 100)
    assert quota.wait_ms(100) == 2000
    assert quota.wait_ms(2000) == 1000
    assert quota.wait_ms(3000) == 0
    assert quota.throttled_bytes == 3000


def test_without_a_rate_or_a_list_nothing_waits() -> None:
    quota = new_quota()
    quota.record(1 << 30, 0)
    quota.throttle("t", [], 1)
    assert quota.wait_ms(0) == 0
    quota.throttle("t", ["*"], 1)
    assert quota.wait_ms(0) > 0
    quota.limit = float("inf")
    assert quota.wait_ms(0) == 0


def test_settings_are_followed() -> None:
    image = MetadataImage.EMPTY
    quotas = ReplicationQuotas(
        broker_id=1,
        leader=ReplicationQuota(window_count=11, window_ms=1000),
        follower=ReplicationQuota(window_count=11, window_ms=1000),
        topic_config=lambda name: TopicConfig().with_overrides(image.configs.of_topic(name)),
    )  # fmt: skip

    def set_(kind: int, resource: str, name: str, value: str | None) -> None:
        nonlocal image
        delta = MetadataDelta(image)
        delta.replay(ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value))
        provenance = MetadataProvenance(1, 1, 1)
        image = delta.apply(provenance)
        quotas.publish(delta, image, LoaderManifest(provenance, False))

    set_(BROKER, "", "leader.replication.throttled.rate", "5000")
    set_(BROKER, "1", "follower.replication.throttled.rate", "700")
    set_(BROKER, "2", "leader.replication.throttled.rate", "1")
    assert (quotas.leader.limit, quotas.follower.limit) == (5000, 700)
    set_(BROKER, "1", "leader.replication.throttled.rate", "6000")
    assert quotas.leader.limit == 6000
    set_(TOPIC, "t", "leader.replication.throttled.replicas", "0:1,1:1,0:2")
    set_(TOPIC, "t", "follower.replication.throttled.replicas", "*")
    zero = TopicPartition("t", 0)
    assert quotas.leader.is_throttled(zero)
    assert quotas.follower.is_throttled(zero)
    set_(TOPIC, "t", "leader.replication.throttled.replicas", None)
    assert not quotas.leader.is_throttled(zero)
    set_(BROKER, "1", "leader.replication.throttled.rate", None)
    set_(BROKER, "", "leader.replication.throttled.rate", None)
    assert quotas.leader.limit == float("inf")


def test_a_follower_omits_throttled_lagging_partitions_above_the_rate() -> None:
    quota = ReplicationQuota(window_count=11, window_ms=1000)
    quota.throttle("t", ["0:2", "1:2", "2:3"], 2)
    quota.limit = 3
    fetcher = new_fetcher(quota)
    for partition in range(3):
        fetcher.follow(MemoryReplica(partition), 0)
    first = fetch(fetcher)
    assert len(requested_partitions(first)) == 3
    some = [data(0, [0, 0], high_watermark=9), data(1, [0, 0, 0], high_watermark=3), data(2, [0], high_watermark=9)]
    answer(fetcher, first, response(*some), now_ms=0)
    assert quota.throttled_bytes == 8
    held = fetch(fetcher, 10)
    assert forgotten(held) == [0]  # 1 does not lag, and 2 is not throttled here.
    assert sorted(requested_partitions(held)) == [1, 2]
    assert held.max_wait_ms == 500
    answer(fetcher, held, response(), now_ms=510)
    assert requested_partitions(fetch(fetcher, 510)) == {}
    answer(fetcher, held, response(), now_ms=2600)
    assert sorted(requested_partitions(fetch(fetcher, 2700))) == [0]


def test_a_follower_with_only_throttled_partitions_waits_until_the_throttle_ends() -> None:
    quota = ReplicationQuota(window_count=11, window_ms=1000)
    quota.throttle("t", ["*"], 2)
    quota.limit = 1
    fetcher = new_fetcher(quota)
    fetcher.follow(MemoryReplica(0), 0)
    answer(fetcher, fetch(fetcher), response(data(0, [0] * 100, high_watermark=1000)))
    assert fetcher.next_request(0, fetch_version=18) is None
    assert fetcher.wakeup_ms() == 500
    quota.throttle("t", [], 2)
    assert sorted(requested_partitions(fetch(fetcher, 500))) == [0]
