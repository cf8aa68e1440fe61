"""Rules about listeners: their names and ports, their roles, their security, and their advertised addresses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from barnabas.common.broker_config import listener_base_name
from barnabas.security.principal_builder import KAFKA_DEFAULT_BUILDER
from barnabas.server.settings.derived_values import (
    advertised_endpoints,
    controller_listener_names,
    early_start_listeners,
    endpoints,
    inter_broker_listener,
    protocols_by_listener,
)
from barnabas.server.settings.endpoints import META_ADDRESS, parse_endpoint, parse_protocol_map
from barnabas.server.settings.listener_values import listener_value
from barnabas.server.settings.role_rules import is_broker, is_controller, is_in_a_quorum
from barnabas.server.settings.rule import Settings, rule

if TYPE_CHECKING:
    from barnabas.common.settings.problem import SettingProblem
    from barnabas.server.settings.endpoints import Endpoint
    from barnabas.server.settings.node_config import NodeConfig

__all__ = ["derive_listeners"]


def derive_listeners(config: NodeConfig, settings: Settings) -> None:
    """Fill the attributes of a checked config that describe its listeners."""
    protocols = protocols_by_listener(settings)
    controller_names = controller_listener_names(settings)

    def secured(endpoint: Endpoint) -> Endpoint:
        return endpoint._replace(security_protocol=protocols[endpoint.listener])

    bound = [secured(endpoint) for endpoint in endpoints(settings, "listeners")]
    advertised = [secured(endpoint) for endpoint in advertised_endpoints(settings)]
    config.broker_listeners = [endpoint for endpoint in bound if endpoint.listener not in controller_names]
    config.controller_listeners = [endpoint for endpoint in bound if endpoint.listener in controller_names]
    config.advertised_broker_listeners = [
        endpoint for endpoint in advertised if endpoint.listener not in controller_names
    ]
    by_name = {endpoint.listener: endpoint for endpoint in advertised}
    config.advertised_controller_listeners = [
        by_name.get(endpoint.listener, endpoint) for endpoint in config.controller_listeners
    ]
    config.first_controller_listener = controller_names[0]
    config.controller_security_protocol = protocols[controller_names[0]]
    config.inter_broker_listener_name = inter_broker_listener(settings)
    config.early_start_listeners = early_start_listeners(settings)


@rule("listeners")
def _listeners_are_well_formed(settings: Settings) -> Iterator[SettingProblem]:
    yield from _well_formed(settings, "listeners")


@rule("listeners")
def _listeners_differ(settings: Settings) -> Iterator[SettingProblem]:
    bound = endpoints(settings, "listeners")
    names = [endpoint.listener for endpoint in bound]
    ports = [endpoint.port for endpoint in bound if endpoint.port]
    if len(set(names)) < len(names):
        yield settings.problem("listeners", "each listener must have a different name")
    elif len(set(ports)) < len(ports):
        yield settings.problem("listeners", "each listener must have a different port")


@rule("process.roles", "controller.listener.names", "listeners")
def _controller_listeners_are_listeners(settings: Settings) -> Iterator[SettingProblem]:
    names = controller_listener_names(settings)
    bound = [endpoint.listener for endpoint in endpoints(settings, "listeners")]
    if not names:
        yield settings.problem(
            "controller.listener.names", "is required and has no default",
            "add controller.listener.names=CONTROLLER, and a CONTROLLER:// listener to listeners",
        )  # fmt: skip
    for name in names:
        if name in bound and not is_controller(settings):
            yield settings.problem(
                "listeners", f"{name} is a controller listener, but this node is not a controller",
                "remove it from listeners; controller.listener.names names the listener for connections to controllers",
            )  # fmt: skip
        elif name not in bound and is_controller(settings):
            yield settings.problem(
                "controller.listener.names", f"{name} is not one of the listeners ({', '.join(bound)})",
                f"add {name}://localhost:9093 to listeners",
            )  # fmt: skip
    others = [name for name in bound if name not in names]
    if not is_broker(settings) and others:
        yield settings.problem(
            "listeners", f"{', '.join(others)} is not a controller listener, and this node is not a broker",
            "name only those of controller.listener.names",
        )  # fmt: skip
    elif bound and not others and is_broker(settings):
        yield settings.problem(
            "listeners", "all of them are controller listeners: a broker needs one for clients",
            "add PLAINTEXT://localhost:9092",
        )  # fmt: skip


@rule("listener.security.protocol.map")
def _protocol_map_is_well_formed(settings: Settings) -> Iterator[SettingProblem]:
    try:
        parse_protocol_map(settings.text("listener.security.protocol.map"))
    except ValueError as error:
        yield settings.problem("listener.security.protocol.map", str(error))


@rule("listener.security.protocol.map", "listeners", "controller.listener.names")
def _listeners_have_a_protocol(settings: Settings) -> Iterator[SettingProblem]:
    protocols = protocols_by_listener(settings)
    bound = [endpoint.listener for endpoint in endpoints(settings, "listeners")]
    for setting, names in (("listeners", bound), ("controller.listener.names", controller_listener_names(settings))):
        for name in names:
            if name not in protocols and (setting == "listeners" or name not in bound):
                yield settings.problem(
                    setting, f"no security protocol is defined for listener {name}",
                    f"add {name}:PLAINTEXT to listener.security.protocol.map",
                )  # fmt: skip


@rule("listener.security.protocol.map", "listeners", "controller.listener.names", "sasl.enabled.mechanisms")
def _sasl_listeners_have_logins(settings: Settings) -> Iterator[SettingProblem]:
    protocols = protocols_by_listener(settings)
    for endpoint in endpoints(settings, "listeners"):
        if protocols.get(endpoint.listener, "").startswith("SASL_"):
            from barnabas.server.settings.sasl import sasl_problems  # A node without SASL doesn't load it.

            for name, what, advice in sasl_problems(settings, endpoint.listener):
                yield settings.problem(name, what, advice)


@rule("listener.security.protocol.map", "listeners", "controller.listener.names")
def _listener_forms_name_a_listener(settings: Settings) -> Iterator[SettingProblem]:
    names = {endpoint.listener.lower() for endpoint in endpoints(settings, "listeners")}
    names.update(name.lower() for name in (*controller_listener_names(settings), *protocols_by_listener(settings)))
    for name in sorted(settings.given):
        if listener_base_name(name) is None:
            continue
        listener = name.removeprefix("listener.name.").partition(".")[0]
        if listener in names:
            continue
        advice = f"allowed are {', '.join(sorted(names))}"
        if listener.lower() in names:
            advice = f"write it in lower case: {name.replace(listener, listener.lower(), 1)}"
        yield settings.problem(name, f"{listener} is not one of the listeners", advice)


@rule("listener.security.protocol.map", "listeners", "controller.listener.names", "principal.builder.class", "ssl.*")
def _secure_listeners_can_be_opened(settings: Settings) -> Iterator[SettingProblem]:
    protocols = protocols_by_listener(settings)
    reported: set[str] = set()
    for endpoint in endpoints(settings, "listeners"):
        protocol = protocols.get(endpoint.listener, "PLAINTEXT")
        if protocol.endswith("PLAINTEXT") and not _has_principal_builder(settings, endpoint.listener):
            continue
        from barnabas.server.settings.tls import tls_problems  # A node without TLS doesn't load it.

        problems, notes = tls_problems(settings, endpoint.listener, protocol)
        for problem in problems:
            if problem.name not in reported:  # Several listeners may share a setting.
                reported.add(problem.name)
                yield settings.problem(problem.name, problem.what, problem.advice)
        settings.notes += (note for note in notes if note not in settings.notes)


def _has_principal_builder(settings: Settings, listener: str) -> bool:
    return listener_value(settings, listener, "principal.builder.class") != KAFKA_DEFAULT_BUILDER


@rule("advertised.listeners")
def _advertised_are_well_formed(settings: Settings) -> Iterator[SettingProblem]:
    yield from _well_formed(settings, "advertised.listeners")


@rule("advertised.listeners", "listeners", "controller.listener.names", "process.roles")
def _advertised_can_be_reached(settings: Settings) -> Iterator[SettingProblem]:
    name = "advertised.listeners" if "advertised.listeners" in settings else "listeners"
    advertised = advertised_endpoints(settings)
    bound = [endpoint.listener for endpoint in endpoints(settings, "listeners")]
    names = [endpoint.listener for endpoint in advertised]
    controller_names = controller_listener_names(settings)
    unseen = () if is_in_a_quorum(settings) else controller_names
    if len(set(names)) < len(names):
        yield settings.problem(name, "each advertised listener must have a different name")
    for endpoint in advertised:
        if endpoint.listener not in bound:
            yield settings.problem(
                name, f"{endpoint.listener} is not one of the listeners ({', '.join(bound)})", "add it to listeners"
            )
        elif endpoint.host == META_ADDRESS and endpoint.listener not in unseen:
            yield settings.problem(
                name, f"others can't connect to {META_ADDRESS}",
                f"set advertised.listeners={endpoint.listener}://<a name that they resolve>:{endpoint.port}",
            )  # fmt: skip
    if names and set(names) <= set(controller_names) and is_broker(settings):
        yield settings.problem(name, "no broker listener is advertised", "advertise one that clients use")


@rule(
    "inter.broker.listener.name", "security.inter.broker.protocol", "advertised.listeners", "listeners", "process.roles"
)
def _brokers_have_a_listener(settings: Settings) -> Iterator[SettingProblem]:
    if not is_broker(settings):
        return
    if "inter.broker.listener.name" in settings and "security.inter.broker.protocol" in settings:
        yield settings.problem(
            "security.inter.broker.protocol", "only one of it and inter.broker.listener.name may be set", "remove it"
        )
    controller_names = controller_listener_names(settings)
    names = [
        endpoint.listener for endpoint in advertised_endpoints(settings) if endpoint.listener not in controller_names
    ]
    if "inter.broker.listener.name" in settings and not settings.text("inter.broker.listener.name"):
        yield settings.problem(
            "inter.broker.listener.name", "must not be empty", f"set it to one of {', '.join(names)}"
        )
    elif inter_broker_listener(settings) not in names:
        yield settings.problem(
            "inter.broker.listener.name",
            f"{inter_broker_listener(settings)} is not an advertised broker listener",
            f"set it to one of {', '.join(names)}",
        )


@rule("early.start.listeners", "listeners", "controller.listener.names")
def _early_listeners_are_listeners(settings: Settings) -> Iterator[SettingProblem]:
    known = list(
        dict.fromkeys((*(e.listener for e in endpoints(settings, "listeners")), *controller_listener_names(settings)))
    )
    unknown = sorted(early_start_listeners(settings).difference(known))
    if unknown:
        yield settings.problem(
            "early.start.listeners", f"{', '.join(unknown)} is not one of the listeners",
            f"allowed are {', '.join(known)}; omit it for the controller listeners",
        )  # fmt: skip


def _well_formed(settings: Settings, name: str) -> Iterator[SettingProblem]:
    for text in settings.texts(name):
        try:
            parse_endpoint(text)
        except ValueError as error:
            yield settings.problem(name, str(error), "write it as NAME://host:port, separated by commas")
