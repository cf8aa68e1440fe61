"""``barnabas topics list|describe|create|alter|add-partitions|delete``: manage the topics of a cluster.

``list`` is in ``listing``, ``elect-leaders`` and ``delete-records`` are in ``partitions``, ``offsets`` and ``tail`` in
modules of their names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.cli.arguments.cluster_app import cluster_app, main_of
from barnabas.cli.arguments.cluster_options import ChangeOptions, ClusterOptions, Count, Flag, UsageError
from barnabas.cli.arguments.config_options import parse_settings
from barnabas.cli.arguments.topic_selection import (
    merged,
    parse_assignment,
    require_topics,
    select_topics,
    topic_problems,
)
from barnabas.cli.output.advice import problems_of
from barnabas.cli.output.answer import Answer, Change, change_answer
from barnabas.cli.output.progress import in_steps
from barnabas.cli.topics.listing import list_topics
from barnabas.cli.topics.offsets import offsets
from barnabas.cli.topics.partitions import delete_records, elect_leaders
from barnabas.cli.topics.tail import tail
from barnabas.common.error_code import ErrorCode

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient

__all__ = ["app", "main"]

app = cluster_app("topics", "List, describe, create, alter and delete topics, elect leaders, and delete records.")
main = main_of(app)
app.command(list_topics, name="list")
app.command(elect_leaders, name="elect-leaders")
app.command(delete_records, name="delete-records")
app.command(offsets)
app.command(tail)

_TOPICS_PER_STEP = 100


@app.command
def describe(
    topic: list[str] | None = None,
    *,
    topic_id: list[str] | None = None,
    under_replicated_partitions: Flag = False,
    unavailable_partitions: Flag = False,
    under_min_isr_partitions: Flag = False,
    at_min_isr_partitions: Flag = False,
    topics_with_overrides: Flag = False,
    exclude_internal: Flag = False,
    authorized_operations: Flag = False,
    options: ClusterOptions | None = None,
) -> int:
    """Describe topics: partitions, leaders, replicas, and settings that override the cluster's.

    An option about partitions selects only such partitions, of the named topics or of all topics.

    For example:

        barnabas topics describe orders
        barnabas topics describe --under-replicated-partitions
        barnabas topics describe 'pay.*' --output yaml

    Parameters
    ----------
    topic
        A name, or a regular expression that matches the whole name. May be repeated. Default: all topics.
    topic_id
        The id of a topic, instead of its name. May be repeated.
    under_replicated_partitions
        Only partitions with replicas that are not in sync.
    unavailable_partitions
        Only partitions without a leader.
    under_min_isr_partitions
        Only partitions with fewer replicas in sync than min.insync.replicas.
    at_min_isr_partitions
        Only partitions with exactly min.insync.replicas replicas in sync.
    topics_with_overrides
        Only topics with their own settings, without their partitions.
    exclude_internal
        Omit internal topics, such as __consumer_offsets.
    authorized_operations
        Also show the operations that you may perform on each topic.
    """
    from barnabas.cli.topics.tables import Shown, described_answer

    kinds = {
        "under-replicated": under_replicated_partitions,
        "unavailable": unavailable_partitions,
        "under-min-isr": under_min_isr_partitions,
        "at-min-isr": at_min_isr_partitions,
    }
    chosen = [kind for kind, is_chosen in kinds.items() if is_chosen]
    if len(chosen) + topics_with_overrides > 1:
        raise UsageError(f"{' and '.join(chosen)} can't be used together")
    shown = Shown(kind=chosen[0] if chosen else None, only_overridden=topics_with_overrides)
    ids = [_parse_id(text) for text in topic_id or ()]

    async def work(admin: AdminClient) -> Answer:
        names: list[Any] = list(ids)
        if topic or not ids:
            names += [
                listing.name for listing in await select_topics(admin, topic, include_internal=not exclude_internal)
            ]
        return await described_answer(admin, names, shown, with_operations=authorized_operations)

    return (options or ClusterOptions()).run(work, right="DESCRIBE on the topics")


@app.command
def create(
    topic: list[str] | None = None,
    *,
    partitions: Count | None = None,
    replication_factor: Count | None = None,
    replica_assignment: str | None = None,
    config: list[str] | None = None,
    if_not_exists: Flag = False,
    wait: Flag = False,
    options: ChangeOptions | None = None,
) -> int:
    """Create topics.

    For example:

        barnabas topics create orders --partitions 6 --replication-factor 3
        barnabas topics create orders payments --config retention.ms=86400000 --config cleanup.policy=compact,delete
        barnabas topics create orders --replica-assignment 1:2,2:3 --dry-run

    Parameters
    ----------
    topic
        The name of a topic. May be repeated; all topics have the same partitions and settings.
    partitions
        Number of partitions. Default: num.partitions of the cluster.
    replication_factor
        Number of replicas of each partition. Default: default.replication.factor of the cluster.
    replica_assignment
        Instead of both: the brokers of each partition, the preferred leader first, for example 1:2,2:3.
    config
        A setting of the topics, as key=value. May be repeated.
    if_not_exists
        Succeed if a topic of this name exists, whatever its settings.
    wait
        Return when every live broker has the topics and their leaders.
    """
    names = require_topics(topic)
    settings = parse_settings(config)
    assignments = None if replica_assignment is None else parse_assignment(replica_assignment)
    if assignments is not None and (partitions is not None or replication_factor is not None):
        raise UsageError(
            "--replica-assignment determines partitions and replicas: omit --partitions and --replication-factor"
        )
    options = options or ChangeOptions()
    dry_run = options.dry_run

    async def work(admin: AdminClient) -> Answer:
        from barnabas.cli.arguments.config_names import unknown_setting_advice
        from barnabas.clients.admin import NewTopic

        wanted = [NewTopic(name, partitions, replication_factor, dict(settings), assignments) for name in names]
        results = merged(
            [
                await admin.create_topics(part, validate_only=dry_run, wait=wait)
                for part in in_steps(wanted, _TOPICS_PER_STEP, "creating topics")
            ]
        )
        there = [
            name
            for name, error in results.errors.items()
            if if_not_exists and error.code == ErrorCode.TOPIC_ALREADY_EXISTS
        ]
        problems = problems_of(
            {name: error for name, error in results.errors.items() if name not in there},
            right="CREATE on Topic:{item} or on Cluster",
            advice={ErrorCode.INVALID_CONFIG: unknown_setting_advice("topic", settings)},
        )
        notes = [f"{name} exists already" for name in there]
        changes = [_created(results.values[name]) for name in names if name in results.values]
        return change_answer(changes, problems, dry_run=dry_run, notes=notes)

    return options.run(work, right="CREATE on Cluster")


@app.command(name=["add-partitions", "alter"])
def add_partitions(
    topic: list[str] | None = None,
    *,
    partitions: Count,
    replica_assignment: str | None = None,
    if_exists: Flag = False,
    wait: Flag = False,
    options: ChangeOptions | None = None,
) -> int:
    """Increase the number of partitions of topics. The number can never decrease.

    Afterwards producers assign keys to other partitions than before.

    For example:

        barnabas topics add-partitions orders --partitions 12
        barnabas topics add-partitions orders --partitions 12 --dry-run

    Parameters
    ----------
    topic
        The name of a topic. May be repeated.
    partitions
        The new total number of partitions.
    replica_assignment
        The brokers of each NEW partition, the preferred leader first, for example 1:2,2:3.
    if_exists
        Skip topics that do not exist.
    wait
        Return when every live broker has the new partitions and their leaders.
    """
    names = require_topics(topic)
    assignments = None if replica_assignment is None else parse_assignment(replica_assignment)
    options = options or ChangeOptions()
    dry_run = options.dry_run

    async def work(admin: AdminClient) -> Answer:
        from barnabas.clients.admin import NewPartitions

        wanted = {name: NewPartitions(partitions, assignments) for name in names}
        results = await admin.create_partitions(wanted, validate_only=dry_run, wait=wait)
        problems, notes = await topic_problems(admin, results.errors, "ALTER on Topic:{item}", if_exists=if_exists)
        changes = [
            Change("topic", name, "grown", f"to {partitions} partitions", {"partitions": partitions})
            for name in results.values
        ]
        return change_answer(changes, problems, dry_run=dry_run, notes=notes)

    return options.run(work)


@app.command
def delete(
    topic: list[str] | None = None,
    *,
    topic_id: list[str] | None = None,
    if_exists: Flag = False,
    wait: Flag = False,
    options: ChangeOptions | None = None,
) -> int:
    """Delete topics with all their records. This can't be undone.

    For example:

        barnabas topics delete orders --dry-run
        barnabas topics delete orders payments --if-exists

    Parameters
    ----------
    topic
        The name of a topic, not a regular expression. May be repeated.
    topic_id
        The id of a topic, instead of its name. May be repeated.
    if_exists
        Skip topics that do not exist.
    wait
        Return when no live broker still has the topics.
    """
    names: list[Any] = [_parse_id(text) for text in topic_id or ()]
    if topic or not names:
        names += require_topics(topic)
    options = options or ChangeOptions()
    dry_run = options.dry_run

    async def work(admin: AdminClient) -> Answer:
        if dry_run:  # The protocol has no dry run for this: show that the topic exists, and its partitions.
            results: Any = await admin.describe_topics(names)
        else:
            results = merged(
                [
                    await admin.delete_topics(part, wait=wait)
                    for part in in_steps(names, _TOPICS_PER_STEP, "deleting topics")
                ]
            )
        problems, notes = await topic_problems(admin, results.errors, "DELETE on Topic:{item}", if_exists=if_exists)
        changes = [
            Change("topic", str(name), "deleted", f"{len(found.partitions)} partitions" if dry_run else "")
            for name, found in results.values.items()
        ]
        return change_answer(changes, problems, dry_run=dry_run, notes=notes)

    return options.run(work)


def _created(topic: Any) -> Change:
    details = ""
    if topic.partitions is not None:
        details = f"partitions {topic.partitions}, replication factor {topic.replication_factor}"
    more = {
        "id": None if topic.topic_id.is_reserved else str(topic.topic_id),
        "partitions": topic.partitions,
        "replication_factor": topic.replication_factor,
    }
    return Change("topic", topic.name, "created", details, more)


def _parse_id(text: str) -> object:
    from barnabas.common.uuid import Uuid

    try:
        return Uuid.from_string(text)
    except ValueError as error:
        raise UsageError(f"--topic-id {text}: {error}") from error
