"""Dynamic settings of brokers apply to topics."""

from barnabas.broker.topic_defaults import TopicDefaultsPublisher
from barnabas.common.topic_config import TopicConfig
from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage, MetadataProvenance
from barnabas.metadata.publisher import LoaderManifest
from barnabas.protocol.records.config_record import ConfigRecord


class Cluster:
    """An image that config records change, and the defaults that a publisher has set."""

    def __init__(self) -> None:
        self.image = MetadataImage.EMPTY
        self.defaults: list[TopicConfig] = []
        static = {"log.retention.ms": "5"}
        self.publisher = TopicDefaultsPublisher(broker_id=1, static_configs=static, set_defaults=self.defaults.append)

    def set(self, resource_type: int, resource_name: str, name: str, value: str | None) -> None:
        delta = MetadataDelta(self.image)
        delta.replay(ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value))
        provenance = MetadataProvenance(1, 1, 1)
        self.image = delta.apply(provenance)
        self.publisher.publish(delta, self.image, LoaderManifest(provenance, is_snapshot=False))


def test_this_brokers_value_overrides_the_default_of_all_and_both_the_file() -> None:
    cluster = Cluster()
    cluster.set(4, "", "log.retention.ms", "7")
    cluster.set(4, "1", "log.retention.ms", "9")
    cluster.set(4, "1", "log.retention.ms", None)
    assert [defaults.retention_ms for defaults in cluster.defaults] == [7, 9, 7]


def test_settings_of_other_brokers_and_topics_change_nothing() -> None:
    cluster = Cluster()
    cluster.set(4, "2", "log.retention.ms", "7")
    cluster.set(2, "t", "retention.ms", "7")
    assert cluster.defaults == []


def test_settings_that_topics_do_not_inherit_change_nothing() -> None:
    cluster = Cluster()
    cluster.set(4, "", "num.io.threads", "4")
    cluster.set(4, "", "log.retention.ms", "5")
    assert cluster.defaults == []
