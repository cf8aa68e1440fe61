"""The three topics of a group of workers: created if they are missing, otherwise checked.

They must keep the last record of each key forever, so compaction must be their only cleanup policy. A topic that also
deletes by age or size is refused, as is a config topic of several partitions, whose records would have no order. A
worker without the rights to create topics or read their settings can still use them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barnabas.clients.admin.config_entries import ConfigResource
from barnabas.clients.admin.errors import AdminError
from barnabas.clients.admin.topics import NewTopic
from barnabas.clients.client_config import is_client_property
from barnabas.clients.errors import ClientError, UnsupportedVersion
from barnabas.common.error_code import ErrorCode
from barnabas.common.errors import Transient
from barnabas.connect.errors import ConnectError
from barnabas.connect.run.retries import Retries
from barnabas.connect.settings.worker_settings import WORKER_CONFIG_DEF

if TYPE_CHECKING:
    from barnabas.clients.admin.client import AdminClient

__all__ = [
    "InternalTopic",
    "UnusableTopic",
    "config_topic",
    "ensure_internal_topic",
    "internal_client_properties",
    "offset_topic",
    "status_topic",
]

log = logging.getLogger(__name__)

_POLICY = "cleanup.policy"
_COMPACT = "compact"
_SET_ELSEWHERE = frozenset({"topic", "partitions", "replication.factor", _POLICY})
_MAY_NOT = frozenset({ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED})
_COMES_LATER = frozenset({ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.LEADER_NOT_AVAILABLE})
"""Brokers that start together with the worker may not all be registered yet."""


class UnusableTopic(ConnectError):
    """The worker must not start with this topic. The text says what to change."""


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """``setting`` is the worker's setting that names it. Numbers of -1 leave it to the cluster."""

    name: str
    setting: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)
    must_be_one_partition: bool = False
    prefix: str = ""
    """The beginning of the settings' names; by default ``setting`` without its last part."""

    @property
    def setting_prefix(self) -> str:
        return self.prefix or self.setting.removesuffix("topic")


def config_topic(settings: Mapping[str, object]) -> InternalTopic:
    return _topic(settings, "config.storage", partitions=1, must_be_one_partition=True)


def offset_topic(settings: Mapping[str, object], name: str | None = None) -> InternalTopic:
    """Return the topic. ``name`` is a connector's own topic, which is created like the worker's."""
    return _topic(settings, "offset.storage", partitions=_number(settings, "offset.storage.partitions"), name=name)


def status_topic(settings: Mapping[str, object]) -> InternalTopic:
    return _topic(settings, "status.storage", partitions=_number(settings, "status.storage.partitions"))


def internal_client_properties(settings: Mapping[str, object], kind: str) -> dict[str, str]:
    """Return the worker's own settings for the clients of internal topics; ``producer.`` and the like are for
    connectors.

    ``kind`` is ``configs``, ``offsets`` or ``statuses``, and ends the client's id.
    """
    properties = {
        name: str(value) for name, value in settings.items() if value is not None and is_client_property(name)
    }
    base = properties.get("client.id") or f"{settings.get('group.id', 'connect')}-"
    properties["client.id"] = f"{base}{kind}"
    return properties


def _topic(
    settings: Mapping[str, object],
    prefix: str,
    *,
    partitions: int,
    name: str | None = None,
    must_be_one_partition: bool = False,
) -> InternalTopic:
    given = {
        key.removeprefix(f"{prefix}."): str(value) for key, value in settings.items() if key.startswith(f"{prefix}.")
    }
    if given.get(_POLICY, _COMPACT) != _COMPACT:
        log.warning("%s.%s=%s is not used: the topic is compacted", prefix, _POLICY, given[_POLICY])
    return InternalTopic(
        name or str(settings[f"{prefix}.topic"]),
        f"{prefix}.topic",
        partitions,
        _number(settings, f"{prefix}.replication.factor"),
        {key: value for key, value in given.items() if key not in _SET_ELSEWHERE},
        must_be_one_partition,
    )


def _number(settings: Mapping[str, object], name: str) -> int:
    return int(str(settings.get(name, WORKER_CONFIG_DEF[name].default)))


async def ensure_internal_topic(admin: AdminClient, topic: InternalTopic, *, timeout_s: float) -> str | None:
    """Create the topic, or check the existing one. Return why this worker may not create it, if that is so: then the
    topic may be missing.

    Raise UnusableTopic, also with the cause after the timeout; ClientError; TimeoutError if no broker has answered.
    """
    retries = Retries()
    try:
        async with asyncio.timeout(timeout_s):
            return await _create_or_check(admin, topic, retries)
    except TimeoutError as error:
        if retries.problem is None:
            raise
        raise UnusableTopic(f"{retries.problem}. The worker has tried for {timeout_s:g} s") from error


async def _create_or_check(admin: AdminClient, topic: InternalTopic, retries: Retries) -> str | None:
    try:
        if not await _create(admin, topic, retries):
            await _verify_policy(admin, topic)
    except _MayNotCreate as refused:
        await _verify_policy(admin, topic)
        return str(refused)
    return None


class _MayNotCreate(Exception):
    pass


async def _create(admin: AdminClient, topic: InternalTopic, retries: Retries) -> bool:
    """Create the topic. Return whether it is new. Raise _MayNotCreate without the right."""
    wanted = NewTopic(
        topic.name,
        None if topic.partitions == -1 else topic.partitions,
        None if topic.replication_factor == -1 else topic.replication_factor,
        {**topic.configs, _POLICY: _COMPACT},
    )
    while True:
        try:
            (await admin.create_topics([wanted], wait=True)).raise_for_errors()
        except AdminError as error:
            if error.code == ErrorCode.TOPIC_ALREADY_EXISTS:
                return False
            if error.code in _MAY_NOT:
                log.info("using topic %s unchecked, because this worker may not create topics: %s", topic.name, error)
                raise _MayNotCreate(str(error)) from error
            if error.code not in _COMES_LATER:
                raise UnusableTopic(_not_created(topic, error)) from error
            await retries.failed(_not_created(topic, error))
        except UnsupportedVersion:
            return False
        except ClientError as error:
            if not isinstance(error, Transient):
                raise
            await retries.failed(f"topic {topic.name} ({topic.setting}) can't be created yet: {error}")
        else:
            log.info("topic %s was created", topic.name)
            return True


def _not_created(topic: InternalTopic, error: AdminError) -> str:
    prefix = topic.setting_prefix
    hint = (
        f" -> start more brokers, or lower {prefix}replication.factor (it is {topic.replication_factor})"
        if error.code == ErrorCode.INVALID_REPLICATION_FACTOR
        else f" -> check the settings that begin with {prefix}"
    )
    return f"topic {topic.name} ({topic.setting}) can't be created: {error}{hint}"


async def _verify_policy(admin: AdminClient, topic: InternalTopic) -> None:
    resource = ConfigResource.topic(topic.name)
    try:
        found = (await admin.describe_configs([resource], keys=[_POLICY]))[resource]
        policies = {policy.strip() for policy in (found.get(_POLICY) or "").split(",")}
    except (AdminError, UnsupportedVersion) as error:
        if isinstance(error, AdminError) and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return  # It is missing and can't be created; its reader reports this.
        log.info("can't check whether topic %s is compacted: %s", topic.name, error)
        return
    if policies != {_COMPACT}:
        raise UnusableTopic(
            f"topic {topic.name} ({topic.setting}) has {_POLICY}={','.join(sorted(policies))}, but only {_COMPACT} "
            f"keeps the workers' records -> set {_POLICY}={_COMPACT} on the topic, or another one as {topic.setting}"
        )


def ensure_partitions(topic: InternalTopic, count: int) -> None:
    """Check the number of partitions. Raise UnusableTopic."""
    if topic.must_be_one_partition and count != 1:
        raise UnusableTopic(
            f"topic {topic.name} ({topic.setting}) has {count} partitions, but its records need one order "
            f"-> create a topic with one partition and set {topic.setting} to it"
        )
