"""``barnabas bench admin``: send many requests of admin tools concurrently. The run removes everything it creates.

Every name begins with the prefix and the run's id, and topics and ACLs are removed individually by name. So the run
never changes other topics or ACLs. The cleanup is measured too. It also runs after Ctrl-C and after an error. If the
cleanup is interrupted, the command lists the remaining topics and ACLs.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from barnabas.cli.bench.advice import ADVICE
from barnabas.cli.bench.clients import RequestLatencies, WatchedNetwork, measure_requests
from barnabas.cli.bench.measurements import (
    LATENCY_COLUMNS,
    latency_cells,
    number,
    rate,
    throttle_document,
    throttle_notes,
)
from barnabas.cli.output.advice import problem_of
from barnabas.cli.output.answer import Answer, Problem
from barnabas.cli.output.table import Sheet
from barnabas.clients.admin import AlterConfigOp, ConfigResource, NewTopic
from barnabas.clients.admin.client import AdminClient
from barnabas.clients.admin.errors import AdminError
from barnabas.clients.errors import ClientError
from barnabas.clients.leader_tracker import ThrottleStatistics
from barnabas.clients.network_client import NetworkClient
from barnabas.common.acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from barnabas.common.error_code import ErrorCode
from barnabas.common.resource import PatternType, ResourceType

if TYPE_CHECKING:
    from barnabas.clients.admin.results import Results
    from barnabas.clients.client_config import ClientConfig

__all__ = ["OPERATIONS", "AdminLoad", "admin_dry_run", "measure_admin"]

OPERATIONS = {
    "create-topics": "CREATE on Cluster, or on Topic:{prefix}",
    "describe-topics": "DESCRIBE on Topic:{prefix}",
    "describe-configs": "DESCRIBE_CONFIGS on Topic:{prefix}",
    "alter-configs": "ALTER_CONFIGS on Topic:{prefix}",
    "create-acls": "ALTER on Cluster",
    "describe-acls": "DESCRIBE on Cluster",
}
"""The operations, in order of execution, and the right that each needs."""

_CLEANUP = {"delete-acls": "ALTER on Cluster", "delete-topics": "DELETE on Topic:{prefix}"}
_NEEDS_TOPICS = frozenset({"describe-topics", "describe-configs", "alter-configs"})
_NEEDS_RULES = frozenset({"create-acls", "describe-acls"})
_SETUP_TOPICS = 10
_VISIBLE_WITHIN_S = 30.0
_GONE_WITHIN_S = 10.0
_LOOK_EVERY_S = 0.1
_NAMED = 5


@dataclass(frozen=True, slots=True)
class AdminLoad:
    """The load: ``requests`` for each operation, each with ``items`` topics or ACLs."""

    operations: Sequence[str]
    requests: int
    clients: int
    items: int
    scope: str
    partitions: int | None = 1
    replication_factor: int | None = None

    def topic(self, index: int) -> str:
        return f"{self.scope}-{index}"

    def topics_of(self, request: int) -> list[str]:
        return [self.topic(request * self.items + item) for item in range(self.items)]

    def rules_of(self, request: int) -> list[AclBinding]:
        return [
            AclBinding(
                ResourceType.TOPIC, name, PatternType.LITERAL, f"User:{self.scope}", "*",
                AclOperation.READ, AclPermissionType.ALLOW,
            )
            for name in self.topics_of(request)
        ]  # fmt: skip

    @property
    def makes_topics(self) -> int:
        if "create-topics" in self.operations:
            return self.requests * self.items
        return max(_SETUP_TOPICS, self.items) if _NEEDS_TOPICS & set(self.operations) else 0

    @property
    def makes_rules(self) -> int:
        return self.requests * self.items if "create-acls" in self.operations else 0


@dataclass(slots=True)
class CreatedResources:
    """Topics and ACLs that may exist because of this run: requested, but not refused."""

    topics: dict[str, None] = field(default_factory=dict)
    rules: dict[AclBinding, None] = field(default_factory=dict)


def admin_dry_run(load: AdminLoad) -> Answer:
    sheet = Sheet(columns=("operation", "requests", "items in each"))
    for name in load.operations:
        sheet.add(name, f"{load.requests:,}", f"{load.items:,}")
    notes = [
        f"by {load.clients} concurrent clients",
        f"{load.makes_topics:,} topics {load.scope}-* would be created and deleted again",
    ]
    if load.makes_rules:
        notes.append(f"{load.makes_rules:,} ACLs for User:{load.scope} would be added and removed again")
    document = {
        "dry_run": True,
        "operations": list(load.operations),
        "topics": load.makes_topics,
        "rules": load.makes_rules,
        "scope": load.scope,
    }
    return Answer(document, [sheet], [*notes, "nothing was changed"])


async def measure_admin(config: ClientConfig, load: AdminLoad, stop: asyncio.Event) -> Answer:
    """Run the measurement and the cleanup. Raise ClientError if no node responds."""
    throttle, made = ThrottleStatistics(), CreatedResources()
    async with AsyncExitStack() as stack:
        admins = []
        for _ in range(load.clients):
            network = NetworkClient(config)
            stack.push_async_callback(network.close)
            await network.connect()
            admins.append(AdminClient(config=config, network=WatchedNetwork(network, throttle)))
        figures: list[RequestLatencies] = []
        try:
            await _measure_all(load, admins, made, figures, stop)
        finally:
            left = await _clean_up(load, admins, made, figures)
    return _answer(load, figures, throttle, left)


async def _measure_all(
    load: AdminLoad,
    admins: Sequence[AdminClient],
    made: CreatedResources,
    figures: list[RequestLatencies],
    stop: asyncio.Event,
) -> None:
    is_shown = False
    for name in load.operations:
        if stop.is_set():
            return
        if name in _NEEDS_TOPICS and not is_shown:
            if not made.topics:
                await _set_up(load, admins[0], made)
            await _until_topics_shown(admins[0], list(made.topics))
            is_shown = True
        if name == "describe-acls":
            await _until_rules_shown(admins[0], load, len(made.rules))
        figures.append(await measure_requests(name, load.requests, admins, _request(name, load, made), stop))
        if figures[-1].failure is not None and not _is_without_authorizer(figures[-1]):
            return


def _request(name: str, load: AdminLoad, made: CreatedResources) -> Callable[[AdminClient, int], Awaitable[int]]:
    """Return a function that sends the request with a number and returns its number of items."""

    def some_topics(index: int) -> list[str]:
        known = list(made.topics)
        return [known[(index * load.items + item) % len(known)] for item in range(min(load.items, len(known)))]

    async def create_topics(admin: AdminClient, index: int) -> int:
        return await _create(load, admin, made, load.topics_of(index))

    async def describe_topics(admin: AdminClient, index: int) -> int:
        return _all_of(await admin.describe_topics(some_topics(index)))

    async def describe_configs(admin: AdminClient, index: int) -> int:
        return _all_of(await admin.describe_configs([ConfigResource.topic(name) for name in some_topics(index)]))

    async def alter_configs(admin: AdminClient, index: int) -> int:
        op = AlterConfigOp("retention.ms", str(86_400_000 + index))
        changes = {ConfigResource.topic(name): [op] for name in some_topics(index)}
        return _all_of(await admin.incremental_alter_configs(changes))

    async def create_acls(admin: AdminClient, index: int) -> int:
        rules = load.rules_of(index)
        made.rules.update(dict.fromkeys(rules))
        results = await admin.create_acls(rules)
        for rule in results.errors:
            made.rules.pop(rule, None)
        return _all_of(results)

    async def describe_acls(admin: AdminClient, index: int) -> int:
        return await _shown_rules(admin, load)

    calls = (create_topics, describe_topics, describe_configs, alter_configs, create_acls, describe_acls)
    return dict(zip(OPERATIONS, calls, strict=True))[name]


async def _create(load: AdminLoad, admin: AdminClient, made: CreatedResources, names: list[str]) -> int:
    made.topics.update(dict.fromkeys(names))
    results = await admin.create_topics([NewTopic(name, load.partitions, load.replication_factor) for name in names])
    for name in results.errors:
        made.topics.pop(name, None)
    return _all_of(results)


async def _set_up(load: AdminLoad, admin: AdminClient, made: CreatedResources) -> None:
    """Create topics for operations that need them, if their creation is not measured."""
    await _create(load, admin, made, [load.topic(index) for index in range(load.makes_topics)])


async def _until_topics_shown(admin: AdminClient, names: list[str]) -> None:
    """Wait until the broker has the new topics, which it receives a moment after the controller."""

    async def all_shown() -> bool:
        return not (await admin.describe_topics(names)).errors

    if names:
        await _until(all_shown)


async def _until_rules_shown(admin: AdminClient, load: AdminLoad, count: int) -> None:
    """Wait until the broker has the new ACLs, so that each request that is measured returns all of them."""

    async def all_shown() -> bool:
        return await _shown_rules(admin, load) >= count

    if count:
        await _until(all_shown)


async def _shown_rules(admin: AdminClient, load: AdminLoad) -> int:
    return sum([1 async for _ in admin.describe_acls(AclBindingFilter(principal=f"User:{load.scope}"))])


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + _VISIBLE_WITHIN_S
    while loop.time() < end:
        if await holds():
            return
        await asyncio.sleep(_LOOK_EVERY_S)


def _all_of(results: Results[Any, Any]) -> int:
    """Return the number of results. Raise the first error."""
    for error in results.errors.values():
        raise error
    return len(results.values)


# --- cleaning up


async def _clean_up(
    load: AdminLoad, admins: Sequence[AdminClient], made: CreatedResources, figures: list[RequestLatencies]
) -> list[Problem]:
    """Remove the created topics and ACLs, and report those that could not be removed, even after an interrupt."""
    never = asyncio.Event()
    rules, topics = list(made.rules), list(made.topics)

    async def delete_acls(admin: AdminClient, index: int) -> int:
        part = rules[index * load.items : (index + 1) * load.items]
        results = await admin.delete_acls([AclBindingFilter(*rule) for rule in part])
        for rule in part:
            if AclBindingFilter(*rule) in results.values:
                made.rules.pop(rule, None)
        return _all_of(results)

    async def delete_topics(admin: AdminClient, index: int) -> int:
        part = topics[index * load.items : (index + 1) * load.items]
        results = await admin.delete_topics(part)
        for name in part:
            error = results.errors.get(name)
            if error is None or error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                made.topics.pop(name, None)
                results.errors.pop(name, None)
        return _all_of(results)

    try:
        for what, items, send in (("delete-acls", rules, delete_acls), ("delete-topics", topics, delete_topics)):
            if items:
                count = -(-len(items) // load.items)
                figures.append(await measure_requests(what, count, admins, send, never))
        if topics:
            await _until_gone(load, admins[0], made)
    except asyncio.CancelledError:
        for problem in _left_behind(load, made):
            sys.stderr.writelines(f"{line}\n" for line in problem.lines())
        raise
    return _left_behind(load, made)


async def _until_gone(load: AdminLoad, admin: AdminClient, made: CreatedResources) -> None:
    """Delete remaining topics.

    Only this run uses these names, so a listed topic is not deleted on all nodes yet, or was created late.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + _GONE_WITHIN_S
    try:
        while True:
            shown = [topic.name async for topic in admin.list_topics() if topic.name.startswith(f"{load.scope}-")]
            if not shown or loop.time() > end:
                made.topics.update(dict.fromkeys(shown))
                return
            await asyncio.sleep(_LOOK_EVERY_S)
            await admin.delete_topics(shown)
    except (AdminError, ClientError):
        return  # The caller already knows which topics could not be deleted.


def _left_behind(load: AdminLoad, made: CreatedResources) -> list[Problem]:
    problems = []
    if made.topics:
        text = f"{len(made.topics)} topics could not be deleted: {_some(made.topics)}"
        problems.append(Problem(text, advice=f"'barnabas topics list \"{load.scope}-.*\"' lists them"))
    if made.rules:
        text = f"{len(made.rules)} ACLs of User:{load.scope} could not be removed"
        problems.append(Problem(text, advice=f"'barnabas acls remove --principal User:{load.scope}' removes them"))
    return problems


def _some(names: Iterable[str]) -> str:
    known = list(names)
    return ", ".join(known[:_NAMED]) + (", ..." if len(known) > _NAMED else "")


# --- the answer


def _is_without_authorizer(figures: RequestLatencies) -> bool:
    """Return whether the cluster has no authorizer, and so no ACLs. Other operations can still be measured."""
    failure = figures.failure
    return (
        figures.what in _NEEDS_RULES
        and isinstance(failure, AdminError)
        and failure.code == (ErrorCode.SECURITY_DISABLED)
    )


def _answer(
    load: AdminLoad, figures: Sequence[RequestLatencies], throttle: ThrottleStatistics, left: list[Problem]
) -> Answer:
    sheet = Sheet(columns=("operation", "requests", "requests/s", "items/s", *LATENCY_COLUMNS))
    notes = throttle_notes(throttle)
    problems: list[Problem] = []
    for operation in figures:
        if operation.requests:
            sheet.add(
                operation.what, f"{operation.requests:,}", number(rate(operation.requests, operation.elapsed_s)),
                number(rate(operation.items, operation.elapsed_s)), *latency_cells(operation.latencies),
            )  # fmt: skip
        if _is_without_authorizer(operation):
            notes.append(f"{operation.what}: skipped, because the cluster has no authorizer (authorizer.class.name)")
        elif operation.failure is not None:
            problems.append(_problem(load, operation))
    document = {
        "scope": load.scope,
        "clients": load.clients,
        "items_per_request": load.items,
        "operations": [operation.document() for operation in figures if operation.requests],
        "throttle": throttle_document(throttle),
    }
    return Answer(document, [sheet] if sheet.rows else [], notes, [*problems, *left])


def _problem(load: AdminLoad, figures: RequestLatencies) -> Problem:
    failure = figures.failure
    assert failure is not None
    if not isinstance(failure, AdminError | ClientError | ValueError):
        raise failure
    right = (OPERATIONS | _CLEANUP)[figures.what].replace("{prefix}", f"{load.scope}-*")
    found = problem_of(failure, right=right, advice=ADVICE)
    return Problem(f"{figures.what}: {found.text}", found.item, found.code, found.advice)
