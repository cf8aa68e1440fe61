"""Select resources with settings: ``--topic orders``, or Kafka's ``--entity-type topics --entity-name orders``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal

from barnabas.cli.arguments.cluster_options import Flag, UsageError
from barnabas.cli.arguments.parameter import Group, Parameter
from barnabas.cli.output.advice import nearest, problem_of
from barnabas.cli.output.answer import Problem
from barnabas.common.error_code import ErrorCode

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient, AdminError, ConfigResource

__all__ = ["ENTITY_TYPES", "Entities", "noun", "resource_problems", "right_to"]

EntityType = Literal["topics", "brokers", "broker-loggers", "groups", "client-metrics", "users", "clients", "ips"]

ENTITY_TYPES = {"topics": 2, "brokers": 4, "broker-loggers": 8, "client-metrics": 16, "groups": 32}
"""Numbers of Kafka's config resources."""
_NOUNS = {2: "topic", 4: "broker", 8: "broker-logger", 16: "client-metrics", 32: "group"}


@Parameter(name="*", group=Group("Whose settings", sort_key=50))
@dataclass(kw_only=True)
class Entities:
    """Options that select resources."""

    topic: list[str] | None = None
    """A topic. May be repeated."""
    broker: list[str] | None = None
    """The id of a broker. May be repeated."""
    broker_defaults: Flag = False
    """The cluster-wide default of all brokers."""
    broker_logger: list[str] | None = None
    """The id of a broker, for its log levels. May be repeated."""
    group: list[str] | None = None
    """A consumer group. May be repeated."""
    client_metrics: list[str] | None = None
    """A client-metrics subscription. May be repeated."""
    entity_type: Annotated[EntityType | None, Parameter()] = None
    """The resource type, as in Kafka's tool. Without a name: all resources of the type."""
    entity_name: list[str] | None = None
    """With --entity-type: the name or id. May be repeated."""
    entity_default: Flag = False
    """With --entity-type brokers: the cluster-wide default of all brokers."""

    def named(self) -> list[tuple[int, str]]:
        """Return types and names from the command line; "" is the default of all brokers. Raise UsageError."""
        found = [
            (ENTITY_TYPES[kind], name)
            for kind, names in (
                ("topics", self.topic),
                ("brokers", self.broker),
                ("broker-loggers", self.broker_logger),
                ("groups", self.group),
                ("client-metrics", self.client_metrics),
            )
            for name in names or ()
        ]
        if self.broker_defaults:
            found.append((ENTITY_TYPES["brokers"], ""))
        found += self._by_entity()
        for kind, name in found:
            if kind in (4, 8) and name and not name.isdecimal():
                raise UsageError(f"{name}: a broker id is a number")
        return list(dict.fromkeys(found))

    def _by_entity(self) -> list[tuple[int, str]]:
        if self.entity_type is None:
            if self.entity_name or self.entity_default:
                raise UsageError("--entity-name and --entity-default need --entity-type")
            return []
        if self.entity_type in ("users", "clients", "ips"):
            other = "'barnabas users' for passwords and " if self.entity_type == "users" else ""
            raise UsageError(f"--entity-type {self.entity_type}: use {other}'barnabas quotas' for quotas")
        if self.entity_default and self.entity_type != "brokers":
            raise UsageError(f"--entity-default: only brokers have a common default, not {self.entity_type}")
        names = [*(self.entity_name or ()), *([""] if self.entity_default else [])]
        return [(ENTITY_TYPES[self.entity_type], name) for name in names]

    def one_type(self) -> int | None:
        """Return the type whose resources are all selected, because no name is given."""
        return None if self.entity_type is None else ENTITY_TYPES.get(self.entity_type)

    async def resources(self, admin: AdminClient) -> list[ConfigResource]:
        """Return the named resources; without a name, all of the type. Raise UsageError without a name and type."""
        from barnabas.clients.admin import ConfigResource, ConfigResourceType

        named = [ConfigResource(ConfigResourceType(kind), name) for kind, name in self.named()]
        if named:
            return named
        kind = self.one_type()
        if kind is None:
            raise UsageError(WHOSE)
        if kind == ConfigResourceType.TOPIC:
            return [ConfigResource.topic(topic.name) async for topic in admin.list_topics(include_internal=True)]
        if kind in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER):
            brokers = [str(node.id) for node in (await admin.describe_cluster()).nodes]
            defaults = [""] if kind == ConfigResourceType.BROKER else []
            return [ConfigResource(ConfigResourceType(kind), name) for name in brokers + defaults]
        return await admin.list_config_resources([ConfigResourceType(kind)])


WHOSE = "no resource given: use --topic, --broker, --broker-defaults, --broker-logger, --group or --client-metrics"


def noun(resource: ConfigResource) -> str:
    return _NOUNS.get(int(resource.type), "resource")


async def resource_problems(
    admin: AdminClient,
    errors: Mapping[ConfigResource, AdminError],
    operation: str,
    *,
    advice: Mapping[ErrorCode, str] | Callable[[ConfigResource], Mapping[ErrorCode, str]] | None = None,
) -> list[Problem]:
    """Return problems for refused resources, with the missing right or the nearest topic name."""
    is_unknown = any(error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for error in errors.values())
    topics = [topic.name async for topic in admin.list_topics(include_internal=True)] if is_unknown else []
    problems = []
    for resource, error in errors.items():
        known = advice(resource) if callable(advice) else advice
        problem = problem_of(error, right=right_to(operation, resource), advice=known)
        if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and (near := nearest(resource.name, topics)):
            problem = replace(problem, advice=f"did you mean {near}?")
        problems.append(replace(problem, item=f"{noun(resource)} {resource.name or '(default)'}"))
    return problems


def right_to(operation: str, resource: ConfigResource) -> str:
    """Return the right that Kafka requires, as in ALTER_CONFIGS on Topic:orders."""
    what = {2: f"Topic:{resource.name}", 32: f"Group:{resource.name}"}.get(int(resource.type), "Cluster")
    return f"{operation} on {what}"
