"""The whole cluster as one value, and the delta that leads to the next one.

``MetadataDelta(image)`` receives records one by one with ``replay`` and ``apply`` returns a new image; the
old one stays valid. A part that no record touched is the very same object in both images, and inside
a part only the entries that changed are new (see ``PersistentMap``).

An image does not repeat the checks of a controller before a write. It does refuse a record that is invalid in its
state (an unknown topic id, a stale broker epoch), because then this node and the writer disagree about the past, and
its later images could not be trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any, ClassVar, NamedTuple

from barnabas.common.errors import InvariantViolated
from barnabas.metadata.image.acls import AclsDelta, AclsImage
from barnabas.metadata.image.client_quotas import ClientQuotasDelta, ClientQuotasImage
from barnabas.metadata.image.cluster import ClusterDelta, ClusterImage
from barnabas.metadata.image.configs import ConfigsDelta, ConfigsImage
from barnabas.metadata.image.delegation_tokens import DelegationTokensDelta, DelegationTokensImage
from barnabas.metadata.image.features import FeaturesDelta, FeaturesImage
from barnabas.metadata.image.producer_ids import ProducerIdsDelta, ProducerIdsImage
from barnabas.metadata.image.scram import ScramDelta, ScramImage
from barnabas.metadata.image.topics import TopicsDelta, TopicsImage
from barnabas.protocol.records.abort_transaction_record import AbortTransactionRecord
from barnabas.protocol.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.protocol.records.begin_transaction_record import BeginTransactionRecord
from barnabas.protocol.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from barnabas.protocol.records.clear_elr_record import ClearElrRecord
from barnabas.protocol.records.client_quota_record import ClientQuotaRecord
from barnabas.protocol.records.config_record import ConfigRecord
from barnabas.protocol.records.delegation_token_record import DelegationTokenRecord
from barnabas.protocol.records.end_transaction_record import EndTransactionRecord
from barnabas.protocol.records.feature_level_record import FeatureLevelRecord
from barnabas.protocol.records.fence_broker_record import FenceBrokerRecord
from barnabas.protocol.records.no_op_record import NoOpRecord
from barnabas.protocol.records.partition_change_record import PartitionChangeRecord
from barnabas.protocol.records.partition_record import PartitionRecord
from barnabas.protocol.records.producer_ids_record import ProducerIdsRecord
from barnabas.protocol.records.register_broker_record import RegisterBrokerRecord
from barnabas.protocol.records.register_controller_record import RegisterControllerRecord
from barnabas.protocol.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from barnabas.protocol.records.remove_delegation_token_record import RemoveDelegationTokenRecord
from barnabas.protocol.records.remove_topic_record import RemoveTopicRecord
from barnabas.protocol.records.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from barnabas.protocol.records.topic_record import TopicRecord
from barnabas.protocol.records.unfence_broker_record import UnfenceBrokerRecord
from barnabas.protocol.records.unregister_broker_record import UnregisterBrokerRecord
from barnabas.protocol.records.user_scram_credential_record import UserScramCredentialRecord
from barnabas.protocol.records.zk_migration_state_record import ZkMigrationStateRecord

__all__ = ["MetadataDelta", "MetadataImage", "MetadataProvenance"]


class MetadataProvenance(NamedTuple):
    """The last record that an image contains; offset -1 before the first."""

    last_contained_offset: int = -1
    last_contained_epoch: int = -1
    last_contained_log_time_ms: int = -1
    is_offset_batch_aligned: bool = True


class MetadataImage:
    __slots__ = (
        "acls",
        "client_quotas",
        "cluster",
        "configs",
        "delegation_tokens",
        "features",
        "producer_ids",
        "provenance",
        "scram",
        "topics",
    )

    EMPTY: ClassVar[MetadataImage]

    def __init__(
        self,
        *,
        provenance: MetadataProvenance,
        features: FeaturesImage,
        cluster: ClusterImage,
        topics: TopicsImage,
        configs: ConfigsImage,
        client_quotas: ClientQuotasImage,
        producer_ids: ProducerIdsImage,
        acls: AclsImage,
        scram: ScramImage,
        delegation_tokens: DelegationTokensImage,
    ) -> None:
        self.provenance = provenance
        self.features = features
        self.cluster = cluster
        self.topics = topics
        self.configs = configs
        self.client_quotas = client_quotas
        self.producer_ids = producer_ids
        self.acls = acls
        self.scram = scram
        self.delegation_tokens = delegation_tokens

    @property
    def offset(self) -> int:
        return self.provenance.last_contained_offset

    @property
    def is_empty(self) -> bool:
        return self.provenance.last_contained_offset < 0

    def with_provenance(self, provenance: MetadataProvenance) -> MetadataImage:
        parts = {name: getattr(self, name) for name in self.__slots__}
        parts["provenance"] = provenance
        return MetadataImage(**parts)

    def is_same_state(self, other: MetadataImage) -> bool:
        """Equal in everything but provenance."""
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__ if name != "provenance")

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, MetadataImage) and self.provenance == other.provenance and self.is_same_state(other)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"MetadataImage({self.provenance!r}, {len(self.topics)} topics, {len(self.cluster.brokers)} brokers)"


MetadataImage.EMPTY = MetadataImage(
    provenance=MetadataProvenance(),
    features=FeaturesImage.EMPTY,
    cluster=ClusterImage.EMPTY,
    topics=TopicsImage.EMPTY,
    configs=ConfigsImage.EMPTY,
    client_quotas=ClientQuotasImage.EMPTY,
    producer_ids=ProducerIdsImage(),
    acls=AclsImage(),
    scram=ScramImage(),
    delegation_tokens=DelegationTokensImage(),
)


class MetadataDelta:
    """The parts are created when a record first touches them; an attribute that is None did not change."""

    __slots__ = (
        "acls",
        "client_quotas",
        "cluster",
        "configs",
        "delegation_tokens",
        "features",
        "image",
        "is_snapshot",
        "producer_ids",
        "scram",
        "topics",
    )

    def __init__(self, image: MetadataImage, *, is_snapshot: bool = False) -> None:
        self.image = image
        self.is_snapshot = is_snapshot
        self.features: FeaturesDelta | None = None
        self.cluster: ClusterDelta | None = None
        self.topics: TopicsDelta | None = None
        self.configs: ConfigsDelta | None = None
        self.client_quotas: ClientQuotasDelta | None = None
        self.producer_ids: ProducerIdsDelta | None = None
        self.acls: AclsDelta | None = None
        self.scram: ScramDelta | None = None
        self.delegation_tokens: DelegationTokensDelta | None = None

    @property
    def is_empty(self) -> bool:
        return all(getattr(self, name) is None for name in _PARTS)

    def change_count(self) -> int:
        """The amount of work for the image and its publishers: changed partitions, resources and rules."""
        count = 0 if self.topics is None else self.topics.change_count()
        for part in (self.configs, self.acls):
            count += 0 if part is None else len(part.changes)
        return count

    def replay(self, record: object) -> None:
        """Replay one record. Raises InvariantViolated if it cannot follow the earlier ones."""
        replay = _REPLAYS.get(type(record))
        if replay is None:
            raise InvariantViolated(f"{type(record).__name__} is not a metadata record")
        replay(self, record)

    def finish_snapshot(self) -> None:
        """Finish after the last record of a snapshot: entries that it did not contain are deleted."""
        for _ in self.finish_snapshot_in_steps():
            pass

    def finish_snapshot_in_steps(self) -> Iterator[None]:
        for name, make in _PARTS.items():
            part = getattr(self, name)
            if part is None:
                part = make(getattr(self.image, name))
                setattr(self, name, part)
            yield from part.finish_snapshot() or ()
            yield

    def apply_in_steps(self, provenance: MetadataProvenance) -> Generator[None, None, MetadataImage]:
        """Return the same image as ``apply``; large parts are built in steps."""
        parts: dict[str, Any] = {}
        for name in _PARTS:
            part = getattr(self, name)
            if part is None:
                parts[name] = getattr(self.image, name)
            elif isinstance(part, TopicsDelta):
                parts[name] = yield from part.apply_in_steps()
            else:
                parts[name] = part.apply()
                yield
        return MetadataImage(provenance=provenance, **parts)

    def apply(self, provenance: MetadataProvenance) -> MetadataImage:
        parts = {name: getattr(self, name) for name in _PARTS}
        return MetadataImage(
            provenance=provenance,
            **{name: getattr(self.image, name) if part is None else part.apply() for name, part in parts.items()},
        )

    def topics_or_create(self) -> TopicsDelta:
        if self.topics is None:
            self.topics = TopicsDelta(self.image.topics)
        return self.topics

    def cluster_or_create(self) -> ClusterDelta:
        if self.cluster is None:
            self.cluster = ClusterDelta(self.image.cluster)
        return self.cluster

    def configs_or_create(self) -> ConfigsDelta:
        if self.configs is None:
            self.configs = ConfigsDelta(self.image.configs)
        return self.configs

    def features_or_create(self) -> FeaturesDelta:
        if self.features is None:
            self.features = FeaturesDelta(self.image.features)
        return self.features

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        self.configs_or_create().delete_topic(self.topics_or_create().replay_remove_topic(record))

    def _topic(self, record: TopicRecord) -> None:
        self.topics_or_create().replay_topic(record, is_snapshot=self.is_snapshot)

    def _client_quota(self, record: ClientQuotaRecord) -> None:
        if self.client_quotas is None:
            self.client_quotas = ClientQuotasDelta(self.image.client_quotas)
        self.client_quotas.replay(record)

    def _producer_ids(self, record: ProducerIdsRecord) -> None:
        if self.producer_ids is None:
            self.producer_ids = ProducerIdsDelta(self.image.producer_ids)
        self.producer_ids.replay(record, is_snapshot=self.is_snapshot)

    def acls_or_create(self) -> AclsDelta:
        if self.acls is None:
            self.acls = AclsDelta(self.image.acls)
        return self.acls

    def scram_or_create(self) -> ScramDelta:
        if self.scram is None:
            self.scram = ScramDelta(self.image.scram)
        return self.scram

    def delegation_tokens_or_create(self) -> DelegationTokensDelta:
        if self.delegation_tokens is None:
            self.delegation_tokens = DelegationTokensDelta(self.image.delegation_tokens)
        return self.delegation_tokens


_PARTS: dict[str, Callable[[Any], Any]] = {
    "features": FeaturesDelta,
    "cluster": ClusterDelta,
    "topics": TopicsDelta,
    "configs": ConfigsDelta,
    "client_quotas": ClientQuotasDelta,
    "producer_ids": ProducerIdsDelta,
    "acls": AclsDelta,
    "scram": ScramDelta,
    "delegation_tokens": DelegationTokensDelta,
}


def _nothing(delta: MetadataDelta, record: Any) -> None:
    """Ignore the record: NoOp moves only the offset, the loader handles transactions, ZooKeeper is obsolete."""


_REPLAYS: dict[type, Callable[[MetadataDelta, Any], None]] = {
    TopicRecord: MetadataDelta._topic,
    PartitionRecord: lambda delta, record: delta.topics_or_create().replay_partition(record),
    PartitionChangeRecord: lambda delta, record: delta.topics_or_create().replay_partition_change(record),
    RemoveTopicRecord: MetadataDelta._remove_topic,
    ClearElrRecord: lambda delta, record: delta.topics_or_create().replay_clear_elr(record),
    ConfigRecord: lambda delta, record: delta.configs_or_create().replay(record),
    RegisterBrokerRecord: lambda delta, record: delta.cluster_or_create().replay_register_broker(record),
    UnregisterBrokerRecord: lambda delta, record: delta.cluster_or_create().replay_unregister_broker(record),
    FenceBrokerRecord: lambda delta, record: delta.cluster_or_create().replay_fenced(record.id, record.epoch, True),
    UnfenceBrokerRecord: lambda delta, record: delta.cluster_or_create().replay_fenced(record.id, record.epoch, False),
    BrokerRegistrationChangeRecord: lambda delta, record: delta.cluster_or_create().replay_broker_registration_change(
        record
    ),
    RegisterControllerRecord: lambda delta, record: delta.cluster_or_create().replay_register_controller(record),
    FeatureLevelRecord: lambda delta, record: delta.features_or_create().replay(record),
    ClientQuotaRecord: MetadataDelta._client_quota,
    ProducerIdsRecord: MetadataDelta._producer_ids,
    AccessControlEntryRecord: lambda delta, record: delta.acls_or_create().replay(record),
    RemoveAccessControlEntryRecord: lambda delta, record: delta.acls_or_create().replay_remove(record),
    UserScramCredentialRecord: lambda delta, record: delta.scram_or_create().replay(record),
    RemoveUserScramCredentialRecord: lambda delta, record: delta.scram_or_create().replay_remove(record),
    DelegationTokenRecord: lambda delta, record: delta.delegation_tokens_or_create().replay(record),
    RemoveDelegationTokenRecord: lambda delta, record: delta.delegation_tokens_or_create().replay_remove(record),
    NoOpRecord: _nothing,
    ZkMigrationStateRecord: _nothing,
    BeginTransactionRecord: _nothing,
    EndTransactionRecord: _nothing,
    AbortTransactionRecord: _nothing,
}
