"""Create the topic of a load on request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.cli.arguments.cluster_options import Flag, UsageError
from barnabas.cli.arguments.config_options import parse_settings
from barnabas.cli.arguments.parameter import Group, Parameter
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_name import topic_name_problem

if TYPE_CHECKING:
    from barnabas.clients.client_config import ClientConfig

__all__ = ["NewTopicOptions", "check_topic"]


@Parameter(name="*", group=Group("Topic creation", sort_key=60))
@dataclass(kw_only=True)
class NewTopicOptions:
    """Options of the new topic. The run creates it only with --create-topic."""

    create_topic: Flag = False
    """Create the topic if it does not exist. It stays after the run."""
    partitions: int | None = None
    """Number of partitions of the new topic. Default: num.partitions of the cluster."""
    replication_factor: int | None = None
    """Replication factor of the new topic. Default: default.replication.factor of the cluster."""
    topic_config: list[str] | None = None
    """A setting of the new topic as key=value. May be repeated."""

    def check(self) -> None:
        """Raise UsageError for invalid options."""
        for option, value in (("--partitions", self.partitions), ("--replication-factor", self.replication_factor)):
            if value is not None and value < 1:
                raise UsageError(f"{option} {value}: it must be at least 1")
            if value is not None and not self.create_topic:
                raise UsageError(f"{option} applies to a new topic: use --create-topic too")
        if self.topic_config and not self.create_topic:
            raise UsageError("--topic-config applies to a new topic: use --create-topic too")
        parse_settings(self.topic_config)

    async def made(self, config: ClientConfig, topic: str, *, dry_run: bool = False) -> list[str]:
        """Create the topic if requested, and return notes about it. Raise AdminError or ClientError."""
        if not self.create_topic:
            return []
        from barnabas.clients.admin import NewTopic
        from barnabas.clients.admin.client import AdminClient

        new = NewTopic(topic, self.partitions, self.replication_factor, dict(parse_settings(self.topic_config)))
        async with AdminClient(config=config) as admin:
            results = await admin.create_topics([new], validate_only=dry_run, wait=True)
        error = results.errors.get(topic)
        if error is None:
            return [f"topic {topic} {'would be' if dry_run else 'was'} created"]
        if error.code == ErrorCode.TOPIC_ALREADY_EXISTS:
            return [f"topic {topic} exists already; its partitions and settings are unchanged"]
        raise error


def check_topic(topic: str, *, option: str = "--topic", given: str | None = None) -> None:
    """Raise UsageError for an invalid topic name. ``given`` is the option's value, if it differs from ``topic``."""
    problem = topic_name_problem(topic)
    if problem is not None:
        raise UsageError(f"{option} {topic if given is None else given}: {problem}")
