"""The metadata as a tree of names, as Kafka's metadata shell shows it: ``/image`` and ``/local``.

Nodes are created when they are read: with a million ACLs, reading one costs one lookup. The texts are Kafka's.
Differences from Kafka:

- ``/acl/id`` (the path of KIP-801) is the same directory as ``/image/acls/byId``; ``/acl/principal`` has a directory
  with the ACLs of each principal, where ``%2F`` means a slash in a name and ``%25`` a percent sign;
- the default entity of a client quota is called ``user(<default>)``; Kafka's shell does not name it;
- secrets are shown as ``[hidden]`` by default: SCRAM credentials, and configs that are passwords or unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from barnabas.common.acl import AclBinding, AclOperation, AclPermissionType
from barnabas.common.broker_config import broker_config_key
from barnabas.common.resource import PatternType, ResourceType
from barnabas.common.uuid import Uuid
from barnabas.metadata.image.cluster import BrokerRegistration, ControllerRegistration, Endpoint
from barnabas.metadata.image.configs import ConfigResource, ConfigResourceType
from barnabas.metadata.image.metadata_image import MetadataImage, MetadataProvenance
from barnabas.metadata.image.partition_registration import LeaderRecoveryState, PartitionRegistration
from barnabas.metadata.image.topics import TopicImage

if TYPE_CHECKING:
    from barnabas.protocol.records.delegation_token_record import DelegationTokenRecord
    from barnabas.protocol.records.user_scram_credential_record import UserScramCredentialRecord

__all__ = ["HIDDEN", "Directory", "File", "Node", "metadata_tree"]

HIDDEN = "[hidden]"
_SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_SCRAM_MECHANISMS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_QUOTA_WORDS = {"client-id": "clientId"}


class File:
    """A leaf. Its text is created when it is read."""

    __slots__ = ("_text",)

    def __init__(self, text: Callable[[], object]) -> None:
        self._text = text

    @property
    def text(self) -> str:
        return str(self._text())


class Directory:
    """A directory. ``child`` must not need ``names``, so that one child is looked up without the others."""

    __slots__ = ("_child", "_names")

    def __init__(self, names: Callable[[], Iterable[str]], child: Callable[[str], Node | None]) -> None:
        self._names = names
        self._child = child

    @classmethod
    def of(cls, children: Mapping[str, Node]) -> Directory:
        return cls(lambda: children, children.get)

    def names(self) -> list[str]:
        """Return the names, sorted as the shell lists them."""
        return sorted(self._names())

    def child(self, name: str) -> Node | None:
        return self._child(name)


Node = File | Directory


def metadata_tree(image: MetadataImage, *, version: str, show_secrets: bool = False) -> Directory:
    """Return the root directory."""
    acls = _acls(image)
    shown = Directory.of(
        {
            "acls": Directory.of({"byId": acls}),
            "clientQuotas": _client_quotas(image),
            "cluster": _cluster(image),
            "configs": _configs(image, show_secrets),
            "delegationToken": _delegation_tokens(image),
            "features": _features(image),
            "producerIds": _producer_ids(image),
            "provenance": File(partial(_provenance_text, image.provenance)),
            "scram": _scram(image, show_secrets),
            "topics": _topics(image),
        }
    )
    local = {"commitId": _leaf("unknown"), "version": _leaf(version)}
    acl = Directory.of({"id": acls, "principal": _acls_by_principal(image)})
    return Directory.of({"acl": acl, "image": shown, "local": Directory.of(local)})


def _leaf(value: object) -> File:
    return File(lambda: value)


def _leaves(values: Mapping[str, object]) -> Directory:
    return Directory.of({name: _leaf(value) for name, value in values.items()})


def _by_uuid(text: str) -> Uuid | None:
    try:
        return Uuid.from_string(text)
    except ValueError:
        return None


def _acls(image: MetadataImage) -> Directory:
    by_id = image.acls.by_id

    def child(name: str) -> Node | None:
        acl_id = _by_uuid(name)
        binding = None if acl_id is None else by_id.get(acl_id)
        return None if binding is None else File(partial(_acl_text, binding))

    return Directory(lambda: map(str, by_id), child)


def _acls_by_principal(image: MetadataImage) -> Directory:
    """Return the directory of ACLs by principal. The first read groups all ACLs."""

    @cache
    def by_principal() -> dict[str, Node]:
        found: dict[str, dict[str, Node]] = {}
        for acl_id, binding in image.acls.by_id.items():
            found.setdefault(binding.principal, {})[str(acl_id)] = File(partial(_acl_text, binding))
        return {_file_name(principal): Directory.of(acls) for principal, acls in found.items()}

    return Directory(lambda: by_principal(), lambda name: by_principal().get(name))


def _file_name(text: str) -> str:
    return text.replace("%", "%25").replace("/", "%2F")


def _acl_text(acl: AclBinding) -> str:
    return (
        f"StandardAcl[resourceType={_name(ResourceType, acl.resource_type)}, resourceName={acl.name}, "
        f"patternType={_name(PatternType, acl.pattern_type)}, principal={acl.principal}, host={acl.host}, "
        f"operation={_name(AclOperation, acl.operation)}, permissionType={_name(AclPermissionType, acl.permission)}]"
    )


def _topics(image: MetadataImage) -> Directory:
    topics = image.topics

    def by_name(name: str) -> Node | None:
        topic = topics.by_name.get(name)
        return None if topic is None else _topic(topic)

    def by_id(name: str) -> Node | None:
        topic_id = _by_uuid(name)
        topic = None if topic_id is None else topics.by_id.get(topic_id)
        return None if topic is None else _topic(topic)

    return Directory.of(
        {
            "byId": Directory(lambda: map(str, topics.by_id), by_id),
            "byName": Directory(lambda: topics.by_name, by_name),
        }
    )


def _topic(topic: TopicImage) -> Directory:
    def child(name: str) -> Node | None:
        if name in ("id", "name"):
            return _leaf(getattr(topic, name))
        partition = topic.partitions.get(int(name)) if name.isascii() and name.isdigit() else None
        return None if partition is None else File(partial(_partition_text, partition))

    return Directory(lambda: ["id", "name", *map(str, topic.partitions)], child)


def _partition_text(p: PartitionRegistration) -> str:
    return (
        f"PartitionRegistration(replicas={_list(p.replicas)}, directories={_list(p.directories)}, isr={_list(p.isr)}, "
        f"removingReplicas={_list(p.removing_replicas)}, addingReplicas={_list(p.adding_replicas)}, "
        f"elr={_list(p.elr)}, lastKnownElr={_list(p.last_known_elr)}, leader={p.leader}, "
        f"leaderRecoveryState={LeaderRecoveryState(p.leader_recovery_state).name}, leaderEpoch={p.leader_epoch}, "
        f"partitionEpoch={p.partition_epoch})"
    )


def _cluster(image: MetadataImage) -> Directory:
    brokers = {str(id_): File(partial(_broker_text, b)) for id_, b in image.cluster.brokers.items()}
    controllers = {str(id_): File(partial(_controller_text, c)) for id_, c in image.cluster.controllers.items()}
    return Directory.of({"brokers": Directory.of(brokers), "controllers": Directory.of(controllers)})


def _broker_text(b: BrokerRegistration) -> str:
    cordoned = _list(b.cordoned_directories or ())
    return (
        f"BrokerRegistration(id={b.id}, epoch={b.epoch}, incarnationId={b.incarnation_id}, "
        f"listeners={_endpoints(b.listeners)}, supportedFeatures={_feature_ranges(b.features)}, "
        f"rack={'Optional.empty' if b.rack is None else f'Optional[{b.rack}]'}, fenced={_bool(b.fenced)}, "
        f"inControlledShutdown={_bool(b.in_controlled_shutdown)}, "
        f"isMigratingZkBroker={_bool(b.is_migrating_zk_broker)}, directories={_list(b.directories)}, "
        f"cordonedDirectories={cordoned})"
    )


def _controller_text(c: ControllerRegistration) -> str:
    return (
        f"ControllerRegistration(id={c.id}, incarnationId={c.incarnation_id}, "
        f"zkMigrationReady={_bool(c.zk_migration_ready)}, listeners={_endpoints(c.listeners)}, "
        f"supportedFeatures={_feature_ranges(c.features)})"
    )


def _endpoints(listeners: Mapping[str, Endpoint]) -> str:
    return _list(
        f"Endpoint(listenerName='{e.listener_name}', securityProtocol={_SECURITY_PROTOCOLS[e.security_protocol]}, "
        f"host='{e.host}', port={e.port})"
        for e in sorted(listeners.values())
    )


def _feature_ranges(features: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{name}: {levels.min}-{levels.max}" for name, levels in sorted(features.items())) + "}"


def _configs(image: MetadataImage, show_secrets: bool) -> Directory:
    def child(name: str) -> Node | None:
        type_name, _, resource_name = name.partition(":")
        if type_name not in ConfigResourceType.__members__:
            return None
        resource = ConfigResource(int(ConfigResourceType[type_name]), resource_name)
        configs = image.configs.of(resource)
        if not configs:
            return None
        is_broker = resource.type == ConfigResourceType.BROKER
        hides = is_broker and not show_secrets
        return _leaves({key: HIDDEN if hides and _is_secret(key) else value for key, value in configs.items()})

    return Directory(lambda: map(_config_resource_text, image.configs.by_resource), child)


def _config_resource_text(resource: ConfigResource) -> str:
    return _name(ConfigResourceType, resource.type) + (f":{resource.name}" if resource.name else "")


def _is_secret(name: str) -> bool:
    """Return whether a setting is a password, or is unknown and may be a password."""
    key = broker_config_key(name)
    return key is None or key.sensitive


def _client_quotas(image: MetadataImage) -> Directory:
    by_text = {_quota_text(entity): quotas for entity, quotas in image.client_quotas.by_entity.items()}
    return Directory.of({text: _leaves(quotas) for text, quotas in by_text.items()})


def _quota_text(entity: tuple[tuple[str, str | None], ...]) -> str:
    return "_".join(f"{_QUOTA_WORDS.get(kind, kind)}({'<default>' if name is None else name})" for kind, name in entity)


def _scram(image: MetadataImage, show_secrets: bool) -> Directory:
    by_key = image.scram.by_key

    def users(mechanism: int) -> Directory:
        def child(user: str) -> Node | None:
            found = by_key.get((mechanism, user))
            return None if found is None else File(partial(_scram_text, found, show_secrets))

        return Directory(lambda: (user for code, user in by_key if code == mechanism), child)

    return Directory.of({name: users(code) for name, code in _SCRAM_MECHANISMS.items()})


def _scram_text(credential: UserScramCredentialRecord, show_secrets: bool) -> str:
    secrets = (credential.salt, credential.stored_key, credential.server_key)
    salt, stored, server = (secret.hex() if show_secrets else HIDDEN for secret in secrets)
    return (
        f"ScramCredentialData(salt={salt}, storedKey={stored}, serverKey={server}, iterations={credential.iterations})"
    )


def _delegation_tokens(image: MetadataImage) -> Directory:
    by_key = image.delegation_tokens.by_key

    def child(token_id: str) -> Node | None:
        found = by_key.get(token_id)
        return None if found is None else File(partial(_token_text, found))

    return Directory(lambda: by_key, child)


def _token_text(token: DelegationTokenRecord) -> str:
    """Return Kafka's text, with its unbalanced brackets. The log does not contain the HMAC."""
    renewers = " ".join(token.renewers)
    return (
        f"DelegationTokenDatatokenId={token.token_id}(owner={token.owner}(tokenRequester={token.requester}"
        f"(renewers={renewers}, issueTimestamp={token.issue_timestamp}, maxTimestamp={token.max_timestamp}), "
        f"expiryTimestamp={token.expiration_timestamp}"
    )


def _features(image: MetadataImage) -> Directory:
    levels: dict[str, object] = {
        f"finalized_{name}": level for name, level in image.features.finalized_versions.items()
    }
    version = image.features.metadata_version
    levels["metadataVersion"] = "Optional.empty" if version is None else f"Optional[{version}]"
    return _leaves(levels)


def _producer_ids(image: MetadataImage) -> Directory:
    next_id = image.producer_ids.next_producer_id
    return _leaves({} if next_id < 0 else {"nextProducerId": next_id})


def _provenance_text(provenance: MetadataProvenance) -> str:
    """Format a time as Java prints a ZonedDateTime: without trailing zeros, and without seconds if they are 0."""
    time_ms = provenance.last_contained_log_time_ms
    when = datetime.fromtimestamp(time_ms // 1000, UTC)
    text = when.strftime("%Y-%m-%dT%H:%M")
    if when.second or time_ms % 1000:
        text += when.strftime(":%S")
    if time_ms % 1000:
        text += f".{time_ms % 1000:03d}".rstrip("0")
    return f"offset {provenance.last_contained_offset}, epoch {provenance.last_contained_epoch}, time {text}Z[UTC]"


def _name(kind: Any, code: int) -> str:
    return str(kind(code).name) if code in kind._value2member_map_ else str(code)


def _list(values: Iterable[object]) -> str:
    return "[" + ", ".join(map(str, values)) + "]"


def _bool(value: bool) -> str:
    return "true" if value else "false"
