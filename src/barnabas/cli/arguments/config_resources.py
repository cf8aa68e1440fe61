"""Whose settings are meant: ``--topic orders``, or Kafka's ``--entity-type topics --entity-name orders``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Group, Parameter

from barnabas.cli.arguments.cluster_options import Flag, UsageError
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
    """Whose settings. Each may be repeated."""

    topic: list[str] | None = None
    """A topic. May be repeated."""
    broker: list[str] | None = None
    """A broker by its id. May be repeated."""
    broker_defaults: Flag = False
    """What all brokers have that have nothing of their own."""
    broker_logger: list[str] | None = None
    """The log levels of a broker, by its id. May be repeated."""
    group: list[str] | None = None
    """A group of consumers. May be repeated."""
    client_metrics: list[str] | None = None
    """A subscription of client metrics. May be repeated."""
    entity_type: Annotated[EntityType | None, Parameter()] = None
    """The type, as Kafka's tool has it; without a name, all of the type."""
    entity_name: list[str] | None = None
    """The name or id, for --entity-type. May be repeated."""
    entity_default: Flag = False
    """For --entity-type brokers: what all brokers have that have nothing of their own."""

    def named(self) -> list[tuple[int, str]]:
        """Types and names that stand on the command line; "" is the default of all brokers. Raises UsageError."""
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
                raise UsageError(f"{name}: a broker is named by its id, a number")
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
            raise UsageError(f"--entity-default: {self.entity_type} have no common default, only brokers have")
        names = [*(self.entity_name or ()), *([""] if self.entity_default else [])]
        return [(ENTITY_TYPES[self.entity_type], name) for name in names]

    def one_type(self) -> int | None:
        """The type all of whose resources are meant, because no name is given."""
        return None if self.entity_type is None else ENTITY_TYPES.get(self.entity_type)

    async def resources(self, admin: AdminClient) -> list[ConfigResource]:
        """Those that are named; without a name all of the type. Raises UsageError when nothing is named at all."""
        from barnabas.clients.admin import ConfigResource, ConfigResourceType

        named = [ConfigResource(ConfigResourceType(kind), name) for kind, name in self.named()]
        if named:
            return named
        kind = self.one_type()
        if kind is None:
            raise UsageError(WHOSE)
        if kind == ConfigResourceType.TOPIC:
            return [ConfigResource.topic(each.name) async for each in admin.list_topics(include_internal=True)]
        if kind in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER):
            brokers = [str(node.id) for node in (await admin.describe_cluster()).nodes]
            defaults = [""] if kind == ConfigResourceType.BROKER else []
            return [ConfigResource(ConfigResourceType(kind), name) for name in brokers + defaults]
        return await admin.list_config_resources([ConfigResourceType(kind)])


WHOSE = "whose settings? Give --topic, --broker, --broker-defaults, --broker-logger, --group or --client-metrics"


def noun(resource: ConfigResource) -> str:
    return _NOUNS.get(int(resource.type), "resource")


async def resource_problems(
    admin: AdminClient,
    errors: Mapping[ConfigResource, AdminError],
    operation: str,
    *,
    advice: Mapping[ErrorCode, str] | Callable[[ConfigResource], Mapping[ErrorCode, str]] | None = None,
) -> list[Problem]:
    """What was refused, with the right that is missing or the topic that may have been meant."""
    is_unknown = any(error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for error in errors.values())
    topics = [each.name async for each in admin.list_topics(include_internal=True)] if is_unknown else []
    problems = []
    for resource, error in errors.items():
        known = advice(resource) if callable(advice) else advice
        problem = problem_of(error, right=right_to(operation, resource), advice=known)
        if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and (near := nearest(resource.name, topics)):
            problem = replace(problem, advice=f"did you mean {near}?")
        problems.append(replace(problem, item=f"{noun(resource)} {resource.name or '(default)'}"))
    return problems


def right_to(operation: str, resource: ConfigResource) -> str:
    """The right that Kafka wants to see, as in ALTER_CONFIGS on Topic:orders."""
    what = {2: f"Topic:{resource.name}", 32: f"Group:{resource.name}"}.get(int(resource.type), "Cluster")
    return f"{operation} on {what}"
