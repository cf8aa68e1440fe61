"""A simple model of the cluster's state, replayed from the log: dicts, without code of the product but the records.

The model keeps each part as it was after each committed record that changed it. So any node's image can be compared
with the model at the image's offset, and any decision with the ACLs at that offset.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from functools import partial
from typing import Any

from barnabas.metadata.image.metadata_image import MetadataImage

__all__ = ["PARTS", "Model", "flat_parts"]

Part = dict[Any, Any]
PARTS = ("features", "brokers", "controllers", "topics", "configs", "quotas", "producer_ids", "acls", "scram", "tokens")


class Model:
    def __init__(self) -> None:
        self.now: dict[str, Part] = {name: {} for name in PARTS}
        self.history: dict[str, tuple[list[int], list[Part]]] = {name: ([-1], [{}]) for name in PARTS}
        self.acl_spans: dict[tuple[Any, ...], list[list[int | None]]] = {}
        """For each ACL, the [from, to] offsets of its existence."""
        self.topic_spans: dict[str, list[list[Any]]] = {}
        """For each name, [from, to, topic id]."""
        self.tokens_ever: list[tuple[str, tuple[str, ...], int]] = []
        self._lives: dict[int, tuple[int, Any]] = {}
        self._old_epoch: str | None = None
        self.eligible: dict[tuple[Any, int], tuple[int, ...]] = {}
        """The eligible leader replicas of each partition: out of sync, and known to have all that is committed."""
        self._newest_levels: dict[int, int] = {}
        """The newest metadata.version that each registered broker reports as supported."""
        self._held: list[tuple[int, Any]] | None = None
        self._touched: set[str] = set()

    def at(self, part: str, offset: int) -> Part:
        offsets, values = self.history[part]
        return values[bisect_right(offsets, offset) - 1]

    def version_at(self, part: str, offset: int) -> int:
        """Return the offset of the part's last change up to this offset."""
        offsets, _ = self.history[part]
        return offsets[bisect_right(offsets, offset) - 1]

    def partition_since(self, topic: str, index: int, offset: int) -> list[tuple[Any, ...]]:
        """Return the states of a partition from the one at this offset until now."""
        offsets, values = self.history["topics"]
        found: list[tuple[Any, ...]] = []
        for part in values[bisect_right(offsets, offset) - 1 :]:
            for name, partitions in part.values():
                if name == topic and index in partitions and (not found or found[-1] is not partitions[index]):
                    found.append(partitions[index])
        return found

    def problem(self) -> str | None:
        """Return a violation in the log that the last batch may have caused."""
        if "acls" in self._touched:
            bindings = list(self.now["acls"].values())
            if len(set(bindings)) != len(bindings):
                twice = next(binding for binding in bindings if bindings.count(binding) > 1)
                return f"the ACL {twice} exists twice"
        if self._old_epoch is not None:
            return self._old_epoch
        if self._touched & {"features", "brokers"} and (problem := self._level_problem()) is not None:
            return problem
        if "topics" in self._touched:
            names = [name for name, _ in self.now["topics"].values()]
            if len(set(names)) != len(names):
                return f"a topic name exists twice: {sorted(names)}"
        if self._touched & {"topics", "brokers"}:
            return self._partition_problem()
        return None

    def _level_problem(self) -> str | None:
        level = self.now["features"].get("metadata.version", 0)
        for broker_id in self.now["brokers"]:
            newest = self._newest_levels[broker_id]
            if level > newest:
                return f"metadata.version {level} is in force, but broker {broker_id} supports only {newest}"
        return None

    def _partition_problem(self) -> str | None:
        brokers = self.now["brokers"]
        for name, partitions in self.now["topics"].values():
            for number, (replicas, isr, leader, _, _) in partitions.items():
                if not set(isr) <= set(replicas):
                    return f"{name}-{number} has the ISR {isr} and the replicas {replicas}"
                if leader == -1:
                    continue
                if leader not in isr:
                    return f"{name}-{number} is led by {leader}, which is not in its ISR {isr}"
                if leader not in brokers or brokers[leader][2]:
                    return f"{name}-{number} is led by {leader}, which is fenced"
        return None

    def replay(self, base_offset: int, records: list[Any]) -> None:
        """Apply the records. Raises KeyError if a record refers to an object that does not exist."""
        self._touched.clear()
        for index, record in enumerate(records):
            self._receive(base_offset + index, record)

    def _receive(self, offset: int, record: Any) -> None:
        kind = type(record).__name__
        if kind == "BeginTransactionRecord":
            self._held = []
        elif kind in ("EndTransactionRecord", "AbortTransactionRecord"):
            held, self._held = self._held or [], None
            for _, held_record in held if kind == "EndTransactionRecord" else ():
                self._apply(offset, held_record)
        elif self._held is not None:
            self._held.append((offset, record))
        else:
            self._apply(offset, record)

    def _apply(self, offset: int, record: Any) -> None:
        apply = getattr(self, f"_{type(record).__name__}", None)
        if apply is None:
            return
        for name in apply(offset, record).split():
            self._touched.add(name)
            offsets, values = self.history[name]
            offsets.append(offset)
            values.append(dict(self.now[name]))

    # --- one method for each kind of record

    def _FeatureLevelRecord(self, offset: int, record: Any) -> str:
        if record.feature_level or record.name == "metadata.version":
            self.now["features"][record.name] = record.feature_level
        else:
            self.now["features"].pop(record.name, None)
        return "features"

    def _RegisterBrokerRecord(self, offset: int, record: Any) -> str:
        epoch, incarnation = self._lives.get(record.broker_id, (-1, record.incarnation_id))
        if record.incarnation_id != incarnation and record.broker_epoch <= epoch:
            self._old_epoch = (
                f"a new process of broker {record.broker_id} has epoch {record.broker_epoch}, after epoch {epoch}"
            )
        self._lives[record.broker_id] = (record.broker_epoch, record.incarnation_id)
        levels = {feature.name: feature.max_supported_version for feature in record.features}
        self._newest_levels[record.broker_id] = levels["metadata.version"]
        self.now["brokers"][record.broker_id] = (
            record.broker_epoch,
            record.incarnation_id,
            record.fenced,
            record.in_controlled_shutdown,
        )
        return "brokers"

    def _BrokerRegistrationChangeRecord(self, offset: int, record: Any) -> str:
        epoch, incarnation, fenced, leaving = self.now["brokers"][record.broker_id]
        fenced = fenced if record.fenced == 0 else record.fenced == 1
        leaving = leaving if record.in_controlled_shutdown == 0 else record.in_controlled_shutdown == 1
        self.now["brokers"][record.broker_id] = (epoch, incarnation, fenced, leaving)
        return "brokers"

    def _fence(self, broker_id: int, is_fenced: bool) -> str:
        epoch, incarnation, _, leaving = self.now["brokers"][broker_id]
        self.now["brokers"][broker_id] = (epoch, incarnation, is_fenced, leaving)
        return "brokers"

    def _FenceBrokerRecord(self, offset: int, record: Any) -> str:
        return self._fence(record.id, True)

    def _UnfenceBrokerRecord(self, offset: int, record: Any) -> str:
        return self._fence(record.id, False)

    def _UnregisterBrokerRecord(self, offset: int, record: Any) -> str:
        del self.now["brokers"][record.broker_id]
        return "brokers"

    def _RegisterControllerRecord(self, offset: int, record: Any) -> str:
        self.now["controllers"][record.controller_id] = record.incarnation_id
        return "controllers"

    def _TopicRecord(self, offset: int, record: Any) -> str:
        self.now["topics"][record.topic_id] = (record.name, {})
        self.topic_spans.setdefault(record.name, []).append([offset, None, record.topic_id])
        return "topics"

    def _PartitionRecord(self, offset: int, record: Any) -> str:
        name, partitions = self.now["topics"][record.topic_id]
        found = (
            tuple(record.replicas),
            tuple(record.isr),
            record.leader,
            record.leader_epoch,
            record.partition_epoch,
        )
        self.now["topics"][record.topic_id] = (name, {**partitions, record.partition_id: found})
        self.eligible[record.topic_id, record.partition_id] = tuple(record.eligible_leader_replicas or ())
        return "topics"

    def _PartitionChangeRecord(self, offset: int, record: Any) -> str:
        name, partitions = self.now["topics"][record.topic_id]
        replicas, isr, leader, leader_epoch, partition_epoch = partitions[record.partition_id]
        if record.leader != -2:
            leader, leader_epoch = record.leader, leader_epoch + 1
        found = (
            replicas if record.replicas is None else tuple(record.replicas),
            isr if record.isr is None else tuple(record.isr),
            leader,
            leader_epoch,
            partition_epoch + 1,
        )
        self.now["topics"][record.topic_id] = (name, {**partitions, record.partition_id: found})
        if record.eligible_leader_replicas is not None:
            self.eligible[record.topic_id, record.partition_id] = tuple(record.eligible_leader_replicas)
        return "topics"

    def _RemoveTopicRecord(self, offset: int, record: Any) -> str:
        name, _ = self.now["topics"].pop(record.topic_id)
        self.topic_spans[name][-1][1] = offset
        self.now["configs"].pop((2, name), None)
        return "topics configs"

    def _ConfigRecord(self, offset: int, record: Any) -> str:
        key = (record.resource_type, record.resource_name)
        values = dict(self.now["configs"].get(key, {}))
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        if values:
            self.now["configs"][key] = values
        else:
            self.now["configs"].pop(key, None)
        return "configs"

    def _ClientQuotaRecord(self, offset: int, record: Any) -> str:
        entity = tuple(
            sorted(((part.entity_type, part.entity_name) for part in record.entity), key=lambda pair: pair[0])
        )
        values = dict(self.now["quotas"].get(entity, {}))
        if record.remove:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
        if values:
            self.now["quotas"][entity] = values
        else:
            self.now["quotas"].pop(entity, None)
        return "quotas"

    def _ProducerIdsRecord(self, offset: int, record: Any) -> str:
        self.now["producer_ids"]["next"] = record.next_producer_id
        return "producer_ids"

    def _AccessControlEntryRecord(self, offset: int, record: Any) -> str:
        binding = (
            record.resource_type,
            record.resource_name,
            record.pattern_type,
            record.principal,
            record.host,
            record.operation,
            record.permission_type,
        )
        self.now["acls"][record.id] = binding
        self.acl_spans.setdefault(binding, []).append([offset, None])
        return "acls"

    def _RemoveAccessControlEntryRecord(self, offset: int, record: Any) -> str:
        binding = self.now["acls"].pop(record.id)
        self.acl_spans[binding][-1][1] = offset
        return "acls"

    def _UserScramCredentialRecord(self, offset: int, record: Any) -> str:
        self.now["scram"][record.name, record.mechanism] = (bytes(record.salt), record.iterations)
        return "scram"

    def _RemoveUserScramCredentialRecord(self, offset: int, record: Any) -> str:
        self.now["scram"].pop((record.name, record.mechanism))
        return "scram"

    def _DelegationTokenRecord(self, offset: int, record: Any) -> str:
        token = (record.owner, tuple(record.renewers or ()), record.expiration_timestamp)
        self.now["tokens"][record.token_id] = token
        self.tokens_ever.append(token)
        return "tokens"

    def _RemoveDelegationTokenRecord(self, offset: int, record: Any) -> str:
        self.now["tokens"].pop(record.token_id)
        return "tokens"


# --- the parts of an image in the form of the model


def _features(image: MetadataImage) -> Part:
    return image.features.all_levels()


def _brokers(image: MetadataImage) -> Part:
    return {
        id_: (broker.epoch, broker.incarnation_id, broker.fenced, broker.in_controlled_shutdown)
        for id_, broker in image.cluster.brokers.items()
    }


def _controllers(image: MetadataImage) -> Part:
    return {id_: controller.incarnation_id for id_, controller in image.cluster.controllers.items()}


def _topics(image: MetadataImage) -> Part:
    return {
        id_: (
            topic.name,
            {
                number: (part.replicas, part.isr, part.leader, part.leader_epoch, part.partition_epoch)
                for number, part in topic.partitions.items()
            },
        )
        for id_, topic in image.topics.by_id.items()
    }


def _configs(image: MetadataImage) -> Part:
    return {tuple(resource): dict(values) for resource, values in image.configs.by_resource.items()}


def _quotas(image: MetadataImage) -> Part:
    return {entity: dict(values) for entity, values in image.client_quotas.by_entity.items()}


def _producer_ids(image: MetadataImage) -> Part:
    following = image.producer_ids.next_producer_id
    return {"next": following} if following >= 0 else {}


def _acls(image: MetadataImage) -> Part:
    return {id_: tuple(binding) for id_, binding in image.acls.by_id.items()}


def _scram(image: MetadataImage) -> Part:
    return {
        (record.name, record.mechanism): (bytes(record.salt), record.iterations)
        for record in image.scram.by_key.values()
    }


def _tokens(image: MetadataImage) -> Part:
    return {
        record.token_id: (record.owner, tuple(record.renewers or ()), record.expiration_timestamp)
        for record in image.delegation_tokens.by_key.values()
    }


_FLAT: dict[str, tuple[str, Callable[[MetadataImage], Part]]] = {
    "features": ("features", _features),
    "brokers": ("cluster", _brokers),
    "controllers": ("cluster", _controllers),
    "topics": ("topics", _topics),
    "configs": ("configs", _configs),
    "quotas": ("client_quotas", _quotas),
    "producer_ids": ("producer_ids", _producer_ids),
    "acls": ("acls", _acls),
    "scram": ("scram", _scram),
    "tokens": ("delegation_tokens", _tokens),
}


def flat_parts(image: MetadataImage) -> dict[str, tuple[object, Callable[[], Part]]]:
    """Return for each part of the model the object of the image that contains it, and a function that reads it."""
    return {name: (getattr(image, attribute), partial(flat, image)) for name, (attribute, flat) in _FLAT.items()}
