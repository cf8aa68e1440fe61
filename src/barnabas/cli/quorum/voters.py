"""``barnabas quorum add-controller|remove-controller``: change the voters of the metadata log (KIP-853).

The node id and the id of the metadata directory identify a voter. So a controller that lost its disk is a new voter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, NamedTuple

from barnabas.cli.arguments.cluster_options import ChangeOptions, NodeId, UsageError
from barnabas.cli.arguments.parameter import Parameter
from barnabas.cli.output.advice import UnknownName
from barnabas.cli.output.answer import Answer, Change, Problem, change_answer
from barnabas.common.uuid import Uuid

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient, QuorumInfo, RaftVoterEndpoint

__all__ = ["add_controller", "remove_controller"]

_RIGHT = "ALTER on Cluster"
_ENDPOINT = re.compile(r"(?P<listener>[\w.-]+)://(?:\[(?P<ipv6>[0-9a-fA-F:.%]+)\]|(?P<host>[^:/\[\]]+)):(?P<port>\d+)")
_ANYWHERE = ("0.0.0.0", "::")
_PORT_MAX = 65_535


class _Controller(NamedTuple):
    """A controller. ``directory_id`` is None if it must be read from the quorum; ``cluster_id`` is None if unknown."""

    id: int
    directory_id: Uuid | None
    endpoints: tuple[tuple[str, str, int], ...]
    cluster_id: str | None = None


def add_controller(
    *,
    controller_config: str | None = None,
    controller_id: NodeId | None = None,
    controller_directory_id: str | None = None,
    endpoint: list[str] | None = None,
    options: ChangeOptions | None = None,
) -> int:
    """Make an observer a voter.

    Run the command on the controller's machine with its settings file, or specify all values. As in Kafka's tool,
    --command-config can also be the controller's file.

    For example:

        barnabas quorum add-controller --bootstrap-controller localhost:9093 --controller-config controller.properties
        barnabas quorum add-controller --controller-id 4 --endpoint CONTROLLER://host-4:9093 --dry-run

    Parameters
    ----------
    controller_config
        The server.properties of the controller, on the machine with its formatted metadata directory.
    controller_id
        Instead of a file: the node.id of the controller.
    controller_directory_id
        With --controller-id: the directory.id in its meta.properties. Default: that of the observer with this id.
    endpoint
        With --controller-id: the address for other controllers, for example CONTROLLER://host-4:9093. May be repeated.
    """
    options = options or ChangeOptions()
    dry_run = options.dry_run
    wanted = _requested_controller(
        controller_config, options.command_config, controller_id, controller_directory_id, endpoint
    )

    async def work(admin: AdminClient) -> Answer:
        from barnabas.clients.admin import RaftVoterEndpoint
        from barnabas.protocol.api_keys import ApiKey

        await admin.require_api(ApiKey.ADD_RAFT_VOTER)
        found = await admin.describe_quorum()
        directory_id = wanted.directory_id or _directory(wanted.id, found, is_voter=False)
        problems = _objections(wanted.id, directory_id, found)
        if problems:
            return change_answer([], problems, dry_run=dry_run)
        endpoints = [RaftVoterEndpoint(*endpoint) for endpoint in wanted.endpoints]
        if not dry_run:
            await admin.add_raft_voter(wanted.id, directory_id, endpoints, cluster_id=wanted.cluster_id)
        return change_answer([_change(wanted.id, directory_id, "added", endpoints)], dry_run=dry_run)

    return options.run(work, right=_RIGHT)


def remove_controller(
    controller_id: Annotated[int, Parameter(name=["--controller-id", "-i"])],
    *,
    controller_directory_id: Annotated[str | None, Parameter(name=["--controller-directory-id", "-d"])] = None,
    options: ChangeOptions | None = None,
) -> int:
    """Make a voter an observer. It continues to replicate the metadata log until it is stopped.

    For example:

        barnabas quorum remove-controller --controller-id 4 --dry-run
        barnabas quorum remove-controller -i 4 -d wMTBHvZHQ3CmWWNUl7JiEQ --bootstrap-controller localhost:9093

    Parameters
    ----------
    controller_id
        The node.id of the voter.
    controller_directory_id
        The id of its metadata directory, which 'barnabas quorum describe' shows. Default: that of the only voter with
        this id.
    """
    options = options or ChangeOptions()
    dry_run = options.dry_run
    given = None if controller_directory_id is None else _parse_uuid(controller_directory_id)

    async def work(admin: AdminClient) -> Answer:
        from barnabas.protocol.api_keys import ApiKey

        await admin.require_api(ApiKey.REMOVE_RAFT_VOTER)
        found = await admin.describe_quorum()
        directory_id = given or _directory(controller_id, found, is_voter=True)
        if dry_run and (controller_id, directory_id) not in _voters(found):
            return change_answer([], [_no_voter(controller_id, directory_id, found)], dry_run=True)
        if not dry_run:
            await admin.remove_raft_voter(controller_id, directory_id)
        left = sorted(voter for voter, _ in _voters(found) if voter != controller_id)
        notes = [f"the remaining voters are {', '.join(map(str, left))}" if left else "this is the last voter"]
        return change_answer([_change(controller_id, directory_id, "removed")], dry_run=dry_run, notes=notes)

    return options.run(work, right=_RIGHT)


def _requested_controller(
    config: str | None,
    command_config: str | None,
    controller_id: NodeId | None,
    directory_id: str | None,
    endpoints: Iterable[str] | None,
) -> _Controller:
    """Return the controller of the command line. Raise UsageError."""
    if controller_id is None:
        if directory_id is not None or endpoints:
            raise UsageError("--controller-directory-id and --endpoint need --controller-id")
        file = config or command_config
        if file is None:
            raise UsageError("no controller given: use --controller-config, or --controller-id and --endpoint")
        return _of_config(file, "--controller-config" if config else "--command-config")
    if config is not None:
        raise UsageError("--controller-config and --controller-id can't be used together")
    if not endpoints:
        raise UsageError(
            "--endpoint is missing: it is the controller's address for the others, for example CONTROLLER://host-4:9093"
        )
    parsed = tuple(_parse_endpoint(endpoint, "--endpoint") for endpoint in endpoints)
    return _Controller(controller_id, None if directory_id is None else _parse_uuid(directory_id), parsed)


def _of_config(path: str, option: str) -> _Controller:
    """Read the controller's values from its settings and its metadata directory. Raise UsageError."""
    from barnabas.cli.arguments.config_options import read_settings_file

    settings = read_settings_file(path)
    where = f"{option}: {path}"
    node_id = settings.get("node.id", "")
    if not node_id.isdecimal():
        hint = "; or use --controller-config, or --controller-id" if option == "--command-config" else ""
        raise UsageError(f"{where} has no node.id: this is not a controller's file{hint}")
    if "controller" not in _listed(settings.get("process.roles", "")):
        raise UsageError(f"{where}: process.roles={settings.get('process.roles', '')}: this node is not a controller")
    cluster_id, directory_id = _of_directory(settings, int(node_id), where)
    return _Controller(int(node_id), directory_id, _endpoints(settings, where), cluster_id)


def _of_directory(settings: Mapping[str, str], node_id: int, where: str) -> tuple[str | None, Uuid]:
    from barnabas.storage.errors import StorageError
    from barnabas.storage.meta_properties import MetaProperties

    log_dirs = _listed(settings.get("log.dirs") or settings.get("log.dir") or "/tmp/kafka-logs")
    folder = settings.get("metadata.log.dir") or log_dirs[0]
    try:
        meta = MetaProperties.read(folder)
    except (OSError, StorageError) as error:
        raise UsageError(f"{where}: {error}") from error
    if meta is None or meta.directory_id is None:
        raise UsageError(
            f"{where}: {folder} is not formatted ('barnabas storage format' formats it), or not on this machine"
        )
    if meta.node_id != node_id:
        raise UsageError(f"{where}: {folder} belongs to node {meta.node_id}, but node.id is {node_id}")
    return meta.cluster_id, meta.directory_id


def _endpoints(settings: Mapping[str, str], where: str) -> tuple[tuple[str, str, int], ...]:
    names = _listed(settings.get("controller.listener.names", ""))
    listeners: dict[str, tuple[str, str]] = {}
    for key in ("listeners", "advertised.listeners"):
        for text in _listed(settings.get(key, "")):
            name = text.partition("://")[0]
            if name in names:
                listeners[name] = key, text
    if not listeners:
        raise UsageError(f"{where}: listeners has none of controller.listener.names ({', '.join(names) or 'empty'})")
    return tuple(_parse_endpoint(text, f"{where}: {key}") for key, text in listeners.values())


def _parse_endpoint(text: str, option: str) -> tuple[str, str, int]:
    match = _ENDPOINT.fullmatch(text)
    port = int(match["port"]) if match else 0
    host = (match["ipv6"] or match["host"]) if match else ""
    if match is None or not 0 < port <= _PORT_MAX:
        raise UsageError(
            f"{option} {text}: write the listener, a host and a port, for example CONTROLLER://host-4:9093"
        )
    if host in _ANYWHERE:
        raise UsageError(
            f"{option} {text}: other nodes can't connect to this address: write a host, here or in advertised.listeners"
        )
    return match["listener"], host, port


def _parse_uuid(text: str) -> Uuid:
    try:
        return Uuid.from_string(text)
    except ValueError as error:
        raise UsageError(f"--controller-directory-id {text}: {error}") from error


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _voters(found: QuorumInfo) -> set[tuple[int, Uuid]]:
    return {(voter.replica_id, voter.directory_id) for voter in found.voters}


def _directory(controller_id: int, found: QuorumInfo, *, is_voter: bool) -> Uuid:
    """Return the directory id. Raise UnknownName unless exactly one replica has this node id."""
    replicas = found.voters if is_voter else found.observers
    kind = "voter" if is_voter else "observer"
    ids = [replica.directory_id for replica in replicas if replica.replica_id == controller_id]
    if len(ids) == 1 and not ids[0].is_reserved:
        return ids[0]
    if len(ids) > 1:
        raise UnknownName(str(controller_id), f"{len(ids)} {kind}s have this id: use --controller-directory-id")
    if not is_voter and any(voter.replica_id == controller_id for voter in found.voters):
        raise UnknownName(str(controller_id), "this controller is already a voter")
    there = ", ".join(str(replica.replica_id) for replica in replicas) or "none"
    raise UnknownName(
        str(controller_id),
        f"no {kind} with a known directory has this id; {kind}s: {there}. Start the controller first"
        if not is_voter
        else f"no voter has this id; voters: {there}",
    )


def _objections(controller_id: int, directory_id: Uuid, found: QuorumInfo) -> list[Problem]:
    if (controller_id, directory_id) in _voters(found):
        return [Problem("this controller is already a voter", str(controller_id), "DUPLICATE_VOTER")]
    if (controller_id, directory_id) not in {
        (observer.replica_id, observer.directory_id) for observer in found.observers
    }:
        text = f"no observer has this id and the directory {directory_id}"
        return [Problem(text, str(controller_id), advice="start the controller, and wait until it is an observer")]
    return []


def _no_voter(controller_id: int, directory_id: Uuid, found: QuorumInfo) -> Problem:
    there = ", ".join(str(voter) for voter, _ in sorted(_voters(found)))
    return Problem(
        f"no voter has this id and the directory {directory_id}", str(controller_id), "VOTER_NOT_FOUND",
        f"the voters are {there}; 'barnabas quorum describe' shows their directories",
    )  # fmt: skip


def _change(controller_id: int, directory_id: Uuid, done: str, endpoints: Iterable[RaftVoterEndpoint] = ()) -> Change:
    at = ", ".join(f"{endpoint.listener}://{endpoint.host}:{endpoint.port}" for endpoint in endpoints)
    more = {
        "directory_id": str(directory_id),
        "endpoints": [
            {"listener": endpoint.listener, "host": endpoint.host, "port": endpoint.port} for endpoint in endpoints
        ],
    }
    details = f"directory {directory_id}" + (f", {at}" if at else "")
    return Change("controller", str(controller_id), done, details, more)
