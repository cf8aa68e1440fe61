"""Read the throttle of moves from the cluster, so that another command can continue or remove it.

Kafka's settings contain a rate for each broker, and, for each topic, the replicas that the rate applies to. The value
``*`` means all replicas. Such a throttle is permanent and does not belong to moves, so we keep it and its rates.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barnabas.cli.arguments.config_resources import resource_problems
from barnabas.cli.arguments.topic_selection import topic_names
from barnabas.cli.moves.reassignment import FOLLOWER_RATE, FOLLOWERS, LEADER_RATE, LEADERS, throttle
from barnabas.cli.output.answer import Change, Problem
from barnabas.clients.admin import ConfigResource, ConfigResourceType, ConfigSource

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient, ConfigResource

__all__ = ["CurrentThrottle", "end_throttle", "find_throttle"]


@dataclass(frozen=True, slots=True)
class CurrentThrottle:
    """The throttle. ``settings`` are deleted when all moves have ended. ``lasting`` topics have a permanent throttle.

    ``rate`` is the rate of the moves in bytes per second, or None without a rate or with different rates.
    """

    settings: dict[ConfigResource, dict[str, None]] = field(default_factory=dict)
    rate: int | None = None
    lasting: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


async def find_throttle(admin: AdminClient) -> CurrentThrottle:
    brokers = [node.id for node in (await admin.describe_cluster()).nodes]
    resources = [*map(ConfigResource.topic, await topic_names(admin)), *map(ConfigResource.broker, brokers)]
    found = await admin.describe_configs(resources, keys=[LEADERS, FOLLOWERS, LEADER_RATE, FOLLOWER_RATE])
    settings: dict[ConfigResource, dict[str, None]] = {}
    rates: set[str] = set()
    lasting = []
    for resource, config in found.values.items():
        own = (ConfigSource.TOPIC_CONFIG, ConfigSource.DYNAMIC_BROKER_CONFIG)
        entries = [entry for entry in config.entries.values() if entry.source in own]
        if any(entry.name in (LEADERS, FOLLOWERS) and entry.value == "*" for entry in entries):
            lasting.append(resource.name)
        elif entries:
            settings[resource] = dict.fromkeys(entry.name for entry in entries)
            rates |= {entry.value or "" for entry in entries if entry.name in (LEADER_RATE, FOLLOWER_RATE)}
    if lasting:
        settings = {resource: keys for resource, keys in settings.items() if resource.type == ConfigResourceType.TOPIC}
        rates = set()
    problems = await resource_problems(admin, found.errors, "DESCRIBE_CONFIGS")
    rate = int(next(iter(rates))) if len(rates) == 1 else None
    return CurrentThrottle(settings, rate, tuple(lasting), tuple(problems))


async def end_throttle(admin: AdminClient, *, dry_run: bool) -> tuple[list[Change], list[Problem]]:
    """Delete the throttle settings of moves on all topics and brokers."""
    found = await find_throttle(admin)
    changes, problems = await throttle(admin, found.settings, dry_run=dry_run)
    return changes, [*found.problems, *problems]
