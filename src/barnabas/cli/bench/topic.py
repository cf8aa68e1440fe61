"""The topic that a load goes to, made if somebody asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cyclopts import Group, Parameter

from barnabas.cli.arguments.cluster_options import Flag, UsageError
from barnabas.cli.arguments.config_options import parse_settings
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_name import topic_name_problem

if TYPE_CHECKING:
    from barnabas.clients.client_config import ClientConfig

__all__ = ["NewTopicOptions", "check_topic"]


@Parameter(name="*", group=Group("A topic for it", sort_key=60))
@dataclass(kw_only=True)
class NewTopicOptions:
    """Nothing is created unless --create-topic is given."""

    create_topic: Flag = False
    """Create the topic if it is not there. It stays afterwards."""
    partitions: int | None = None
    """Of the new topic; without it, the cluster's num.partitions."""
    replication_factor: int | None = None
    """Of the new topic; without it, the cluster's default.replication.factor."""
    topic_config: list[str] | None = None
    """A setting of the new topic as key=value. May be repeated."""

    def check(self) -> None:
        """Raises UsageError."""
        for option, value in (("--partitions", self.partitions), ("--replication-factor", self.replication_factor)):
            if value is not None and value < 1:
                raise UsageError(f"{option} {value}: it must be at least 1")
            if value is not None and not self.create_topic:
                raise UsageError(f"{option} is for a new topic: give --create-topic with it")
        if self.topic_config and not self.create_topic:
            raise UsageError("--topic-config is for a new topic: give --create-topic with it")
        parse_settings(self.topic_config)

    async def made(self, config: ClientConfig, topic: str, *, dry_run: bool = False) -> list[str]:
        """What was done, as notes. Raises AdminError, ClientError."""
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
            return [f"topic {topic} is there already and used as it is"]
        raise error


def check_topic(topic: str, *, option: str = "--topic", given: str | None = None) -> None:
    """Raises UsageError for what no topic may be called; ``given`` is what the option says, if not all of it."""
    problem = topic_name_problem(topic)
    if problem is not None:
        raise UsageError(f"{option} {topic if given is None else given}: {problem}")
