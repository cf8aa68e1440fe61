"""Rules about a node's id, its roles, and the quorum that it belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from barnabas.server.settings.endpoints import META_ADDRESS, parse_voter
from barnabas.server.settings.rule import Settings, rule

if TYPE_CHECKING:
    from barnabas.common.settings.problem import SettingProblem

__all__ = ["is_broker", "is_controller", "is_in_a_quorum"]


def is_controller(settings: Settings) -> bool:
    return "controller" in settings.texts("process.roles")


def is_broker(settings: Settings) -> bool:
    return "broker" in settings.texts("process.roles")


def is_in_a_quorum(settings: Settings) -> bool:
    """Return whether other nodes must find this one's controller listener."""
    return len(settings.texts("controller.quorum.voters")) > 1 or not is_broker(settings)


@rule("node.id", "broker.id")
def _node_has_an_id(settings: Settings) -> Iterator[SettingProblem]:
    if "node.id" not in settings and settings.number("broker.id") < 0:
        yield settings.problem("node.id", "is required and has no default", "add node.id=1")
    elif {"node.id", "broker.id"} <= settings.given and settings.number("node.id") != settings.number("broker.id"):
        yield settings.problem("broker.id", "differs from node.id", "remove broker.id: node.id is enough")


@rule("process.roles")
def _node_has_roles(settings: Settings) -> Iterator[SettingProblem]:
    if "process.roles" not in settings:
        yield settings.problem("process.roles", "is required and has no default", "add process.roles=broker,controller")


@rule(
    "controller.quorum.voters",
    "controller.quorum.bootstrap.servers",
    "node.id",
    "broker.id",
    "process.roles",
    "controller.quorum.auto.join.enable",
)
def _there_is_a_quorum(settings: Settings) -> Iterator[SettingProblem]:
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
        if any(address.host == META_ADDRESS for address in parsed):
            yield settings.problem(name, f"no client can connect to {META_ADDRESS}", "write the name of the machine")
    name, own_id = "controller.quorum.voters", settings.number("node.id" if "node.id" in settings else "broker.id")
    if len(set(ids)) < len(ids):
        yield settings.problem(name, "each voter must have a different id")
    elif voters and is_controller(settings) and own_id not in ids:
        yield settings.problem(name, f"does not name this node, whose id is {own_id}", "correct the id before the @")
    elif voters and not is_controller(settings) and own_id in ids:
        yield settings.problem(
            name, f"names this node, whose id is {own_id} but which is not a controller", "give it another node.id"
        )
    if settings.value("controller.quorum.auto.join.enable") and not is_controller(settings):
        yield settings.problem(
            "controller.quorum.auto.join.enable", "only a controller can join the voters", "remove it"
        )  # fmt: skip
    if not voters and not servers and not settings.fileless:
        yield settings.problem(
            "controller.quorum.bootstrap.servers", "either this setting or controller.quorum.voters is required",
            "set it to host:port of the controller listener",
        )  # fmt: skip
