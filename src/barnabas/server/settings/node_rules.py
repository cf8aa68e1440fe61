"""Rules between several of a node's settings, and values derived from them.

The rules about roles, listeners and groups are in ``role_rules``, ``listener_rules`` and ``group_rules``. ``rule`` runs
all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from barnabas.broker.replication.replica_selector import LEADER_SELECTOR, RACK_AWARE_SELECTOR
from barnabas.common.config_value import Password
from barnabas.common.settings.problem import SettingProblem
from barnabas.network.request_limits import bytes_by_api
from barnabas.protocol.compression import Compression
from barnabas.server.settings.derived_values import (
    bootstrap_servers,
    cordoned_log_directories,
    log_directories,
    metrics_endpoint,
)
from barnabas.server.settings.endpoints import parse_voter
from barnabas.server.settings.group_rules import register_group_rules
from barnabas.server.settings.listener_rules import derive_listeners
from barnabas.server.settings.rule import Settings, check_rules, rule

if TYPE_CHECKING:
    from barnabas.server.settings.node_config import NodeConfig

__all__ = ["check_rules", "derive"]


_MIN_DEDUPE_BYTES_PER_THREAD = 1024 * 1024

register_group_rules()


def derive(config: NodeConfig) -> None:
    """Fill the attributes of a checked config that follow from several settings."""
    settings = Settings(config.values, {})
    config.node_id = int(settings.number("node.id" if "node.id" in settings else "broker.id"))
    config.process_roles = tuple(settings.texts("process.roles"))
    derive_listeners(config, settings)
    if settings.text("super.users") and not settings.text("authorizer.class.name"):
        config.warnings.append("super.users has no effect: without authorizer.class.name all users may do everything")
    if settings.text("super.users"):
        from barnabas.security.super_user_warnings import (
            super_user_warnings,  # A node without super users does not load it.
        )

        has_own_types = any(name.endswith("principal.builder.class") for name in config.values)
        warnings = super_user_warnings(settings.text("super.users"), only_users_log_in=not has_own_types)
        config.warnings += [f"super.users: {warning}" for warning in warnings]
    config.quorum_voters = [parse_voter(text) for text in settings.texts("controller.quorum.voters")]
    config.quorum_bootstrap_servers = bootstrap_servers(settings, config.controller_listeners)
    config.log_dirs = log_directories(settings)
    config.cordoned_log_dirs = cordoned_log_directories(settings)
    config.metadata_log_dir = settings.text("metadata.log.dir") or config.log_dirs[0]
    config.metrics_endpoint = metrics_endpoint(settings)


@rule("barnabas.config.encryption.keys", "barnabas.config.encryption.keys.file")
def _encryption_keys_are_keys(settings: Settings) -> Iterator[SettingProblem]:
    name, file = "barnabas.config.encryption.keys", "barnabas.config.encryption.keys.file"
    keys = settings.value(name)
    if not isinstance(keys, Password):
        return
    if settings.text(file):
        yield settings.problem(file, f"{name} is set too", "keep one of them")
    from barnabas.security.config_cipher import key_texts, parse_encryption_keys

    try:
        parse_encryption_keys(key_texts(keys.value))
    except ValueError as error:
        yield settings.problem(name, str(error), "create a key with: openssl rand -base64 32")


@rule("barnabas.audit.topic.replication.factor")
def _audit_topic_has_replicas(settings: Settings) -> Iterator[SettingProblem]:
    name = "barnabas.audit.topic.replication.factor"
    if settings.number(name) == 0:
        yield settings.problem(name, "a topic needs a replica", "set it to -1 for default.replication.factor")


@rule("share.coordinator.state.topic.compression.codec")
def _share_state_has_a_codec(settings: Settings) -> Iterator[SettingProblem]:
    name = "share.coordinator.state.topic.compression.codec"
    if settings.number(name) not in list(Compression):
        known = ", ".join(f"{codec.value} ({codec.name.lower()})" for codec in Compression)
        yield settings.problem(name, "is not the number of a codec", f"set it to one of {known}")


@rule("replica.selector.class")
def _replica_selector_is_known(settings: Settings) -> Iterator[SettingProblem]:
    name, known = "replica.selector.class", (RACK_AWARE_SELECTOR, LEADER_SELECTOR)
    if settings.text(name) not in ("", *known):
        yield settings.problem(name, "is a class that can't be loaded here", f"set it to {' or '.join(known)}")


_SHARE_LIMITS = ("delivery.count.limit", "partition.max.record.locks", "record.lock.duration.ms")


@rule(*(f"group.share.{bound}{name}" for name in _SHARE_LIMITS for bound in ("", "min.", "max.")))
def _share_limits_are_within_their_bounds(settings: Settings) -> Iterator[SettingProblem]:
    for limit in _SHARE_LIMITS:
        name, least, most = (f"group.share.{bound}{limit}" for bound in ("", "min.", "max."))
        if not settings.number(least) <= settings.number(name) <= settings.number(most):
            yield settings.problem(name, f"must be between {least} and {most}", "change it, or the bound")


@rule("group.share.max.share.sessions", "group.share.max.size")
def _a_group_fits_into_the_share_sessions(settings: Settings) -> Iterator[SettingProblem]:
    name, size = "group.share.max.share.sessions", "group.share.max.size"
    if settings.number(name) < settings.number(size):
        yield settings.problem(name, f"must be at least {size}, which is {settings.number(size):.0f}")


@rule("log.dirs", "log.dir")
def _there_are_log_dirs(settings: Settings) -> Iterator[SettingProblem]:
    directories = log_directories(settings)
    if not directories or not all(directories):
        yield settings.problem("log.dirs", "at least one log directory is needed", "set log.dirs=/var/lib/barnabas")


@rule("cordoned.log.dirs")
def _cordoned_directories_are_log_dirs(settings: Settings) -> Iterator[SettingProblem]:
    for path in cordoned_log_directories(settings):
        if path not in log_directories(settings):
            yield settings.problem(
                "cordoned.log.dirs", f"{path} is not in log.dirs", "name directories of log.dirs, or * for all of them"
            )


@rule("log.roll.ms", "log.roll.jitter.ms", "log.retention.ms", "log.retention.minutes", "log.retention.hours")
def _times_are_positive(settings: Settings) -> Iterator[SettingProblem]:
    for name, least in (("log.roll.ms", 1), ("log.roll.jitter.ms", 0)):
        if name in settings and settings.number(name) < least:
            yield settings.problem(name, f"must be at least {least}")
    for name in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
        if name in settings and settings.number(name) == 0:
            yield settings.problem(name, "must be at least 1, or negative to keep records forever")


@rule("log.cleaner.dedupe.buffer.size", "log.cleaner.threads")
def _cleaner_has_memory(settings: Settings) -> Iterator[SettingProblem]:
    threads = settings.number("log.cleaner.threads")
    if threads < 1:
        yield settings.problem("log.cleaner.threads", "must be at least 1", "set log.cleaner.enable=false for none")
    elif settings.number("log.cleaner.dedupe.buffer.size") / threads <= _MIN_DEDUPE_BYTES_PER_THREAD:
        yield settings.problem("log.cleaner.dedupe.buffer.size", "must be above 1 MiB for each of log.cleaner.threads")


# The first must not be above the second.
_ORDERED = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("broker.heartbeat.interval.ms", "broker.session.timeout.ms"),
    ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
    ("replica.fetch.wait.max.ms", "replica.socket.timeout.ms"),
    ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
)


@rule(*(name for pair in _ORDERED for name in pair))
def _pairs_are_in_order(settings: Settings) -> Iterator[SettingProblem]:
    return _problems_of_pairs(settings, _ORDERED)


def _problems_of_pairs(settings: Settings, pairs: Iterable[tuple[str, str]]) -> Iterator[SettingProblem]:
    for smaller, larger in pairs:
        least, most = int(settings.number(smaller)), int(settings.number(larger))
        if least > most and (smaller in settings or larger not in settings):
            yield settings.problem(smaller, f"must not be above {larger}, which is {most}")
        elif least > most:
            yield settings.problem(larger, f"must not be below {smaller}, which is {least}")


_GROUP_KINDS = ("consumer", "streams")
_LIMITED = ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms")
"""Settings of a kind of groups between a smallest and a largest value."""
_GROUP_LIMITS = (
    *((f"group.{kind}.min.{name}", f"group.{kind}.max.{name}") for kind in _GROUP_KINDS for name in _LIMITED),
    *((f"group.{kind}.min.{name}", f"group.{kind}.{name}") for kind in _GROUP_KINDS for name in _LIMITED),
    *((f"group.{kind}.{name}", f"group.{kind}.max.{name}") for kind in _GROUP_KINDS for name in _LIMITED),
    *((f"group.{kind}.heartbeat.interval.ms", f"group.{kind}.session.timeout.ms") for kind in _GROUP_KINDS),
    ("group.streams.num.standby.replicas", "group.streams.max.standby.replicas"),
)


@rule(*{name for pair in _GROUP_LIMITS for name in pair})
def _group_settings_keep_their_limits(settings: Settings) -> Iterator[SettingProblem]:
    yield from _problems_of_pairs(settings, _GROUP_LIMITS)
    for kind in _GROUP_KINDS:
        interval, timeout = f"group.{kind}.heartbeat.interval.ms", f"group.{kind}.session.timeout.ms"
        if settings.number(interval) == settings.number(timeout):
            yield settings.problem(interval, f"must be below {timeout}, which is {int(settings.number(timeout))}")


@rule("group.coordinator.rebalance.protocols")
def _groups_of_the_protocols_are_supported(settings: Settings) -> Iterator[SettingProblem]:
    name = "group.coordinator.rebalance.protocols"
    protocols = settings.texts(name)
    if "classic" not in protocols:
        yield settings.problem(name, "lacks classic", "add classic: that protocol can't be disabled")
    if "share" in protocols:
        yield settings.problem(name, "has share", "remove share: share groups are not supported")


@rule("connections.max.idle.ms", "connection.failed.authentication.delay.ms")
def _idle_connections_outlive_failed_ones(settings: Settings) -> Iterator[SettingProblem]:
    idle, delay = (
        settings.number("connections.max.idle.ms"),
        settings.number("connection.failed.authentication.delay.ms"),
    )
    if 0 <= idle <= delay:
        name = "connections.max.idle.ms"
        yield settings.problem(name, f"must be above connection.failed.authentication.delay.ms, which is {int(delay)}")


@rule("authorizer.class.name", "super.users", "allow.everyone.if.no.acl.found")
def _the_authorizer_takes_its_settings(settings: Settings) -> Iterator[SettingProblem]:
    if not settings.text("authorizer.class.name") and not settings.text("super.users"):
        return
    from barnabas.server.settings.authorizer import authorizer_problems  # A node without ACLs does not load it.

    for name, what, advice in authorizer_problems(settings.text("authorizer.class.name"), settings.text("super.users")):
        yield settings.problem(name, what, advice)


@rule("alter.config.policy.class.name", "create.topic.policy.class.name")
def _policies_can_be_loaded(settings: Settings) -> Iterator[SettingProblem]:
    for name in ("alter.config.policy.class.name", "create.topic.policy.class.name"):
        if not settings.text(name):
            continue
        from barnabas.server.settings.policy_classes import (  # A node without policies does not load it.
            PolicyProblem,
            load_policy,
        )

        try:
            load_policy(name, settings.text(name))
        except PolicyProblem as problem:
            yield settings.problem(name, problem.what, problem.advice)


@rule("barnabas.request.max.bytes.overrides")
def _request_sizes_are_numbers(settings: Settings) -> Iterator[SettingProblem]:
    name = "barnabas.request.max.bytes.overrides"
    try:
        bytes_by_api(settings.text(name))
    except ValueError as error:
        yield settings.problem(name, str(error), "write Name:bytes, separated by commas, or nothing")


@rule("barnabas.metrics.listener")
def _metrics_listener_is_an_address(settings: Settings) -> Iterator[SettingProblem]:
    try:
        metrics_endpoint(settings)
    except ValueError as error:
        yield settings.problem("barnabas.metrics.listener", str(error), "write host:port, or nothing for no endpoint")
