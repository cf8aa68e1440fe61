"""What must hold between a node's settings (``setting_rules`` runs the rules), and what follows from several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from barnabas.common.broker_config import listener_base_name
from barnabas.common.config_value import Password
from barnabas.security.principal_builder import KAFKA_DEFAULT_BUILDER
from barnabas.server.listener_security import listener_value
from barnabas.server.listeners import (
    Endpoint,
    QuorumVoter,
    listener_protocols,
    parse_endpoint,
    parse_protocol_map,
    parse_voter,
)
from barnabas.server.setting_problem import Problem
from barnabas.server.setting_rules import Settings, check_rules, rule

if TYPE_CHECKING:
    from barnabas.server.node_config import NodeConfig

__all__ = ["check_rules", "derive"]

_MIN_DEDUPE_BYTES_PER_THREAD = 1024 * 1024
_META_ADDRESS = "0.0.0.0"


def derive(config: NodeConfig) -> None:
    """Fill the attributes of a checked config that follow from several settings."""
    settings = Settings(config.values, {})
    config.node_id = int(settings.number("node.id" if "node.id" in settings else "broker.id"))
    config.process_roles = tuple(settings.texts("process.roles"))
    protocols = _protocols(settings)
    controller_names = _controller_names(settings)
    bound = [_secured(parse_endpoint(text), protocols) for text in settings.texts("listeners")]
    advertised = [_secured(endpoint, protocols) for endpoint in _advertised(settings)]
    config.broker_listeners = [each for each in bound if each.listener not in controller_names]
    config.controller_listeners = [each for each in bound if each.listener in controller_names]
    config.advertised_broker_listeners = [each for each in advertised if each.listener not in controller_names]
    by_name = {each.listener: each for each in advertised}
    config.advertised_controller_listeners = [by_name.get(each.listener, each) for each in config.controller_listeners]
    config.first_controller_listener = controller_names[0]
    config.controller_security_protocol = protocols[controller_names[0]]
    config.inter_broker_listener_name = _inter_broker_listener(settings)
    config.early_start_listeners = _early_start_listeners(settings)
    if settings.text("super.users") and not settings.text("authorizer.class.name"):
        config.warnings.append("super.users has no effect: without authorizer.class.name everybody may do everything")
    config.quorum_voters = [parse_voter(text) for text in settings.texts("controller.quorum.voters")]
    config.quorum_bootstrap_servers = _bootstrap_servers(settings, config.controller_listeners)
    config.log_dirs = _log_dirs(settings)
    config.cordoned_log_dirs = _cordoned_log_dirs(settings)
    config.metadata_log_dir = settings.text("metadata.log.dir") or config.log_dirs[0]
    config.metrics_endpoint = _metrics_endpoint(settings)
    if config.is_broker and settings.number("offsets.topic.replication.factor") > 1:
        config.warnings.append(
            "offsets.topic.replication.factor is above 1 and partitions are not replicated yet: consumer groups can't "
            "be used; set it to 1"
        )


@rule("node.id", "broker.id")
def _node_has_an_id(settings: Settings) -> Iterator[Problem]:
    if "node.id" not in settings and settings.number("broker.id") < 0:
        yield settings.problem("node.id", "is required and has no default", "add node.id=1")
    elif {"node.id", "broker.id"} <= settings.given and settings.number("node.id") != settings.number("broker.id"):
        yield settings.problem("broker.id", "differs from node.id", "remove broker.id: node.id is enough")


@rule("process.roles")
def _node_has_roles(settings: Settings) -> Iterator[Problem]:
    if "process.roles" not in settings:
        yield settings.problem("process.roles", "is required and has no default", "add process.roles=broker,controller")


@rule("barnabas.config.encryption.keys", "barnabas.config.encryption.keys.file")
def _encryption_keys_are_keys(settings: Settings) -> Iterator[Problem]:
    name, file = "barnabas.config.encryption.keys", "barnabas.config.encryption.keys.file"
    keys = settings.value(name)
    if not isinstance(keys, Password):
        return
    if settings.text(file):
        yield settings.problem(file, f"{name} is set too", "keep one of them")
    from barnabas.security.config_encryption import key_texts, parse_encryption_keys

    try:
        parse_encryption_keys(key_texts(keys.value))
    except ValueError as error:
        yield settings.problem(name, str(error), "make a key with: openssl rand -base64 32")


@rule("barnabas.audit.topic.replication.factor")
def _audit_topic_has_replicas(settings: Settings) -> Iterator[Problem]:
    name = "barnabas.audit.topic.replication.factor"
    if settings.number(name) == 0:
        yield settings.problem(name, "a topic needs a replica", "set it to -1 for default.replication.factor")


@rule("listeners")
def _listeners_are_well_formed(settings: Settings) -> Iterator[Problem]:
    yield from _well_formed(settings, "listeners")


@rule("listeners")
def _listeners_differ(settings: Settings) -> Iterator[Problem]:
    endpoints = _endpoints(settings, "listeners")
    names = [each.listener for each in endpoints]
    ports = [each.port for each in endpoints if each.port]
    if len(set(names)) < len(names):
        yield settings.problem("listeners", "each listener must have a different name")
    elif len(set(ports)) < len(ports):
        yield settings.problem("listeners", "each listener must have a different port")


@rule("process.roles", "controller.listener.names", "listeners")
def _controller_listeners_are_listeners(settings: Settings) -> Iterator[Problem]:
    names = _controller_names(settings)
    bound = [each.listener for each in _endpoints(settings, "listeners")]
    if not names:
        yield settings.problem(
            "controller.listener.names", "is required and has no default",
            "add controller.listener.names=CONTROLLER, and a CONTROLLER:// listener to listeners",
        )  # fmt: skip
    for name in names:
        if name in bound and not _is_controller(settings):
            yield settings.problem(
                "listeners", f"{name} is a controller listener, and this node is no controller",
                "remove it from listeners; controller.listener.names says how controllers are reached",
            )  # fmt: skip
        elif name not in bound and _is_controller(settings):
            yield settings.problem(
                "controller.listener.names", f"{name} is not one of the listeners ({', '.join(bound)})",
                f"add {name}://localhost:9093 to listeners",
            )  # fmt: skip
    others = [name for name in bound if name not in names]
    if not _is_broker(settings) and others:
        yield settings.problem(
            "listeners", f"{', '.join(others)} is no controller listener, and this node is no broker",
            "name only those of controller.listener.names",
        )  # fmt: skip
    elif bound and not others and _is_broker(settings):
        yield settings.problem(
            "listeners", "all of them are controller listeners: a broker needs one for clients",
            "add PLAINTEXT://localhost:9092",
        )  # fmt: skip


@rule("listener.security.protocol.map")
def _protocol_map_is_well_formed(settings: Settings) -> Iterator[Problem]:
    try:
        parse_protocol_map(settings.text("listener.security.protocol.map"))
    except ValueError as error:
        yield settings.problem("listener.security.protocol.map", str(error))


@rule("listener.security.protocol.map", "listeners", "controller.listener.names")
def _listeners_have_a_protocol(settings: Settings) -> Iterator[Problem]:
    protocols = _protocols(settings)
    bound = [each.listener for each in _endpoints(settings, "listeners")]
    for setting, names in (("listeners", bound), ("controller.listener.names", _controller_names(settings))):
        for name in names:
            if name not in protocols and (setting == "listeners" or name not in bound):
                yield settings.problem(
                    setting, f"no security protocol is defined for listener {name}",
                    f"add {name}:PLAINTEXT to listener.security.protocol.map",
                )  # fmt: skip


@rule("listener.security.protocol.map", "listeners", "controller.listener.names", "sasl.enabled.mechanisms")
def _sasl_listeners_have_logins(settings: Settings) -> Iterator[Problem]:
    protocols = _protocols(settings)
    for endpoint in _endpoints(settings, "listeners"):
        if protocols.get(endpoint.listener, "").startswith("SASL_"):
            from barnabas.server.sasl_settings import sasl_problems  # A node without SASL doesn't load it.

            for name, what, advice in sasl_problems(settings, endpoint.listener):
                yield settings.problem(name, what, advice)


@rule("listener.security.protocol.map", "listeners", "controller.listener.names")
def _forms_for_a_listener_name_one(settings: Settings) -> Iterator[Problem]:
    names = {each.listener.lower() for each in _endpoints(settings, "listeners")}
    names.update(name.lower() for name in (*_controller_names(settings), *_protocols(settings)))
    for name in sorted(settings.given):
        if listener_base_name(name) is None:
            continue
        listener = name.removeprefix("listener.name.").partition(".")[0]
        if listener in names:
            continue
        advice = f"there are {', '.join(sorted(names))}"
        if listener.lower() in names:
            advice = f"write it in lower case: {name.replace(listener, listener.lower(), 1)}"
        yield settings.problem(name, f"{listener} is not one of the listeners", advice)


@rule("listener.security.protocol.map", "listeners", "controller.listener.names", "principal.builder.class", "ssl.*")
def _secure_listeners_can_be_opened(settings: Settings) -> Iterator[Problem]:
    protocols = _protocols(settings)
    told: set[str] = set()
    for endpoint in _endpoints(settings, "listeners"):
        protocol = protocols.get(endpoint.listener, "PLAINTEXT")
        if protocol.endswith("PLAINTEXT") and not _has_principal_builder(settings, endpoint.listener):
            continue
        from barnabas.server.tls_settings import tls_problems  # A node without TLS doesn't load it.

        problems, notes = tls_problems(settings, endpoint.listener, protocol)
        for problem in problems:
            if problem.name not in told:  # Several listeners may share a setting.
                told.add(problem.name)
                yield settings.problem(problem.name, problem.what, problem.advice)
        settings.notes += (note for note in notes if note not in settings.notes)


def _has_principal_builder(settings: Settings, listener: str) -> bool:
    return listener_value(settings, listener, "principal.builder.class") != KAFKA_DEFAULT_BUILDER


@rule("advertised.listeners")
def _advertised_are_well_formed(settings: Settings) -> Iterator[Problem]:
    yield from _well_formed(settings, "advertised.listeners")


@rule("advertised.listeners", "listeners", "controller.listener.names", "process.roles")
def _advertised_can_be_reached(settings: Settings) -> Iterator[Problem]:
    name = "advertised.listeners" if "advertised.listeners" in settings else "listeners"
    advertised = _advertised(settings)
    bound = [each.listener for each in _endpoints(settings, "listeners")]
    names = [each.listener for each in advertised]
    controller_names = _controller_names(settings)
    unseen = () if _is_in_a_quorum(settings) else controller_names
    if len(set(names)) < len(names):
        yield settings.problem(name, "each advertised listener must have a different name")
    for endpoint in advertised:
        if endpoint.listener not in bound:
            yield settings.problem(
                name, f"{endpoint.listener} is not one of the listeners ({', '.join(bound)})", "add it to listeners"
            )
        elif endpoint.host == _META_ADDRESS and endpoint.listener not in unseen:
            yield settings.problem(
                name, f"others can't connect to {_META_ADDRESS}",
                f"set advertised.listeners={endpoint.listener}://<a name that they resolve>:{endpoint.port}",
            )  # fmt: skip
    if names and set(names) <= set(controller_names) and _is_broker(settings):
        yield settings.problem(name, "no broker listener is advertised", "advertise one that clients use")


@rule(
    "inter.broker.listener.name", "security.inter.broker.protocol", "advertised.listeners", "listeners", "process.roles"
)
def _brokers_have_a_listener(settings: Settings) -> Iterator[Problem]:
    if not _is_broker(settings):
        return
    if "inter.broker.listener.name" in settings and "security.inter.broker.protocol" in settings:
        yield settings.problem(
            "security.inter.broker.protocol", "only one of it and inter.broker.listener.name may be set", "remove it"
        )
    controller_names = _controller_names(settings)
    names = [each.listener for each in _advertised(settings) if each.listener not in controller_names]
    if "inter.broker.listener.name" in settings and not settings.text("inter.broker.listener.name"):
        yield settings.problem(
            "inter.broker.listener.name", "must not be empty", f"set it to one of {', '.join(names)}"
        )
    elif _inter_broker_listener(settings) not in names:
        yield settings.problem(
            "inter.broker.listener.name",
            f"{_inter_broker_listener(settings)} is not an advertised broker listener",
            f"set it to one of {', '.join(names)}",
        )


@rule(
    "controller.quorum.voters",
    "controller.quorum.bootstrap.servers",
    "node.id",
    "broker.id",
    "process.roles",
    "controller.quorum.auto.join.enable",
)
def _there_is_a_quorum(settings: Settings) -> Iterator[Problem]:
    voters = settings.texts("controller.quorum.voters")
    servers = settings.texts("controller.quorum.bootstrap.servers")
    ids: list[int] = []
    for name, texts in (("controller.quorum.voters", voters), ("controller.quorum.bootstrap.servers", servers)):
        try:
            parsed = [parse_voter(text) for text in texts]
        except ValueError as error:
            yield settings.problem(name, str(error))
            return
        ids += [voter.id for voter in parsed if voter.id >= 0]
        if any(address.host == _META_ADDRESS for address in parsed):
            yield settings.problem(name, f"nobody can connect to {_META_ADDRESS}", "write the name of the machine")
    name, own_id = "controller.quorum.voters", settings.number("node.id" if "node.id" in settings else "broker.id")
    if len(set(ids)) < len(ids):
        yield settings.problem(name, "each voter must have a different id")
    elif voters and _is_controller(settings) and own_id not in ids:
        yield settings.problem(name, f"does not name this node, whose id is {own_id}", "correct the id before the @")
    elif voters and not _is_controller(settings) and own_id in ids:
        yield settings.problem(
            name, f"names this node, whose id is {own_id} and which is no controller", "give it another node.id"
        )
    if settings.value("controller.quorum.auto.join.enable") and not _is_controller(settings):
        yield settings.problem(
            "controller.quorum.auto.join.enable", "only a controller can join the voters", "remove it"
        )  # fmt: skip
    if not voters and not servers and not settings.fileless:
        yield settings.problem(
            "controller.quorum.bootstrap.servers", "it or controller.quorum.voters is required",
            "set it to host:port of the controller listener",
        )  # fmt: skip


@rule("log.dirs", "log.dir")
def _there_are_log_dirs(settings: Settings) -> Iterator[Problem]:
    directories = _log_dirs(settings)
    if not directories or not all(directories):
        yield settings.problem("log.dirs", "at least one log directory is needed", "set log.dirs=/var/lib/barnabas")


@rule("cordoned.log.dirs")
def _cordoned_directories_are_log_dirs(settings: Settings) -> Iterator[Problem]:
    for path in _cordoned_log_dirs(settings):
        if path not in _log_dirs(settings):
            yield settings.problem(
                "cordoned.log.dirs", f"{path} is not in log.dirs", "name directories of log.dirs, or * for all of them"
            )


@rule("log.roll.ms", "log.roll.jitter.ms", "log.retention.ms", "log.retention.minutes", "log.retention.hours")
def _times_are_positive(settings: Settings) -> Iterator[Problem]:
    for name, least in (("log.roll.ms", 1), ("log.roll.jitter.ms", 0)):
        if name in settings and settings.number(name) < least:
            yield settings.problem(name, f"must be at least {least}")
    for name in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
        if name in settings and settings.number(name) == 0:
            yield settings.problem(name, "must be at least 1, or negative to keep records for ever")


@rule("log.cleaner.dedupe.buffer.size", "log.cleaner.threads")
def _cleaner_has_memory(settings: Settings) -> Iterator[Problem]:
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
def _pairs_are_in_order(settings: Settings) -> Iterator[Problem]:
    for smaller, larger in _ORDERED:
        least, most = int(settings.number(smaller)), int(settings.number(larger))
        if least > most and (smaller in settings or larger not in settings):
            yield settings.problem(smaller, f"must not be above {larger}, which is {most}")
        elif least > most:
            yield settings.problem(larger, f"must not be below {smaller}, which is {least}")


@rule("connections.max.idle.ms", "connection.failed.authentication.delay.ms")
def _idle_connections_outlive_failed_ones(settings: Settings) -> Iterator[Problem]:
    idle, delay = (
        settings.number("connections.max.idle.ms"),
        settings.number("connection.failed.authentication.delay.ms"),
    )
    if 0 <= idle <= delay:
        name = "connections.max.idle.ms"
        yield settings.problem(name, f"must be above connection.failed.authentication.delay.ms, which is {int(delay)}")


@rule("early.start.listeners", "listeners", "controller.listener.names")
def _early_listeners_are_listeners(settings: Settings) -> Iterator[Problem]:
    known = list(
        dict.fromkeys((*(e.listener for e in _endpoints(settings, "listeners")), *_controller_names(settings)))
    )
    unknown = sorted(_early_start_listeners(settings).difference(known))
    if unknown:
        yield settings.problem(
            "early.start.listeners", f"{', '.join(unknown)} is not one of the listeners",
            f"allowed are {', '.join(known)}; leave it out for the controller listeners",
        )  # fmt: skip


@rule("authorizer.class.name", "super.users", "allow.everyone.if.no.acl.found")
def _the_authorizer_takes_its_settings(settings: Settings) -> Iterator[Problem]:
    if not settings.text("authorizer.class.name") and not settings.text("super.users"):
        return
    from barnabas.server.authorizer_settings import authorizer_problems  # A node without ACLs does not load it.

    for name, what, advice in authorizer_problems(settings.text("authorizer.class.name"), settings.text("super.users")):
        yield settings.problem(name, what, advice)


@rule("alter.config.policy.class.name", "create.topic.policy.class.name")
def _policies_can_be_loaded(settings: Settings) -> Iterator[Problem]:
    for name in ("alter.config.policy.class.name", "create.topic.policy.class.name"):
        if not settings.text(name):
            continue
        from barnabas.server.policies import PolicyProblem, load_policy  # A node without policies does not load it.

        try:
            load_policy(name, settings.text(name))
        except PolicyProblem as problem:
            yield settings.problem(name, problem.what, problem.advice)


@rule("barnabas.metrics.listener")
def _metrics_listener_is_an_address(settings: Settings) -> Iterator[Problem]:
    try:
        _metrics_endpoint(settings)
    except ValueError as error:
        yield settings.problem("barnabas.metrics.listener", str(error), "write host:port, or nothing for no endpoint")


def _well_formed(settings: Settings, name: str) -> Iterator[Problem]:
    for text in settings.texts(name):
        try:
            parse_endpoint(text)
        except ValueError as error:
            yield settings.problem(name, str(error), "write it as NAME://host:port, separated by commas")


def _endpoints(settings: Settings, name: str) -> list[Endpoint]:
    return [parse_endpoint(text) for text in settings.texts(name)]


def _advertised(settings: Settings) -> list[Endpoint]:
    return _endpoints(settings, "advertised.listeners" if settings.texts("advertised.listeners") else "listeners")


def _is_controller(settings: Settings) -> bool:
    return "controller" in settings.texts("process.roles")


def _is_broker(settings: Settings) -> bool:
    return "broker" in settings.texts("process.roles")


def _is_in_a_quorum(settings: Settings) -> bool:
    """Whether other nodes have to find this one's controller listener."""
    return len(settings.texts("controller.quorum.voters")) > 1 or not _is_broker(settings)


def _controller_names(settings: Settings) -> list[str]:
    return [name.upper() for name in settings.texts("controller.listener.names")]


def _protocols(settings: Settings) -> dict[str, str]:
    return listener_protocols(
        parse_protocol_map(settings.text("listener.security.protocol.map")),
        _controller_names(settings),
        [each.listener for each in _endpoints(settings, "listeners")],
        given="listener.security.protocol.map" in settings,
    )


def _secured(endpoint: Endpoint, protocols: Mapping[str, str]) -> Endpoint:
    return endpoint._replace(security_protocol=protocols[endpoint.listener])


def _inter_broker_listener(settings: Settings) -> str:
    return (settings.text("inter.broker.listener.name") or settings.text("security.inter.broker.protocol")).upper()


def _early_start_listeners(settings: Settings) -> frozenset[str]:
    """An empty list that was given means none; a setting that was not given means the controller listeners."""
    if "early.start.listeners" not in settings:
        return frozenset(_controller_names(settings))
    return frozenset(name.upper() for name in settings.texts("early.start.listeners"))


def _bootstrap_servers(settings: Settings, controllers: list[Endpoint]) -> list[QuorumVoter]:
    """Whom to ask for the leader: those that were named, else the voters, else this node."""
    named = settings.texts("controller.quorum.bootstrap.servers") or settings.texts("controller.quorum.voters")
    servers = [parse_voter(text)._replace(id=-1) for text in named]
    return servers or [QuorumVoter(-1, each.host, each.port) for each in controllers]


def _log_dirs(settings: Settings) -> list[str]:
    return settings.texts("log.dirs") or settings.texts("log.dir")


def _cordoned_log_dirs(settings: Settings) -> list[str]:
    named = settings.texts("cordoned.log.dirs")
    return _log_dirs(settings) if named == ["*"] else named


def _metrics_endpoint(settings: Settings) -> tuple[str, int] | None:
    text = settings.text("barnabas.metrics.listener")
    if not text:
        return None
    address = parse_voter(text)
    return address.host, address.port
