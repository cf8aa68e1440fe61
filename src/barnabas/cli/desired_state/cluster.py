"""Read the state of a cluster for ``plan`` and ``apply``, and make the steps of a plan."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from barnabas.access.cluster_state import BROKER, GROUP, TOPIC, ClusterState, ConfigTarget, Credential, TopicState
from barnabas.access.desired_state_scope import AclScope, ConfigScope, NamePattern, QuotaScope, Scope
from barnabas.access.plan import (
    ConfigChange,
    Deletion,
    PartitionsChange,
    QuotaChange,
    Step,
    StepKind,
    TopicCreation,
    UserChange,
)
from barnabas.clients.admin import (
    AlterConfigOp,
    ClientQuotaEntity,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    NewTopic,
    ResourceNotFound,
    ScramDeletion,
    ScramUpsertion,
    SecurityDisabled,
    UnknownTopicOrPartition,
)
from barnabas.clients.errors import UnsupportedVersion
from barnabas.common.acl import AclBinding, AclBindingFilter

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient, Results
    from barnabas.clients.admin.errors import AdminError

__all__ = ["apply_step", "read_cluster", "whole_cluster_scope"]

Errors: TypeAlias = "Mapping[Any, AdminError]"
"""Errors by refused item: topic, ACL, user or resource."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_ITERATIONS = 8192
"""Iterations of a new credential, unless the file sets them."""


def whole_cluster_scope(*, has_internal_topics: bool = False) -> Scope:
    """Return the scope of an export."""
    every = NamePattern("", True)
    kinds = (("user",), ("client-id",), ("client-id", "user"), ("ip",))
    return Scope(
        topics=(every, NamePattern("__", True)) if has_internal_topics else (every,),
        configs=(ConfigScope(BROKER, NamePattern("")), ConfigScope(BROKER, every), ConfigScope(GROUP, every)),
        acls=(AclScope(None, None, every),),
        users=(every,),
        quotas=tuple(QuotaScope(tuple((kind, every) for kind in entity_types)) for entity_types in kinds),
    )


async def read_cluster(admin: AdminClient, scope: Scope, *, needs_all: bool = True) -> tuple[ClusterState, list[str]]:
    """Return the part of the cluster in the scope, with all ACLs, and notes about unreadable parts.

    Raise AdminError if the caller may not see a part of the scope; with ``needs_all``, also if the cluster does not
    support a part.
    """
    notes: list[str] = []
    topics = await _topics(admin, scope) if scope.topics else {}
    configs = await _configs(admin, scope, notes) if scope.configs else {}
    acls: frozenset[AclBinding] = frozenset()
    try:
        if scope.acls:
            acls = frozenset([binding async for binding in admin.describe_acls()])
    except SecurityDisabled:
        if needs_all:
            raise
        notes.append("the cluster has no authorizer, so it has no ACLs")
    users: dict[Credential, int | None] = {}
    try:
        if scope.users:
            users = await _users(admin, scope)
    except UnsupportedVersion as lacking:  # KRaft clusters support users since Kafka 3.5.
        if needs_all:
            raise
        notes.append(f"{lacking}: users can't be read")
    quotas = {}
    if scope.quotas:
        found = await admin.describe_client_quotas()
        quotas = {entity.parts: limits for entity, limits in found.items() if scope.has_quota(entity.parts)}
    return ClusterState(topics, configs, acls, users, quotas), notes


async def _topics(admin: AdminClient, scope: Scope) -> dict[str, TopicState]:
    names = [topic.name async for topic in admin.list_topics(include_internal=True) if scope.has_topic(topic.name)]
    described = _all(await admin.describe_topics(names), UnknownTopicOrPartition) if names else {}
    settings = await _overrides(admin, map(ConfigResource.topic, names), {ConfigSource.TOPIC_CONFIG})
    return {
        str(name): TopicState(
            len(topic.partitions), len(topic.partitions[0].replicas) if topic.partitions else None, settings[str(name)]
        )
        for name, topic in described.items()
        if str(name) in settings
    }


def _all(results: Results[K, V], *deleted: type[AdminError]) -> dict[K, V]:
    """Return all values. Raise the first error, except for items that were deleted after the listing."""
    for error in results.errors.values():
        if not isinstance(error, deleted):
            raise error
    return results.values


async def _overrides(
    admin: AdminClient, resources: Iterable[Any], sources: set[Any]
) -> dict[str, dict[str, str | None]]:
    """Return settings by resource name. The values of secrets are unknown."""
    found = _all(await admin.describe_configs(resources), UnknownTopicOrPartition)
    return {
        resource.name: {
            entry.name: None if entry.is_sensitive else entry.value or ""
            for entry in config.entries.values()
            if entry.source in sources
        }
        for resource, config in found.items()
    }


async def _configs(admin: AdminClient, scope: Scope, notes: list[str]) -> dict[ConfigTarget, dict[str, str | None]]:
    result: dict[ConfigTarget, dict[str, str | None]] = {}
    if scope.has_config(ConfigTarget(BROKER, "")):
        default = await _overrides(admin, [ConfigResource.broker()], {ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG})
        result[ConfigTarget(BROKER, "")] = default[""]
    if any(
        config_scope.type == BROKER and (config_scope.name.is_prefix or config_scope.name.text)
        for config_scope in scope.configs
    ):
        nodes = [node.id for node in (await admin.describe_cluster()).nodes]
        wanted = [node for node in nodes if scope.has_config(ConfigTarget(BROKER, str(node)))]
        found = await _overrides(admin, map(ConfigResource.broker, wanted), {ConfigSource.DYNAMIC_BROKER_CONFIG})
        result |= {ConfigTarget(BROKER, name): values for name, values in found.items()}
    groups = await _group_names(admin, scope, notes)
    if groups:
        found = await _overrides(admin, map(ConfigResource.group, groups), {ConfigSource.GROUP_CONFIG})
        result |= {ConfigTarget(GROUP, name): values for name, values in found.items()}
    return {target: values for target, values in result.items() if values}


async def _group_names(admin: AdminClient, scope: Scope, notes: list[str]) -> list[str]:
    patterns = [config_scope.name for config_scope in scope.configs if config_scope.type == GROUP]
    names = {pattern.text for pattern in patterns if not pattern.is_prefix}
    if any(pattern.is_prefix for pattern in patterns):
        try:
            listed = await admin.list_config_resources([ConfigResourceType.GROUP])
            names |= {listing.name for listing in listed if scope.has_config(ConfigTarget(GROUP, listing.name))}
        except UnsupportedVersion:
            notes.append(
                "this cluster can't list groups with settings (Kafka 4.1 can): only groups in the file were read"
            )
    return sorted(names)


async def _users(admin: AdminClient, scope: Scope) -> dict[Credential, int | None]:
    found = _all(await admin.describe_user_scram_credentials())
    return {
        Credential(user, info.mechanism): info.iterations
        for user, infos in found.items()
        if scope.has_user(user)
        for info in infos
    }


async def apply_step(
    admin: AdminClient, step: Step, passwords: Mapping[Credential, str], *, wait: bool = False
) -> Errors:
    """Make a step and return its errors. With ``wait``, return when every live broker shows all steps so far."""
    work = {
        StepKind.CREATE_ACLS: _create_acls,
        StepKind.DELETE_ACLS: _delete_acls,
        StepKind.DELETE_TOPICS: _delete_topics,
        StepKind.CREATE_TOPICS: _create_topics,
        StepKind.CREATE_PARTITIONS: _create_partitions,
        StepKind.ALTER_CONFIGS: _alter_configs,
        StepKind.ALTER_QUOTAS: _alter_quotas,
    }.get(step.kind)
    if work is not None:
        return await work(admin, step, wait)
    return await _alter_users(admin, step, passwords, wait)


async def _create_acls(admin: AdminClient, step: Step, wait: bool) -> Errors:
    rules = [change for change in step.changes if isinstance(change, AclBinding)]
    return (await admin.create_acls(rules, wait=wait)).errors


async def _delete_acls(admin: AdminClient, step: Step, wait: bool) -> Errors:
    filters = [AclBindingFilter(*change) for change in step.changes if isinstance(change, AclBinding)]
    return (await admin.delete_acls(filters, wait=wait)).errors


async def _delete_topics(admin: AdminClient, step: Step, wait: bool) -> Errors:
    results = await admin.delete_topics(
        [change.name for change in step.changes if isinstance(change, Deletion)], wait=wait
    )
    # An earlier request may have succeeded although its response was lost.
    return {name: error for name, error in results.errors.items() if not isinstance(error, UnknownTopicOrPartition)}


async def _create_topics(admin: AdminClient, step: Step, wait: bool) -> Errors:
    topics = [
        NewTopic(change.name, change.topic.partitions, change.topic.replication_factor, dict(change.topic.configs))
        for change in step.changes
        if isinstance(change, TopicCreation)
    ]
    return (await admin.create_topics(topics, wait=wait)).errors


async def _create_partitions(admin: AdminClient, step: Step, wait: bool) -> Errors:
    wanted = {change.name: change.after for change in step.changes if isinstance(change, PartitionsChange)}
    return (await admin.create_partitions(wanted, wait=wait)).errors


async def _alter_configs(admin: AdminClient, step: Step, wait: bool) -> Errors:
    types = {TOPIC: ConfigResourceType.TOPIC, BROKER: ConfigResourceType.BROKER, GROUP: ConfigResourceType.GROUP}
    changes = {
        ConfigResource(types[change.target.type], change.target.name): [
            AlterConfigOp.delete(key) if value is None else AlterConfigOp.set(key, value)
            for key, _, value in change.values
        ]
        for change in step.changes
        if isinstance(change, ConfigChange)
    }
    return (await admin.incremental_alter_configs(changes, wait=wait)).errors


async def _alter_quotas(admin: AdminClient, step: Step, wait: bool) -> Errors:
    changes = {
        ClientQuotaEntity(change.entity): {key: value for key, _, value in change.values}
        for change in step.changes
        if isinstance(change, QuotaChange)
    }
    return (await admin.alter_client_quotas(changes, wait=wait)).errors


async def _alter_users(admin: AdminClient, step: Step, passwords: Mapping[Credential, str], wait: bool) -> Errors:
    alterations: list[ScramUpsertion | ScramDeletion] = []
    for change in step.changes:
        if isinstance(change, Deletion) and isinstance(change.item, Credential):
            alterations.append(ScramDeletion(change.item.user, change.item.mechanism))
        elif isinstance(change, UserChange):
            key = change.credential
            iterations = change.iterations or change.before or _ITERATIONS
            alterations.append(ScramUpsertion(key.user, key.mechanism, passwords[key], iterations))
    errors = (await admin.alter_user_scram_credentials(alterations, wait=wait)).errors
    if step.kind is StepKind.DELETE_USERS:
        return {user: error for user, error in errors.items() if not isinstance(error, ResourceNotFound)}
    return errors
