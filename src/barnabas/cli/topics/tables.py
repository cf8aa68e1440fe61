"""Tables and documents of ``barnabas topics describe``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from barnabas.cli.arguments.topic_selection import topic_problems
from barnabas.cli.output.answer import Answer
from barnabas.cli.output.authorized_operations import add_operations
from barnabas.cli.output.progress import in_steps
from barnabas.cli.output.table import Sheet
from barnabas.clients.admin import ConfigResource, ConfigSource

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient, Config, TopicDescription, TopicPartitionInfo

__all__ = ["Shown", "described_answer"]

_TOPICS_PER_STEP = 200
_MIN_ISR = "min.insync.replicas"


@dataclass(frozen=True, slots=True)
class Shown:
    """The content of the tables. ``kind`` selects partitions with a problem; None selects all partitions."""

    kind: str | None = None
    only_overridden: bool = False

    def takes(self, partition: TopicPartitionInfo, min_isr: int) -> bool:
        in_sync = len(partition.isr)
        match self.kind:
            case "under-replicated":
                return in_sync < len(partition.replicas)
            case "unavailable":
                return partition.leader is None
            case "under-min-isr":
                return in_sync < min_isr
            case "at-min-isr":
                return in_sync == min_isr
            case _:
                return True


async def described_answer(
    admin: AdminClient, names: Sequence[Any], shown: Shown, *, with_operations: bool = False
) -> Answer:
    topics: list[TopicDescription] = []
    errors: dict[Any, Any] = {}
    configs: dict[str, Config] = {}
    for part in in_steps(names, _TOPICS_PER_STEP, "describing topics"):
        results = await admin.describe_topics(part, include_authorized_operations=with_operations)
        topics += results.values.values()
        errors |= results.errors
        configs |= await _configs(admin, [description.name for description in results.values.values()])
    problems, _ = await topic_problems(admin, errors, "DESCRIBE on Topic:{item}")
    topics.sort(key=lambda topic: topic.name)
    rows = [(topic, _partitions(topic, configs.get(topic.name), shown)) for topic in topics]
    overrides = {topic.name: _overrides(configs.get(topic.name)) for topic in topics}
    if shown.kind is not None:
        rows = [row for row in rows if row[1]]
    if shown.only_overridden:
        rows = [row for row in rows if overrides[row[0].name]]
    document = {"topics": [_document(topic, some, overrides[topic.name]) for topic, some in rows]}
    hidden = [topic.name for topic in topics if topic.name not in configs]
    notes = []
    if hidden:
        which = f"Topic:{hidden[0]}" + (f" and {len(hidden) - 1} other topics" if len(hidden) > 1 else "")
        notes.append(f"settings are not shown: this needs DESCRIBE_CONFIGS on {which}")
    if not rows and not problems:
        notes.append("no such topics exist" if shown.kind is None else f"no partition is {shown.kind}")
    answer = Answer(document, _sheets(rows, overrides, shown), notes, problems)
    if with_operations:
        shown_topics = [(f"Topic:{topic.name}", topic.authorized_operations) for topic, _ in rows]
        return add_operations(answer, document["topics"], shown_topics)
    return answer


async def _configs(admin: AdminClient, names: Sequence[str]) -> dict[str, Config]:
    """Return the settings that the caller may see. It may lack this right for a topic that it may describe."""
    found = await admin.describe_configs([ConfigResource.topic(name) for name in names])
    return {resource.name: config for resource, config in found.values.items()}


def _overrides(config: Config | None) -> dict[str, str | None]:
    if config is None:
        return {}
    own = (entry for entry in config.entries.values() if entry.source == ConfigSource.TOPIC_CONFIG)
    return {entry.name: entry.value for entry in sorted(own, key=lambda entry: entry.name)}


def _partitions(topic: TopicDescription, config: Config | None, shown: Shown) -> list[TopicPartitionInfo]:
    min_isr = int((config.get(_MIN_ISR) if config is not None else None) or 1)
    return [partition for partition in topic.partitions if shown.takes(partition, min_isr)]


def _sheets(
    rows: Sequence[tuple[TopicDescription, list[TopicPartitionInfo]]],
    overrides: Mapping[str, Mapping[str, str | None]],
    shown: Shown,
) -> list[Sheet]:
    if not rows:
        return []
    topics = Sheet(columns=("topic", "id", "partitions", "replication factor", "own settings"), drop_first=("id",))
    partitions = Sheet(columns=("topic", "partition", "leader", "replicas", "in sync", "offline"), keep=3)
    for topic, some in rows:
        own = " ".join(f"{name}={value}" for name, value in overrides[topic.name].items())
        factor = max((len(partition.replicas) for partition in topic.partitions), default=0)
        topics.add(topic.name, str(topic.topic_id), str(len(topic.partitions)), str(factor), own)
        for partition in some:
            is_well = partition.leader is not None and len(partition.isr) == len(partition.replicas)
            leader = "none" if partition.leader is None else str(partition.leader)
            partitions.add(
                topic.name, str(partition.partition), leader, _ids(partition.replicas), _ids(partition.isr),
                _ids(partition.offline_replicas), style="" if is_well else "bold red",
            )  # fmt: skip
    topics.drop_last_column_if_empty()
    partitions.drop_last_column_if_empty()
    if shown.only_overridden:
        return [topics]
    return [partitions] if shown.kind is not None else [topics, partitions]


def _document(
    topic: TopicDescription, partitions: Sequence[TopicPartitionInfo], overrides: Mapping[str, str | None]
) -> dict[str, object]:
    return {
        "topic": topic.name,
        "id": str(topic.topic_id),
        "internal": topic.is_internal,
        "configs": dict(overrides),
        "partitions": [
            {
                "partition": partition.partition,
                "leader": partition.leader,
                "leader_epoch": partition.leader_epoch,
                "replicas": list(partition.replicas),
                "isr": list(partition.isr),
                "offline_replicas": list(partition.offline_replicas),
                "eligible_leader_replicas": _listed(partition.eligible_leader_replicas),
                "last_known_elr": _listed(partition.last_known_elr),
            }
            for partition in partitions
        ],
    }


def _ids(brokers: Sequence[int]) -> str:
    return ", ".join(map(str, brokers))


def _listed(brokers: Sequence[int] | None) -> list[int] | None:
    return None if brokers is None else list(brokers)
