"""``barnabas cluster up``: run controllers and brokers on this machine, for development."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_urlsafe
from typing import NamedTuple

from barnabas.cli.arguments.cluster_options import AnswerOptions, Flag, UsageError, running_command
from barnabas.cli.cluster.local_layout import (
    NODES_MAX,
    PLAIN_USER,
    SUPER_USER,
    LocalCluster,
    LocalNode,
    NoFreePorts,
    choose_ports,
    new_cluster,
)
from barnabas.cli.cluster.local_processes import NodeFailed, Supervisor
from barnabas.cli.output.answer import Answer, Problem
from barnabas.cli.output.exit_status import DONE, FAILED
from barnabas.cli.output.table import Sheet
from barnabas.common.printable import printable

__all__ = ["up"]

_READY_TIMEOUT_S = 60.0
_NODES = 3
_PR_SET_PDEATHSIG = 1
_NODE = (sys.executable, "-c", "import sys; from barnabas.cli.main import main; sys.exit(main())", "node")


def up(
    *,
    controllers: int | None = None,
    brokers: int | None = None,
    data: str = "barnabas-cluster",
    port_base: int | None = None,
    acls: Flag = False,
    dry_run: Flag = False,
    options: AnswerOptions | None = None,
) -> int:
    """Run controllers and brokers on this machine, each in a process, until Ctrl-C. For development.

    The first start formats the folder; later starts continue with the same nodes, ports and data. Nodes listen on
    127.0.0.1 without encryption. Without --acls every client may do everything.

    For example:

        barnabas cluster up --controllers 3 --brokers 3
        barnabas cluster up --controllers 1 --brokers 2 --data /tmp/two-brokers --port-base 19092
        barnabas cluster up --acls --data /tmp/with-acls

    Parameters
    ----------
    controllers
        Number of controllers, 1 to 9, preferably odd. Default: those of the folder, else 3.
    brokers
        Number of brokers, 1 to 9. Default: those of the folder, else 3.
    data
        The folder of the cluster.
    port_base
        The first of consecutive ports, brokers before controllers. Default: 9092, or the next free range.
    acls
        Enable authentication and ACLs: an authorizer, a super user admin, and a user alice without rights. The folder
        contains a file for --command-config with the password of each.
    dry_run
        Check and show the cluster without starting or writing anything.
    """
    options = options or AnswerOptions()
    _check("--controllers", controllers)
    _check("--brokers", brokers)
    from barnabas.cli.cluster.local_folder import FolderProblem
    from barnabas.common.settings.problem import InvalidSettings
    from barnabas.server.storage_tool.formatter import FormatError

    try:
        wanted = _Wanted(controllers, brokers, port_base, acls)
        return _up(wanted, Path(data).absolute(), dry_run=dry_run, options=options)
    except (FolderProblem, NoFreePorts) as error:
        raise UsageError(str(error)) from error
    except (FormatError, InvalidSettings) as error:
        problem = Problem(str(error), advice=f"correct it, or use a folder other than {data} (--data)")
        return options.give(Answer({}, problems=[problem]))
    except OSError as error:
        return options.give(Answer({}, problems=[Problem(error.strerror or str(error), error.filename or data)]))


def _check(option: str, count: int | None) -> None:
    if count is not None and not 1 <= count <= NODES_MAX:
        raise UsageError(f"{option} {count}: it must be 1 to {NODES_MAX}")


class _Wanted(NamedTuple):
    """The cluster as the command line describes it. None means an omitted option."""

    controllers: int | None
    brokers: int | None
    port_base: int | None
    acls: bool


def _up(wanted: _Wanted, folder: Path, *, dry_run: bool, options: AnswerOptions) -> int:
    from barnabas.cli.cluster.local_folder import format_nodes, locked, read_cluster

    # Check before the folder is created, so that nothing is written for an impossible request.
    planned = _cluster(folder, wanted) if dry_run or read_cluster(folder) is None else None
    if dry_run and planned is not None:
        return options.give(_answer(planned, folder, None, ["nothing was started or written"]))
    with locked(folder):
        if planned is None or read_cluster(folder) is not None:
            planned = _cluster(folder, wanted)
        cluster = format_nodes(folder, planned)
        with _counted_signals() as wants_end:
            supervisor = Supervisor(cluster, folder, launch=_launch, say=_say, wants_end=wants_end)
            try:
                return _run(supervisor, cluster, folder, options)
            finally:
                supervisor.kill()


def _run(supervisor: Supervisor, cluster: LocalCluster, folder: Path, options: AnswerOptions) -> int:
    _say(f"starting {len(cluster.nodes)} nodes in {folder}")
    status = DONE
    try:
        if supervisor.start(_READY_TIMEOUT_S):
            options.give(_answer(cluster, folder, supervisor, ["Ctrl-C stops all of them"]))
            if not supervisor.watch():
                _say("all nodes have stopped")
                status = FAILED
    except NodeFailed as failure:
        ends = [f"the last lines of its log, {supervisor.log_of(failure.node)}:", *failure.lines]
        options.give(Answer({"log": list(failure.lines)}, problems=[Problem(str(failure))]))
        sys.stderr.writelines(f"{printable(line)}\n" for line in ends)
        status = FAILED
    _say("stopping brokers, then controllers")
    return status if supervisor.stop() else FAILED


def _cluster(folder: Path, wanted: _Wanted) -> LocalCluster:
    """Return the cluster of the folder, or a new one. Raise FolderProblem or NoFreePorts."""
    controllers, brokers, port_base, acls = wanted
    from barnabas.cli.cluster.local_folder import FolderProblem, is_free, read_cluster, taken_ports
    from barnabas.cli.storage.command import random_uuid

    found = read_cluster(folder)
    if found is None:
        counts = (controllers or _NODES, brokers or _NODES)
        if counts[0] % 2 == 0:
            _say(f"--controllers {counts[0]} tolerates no more failures than {counts[0] - 1}: prefer an odd number")
        new_password = (lambda: token_urlsafe(18)) if acls else None
        return new_cluster(*counts, choose_ports(sum(counts), port_base, is_free), random_uuid, new_password)
    has = (len(found.of("controller")), len(found.of("broker")))
    if (controllers or has[0], brokers or has[1]) != has:
        raise FolderProblem(
            f"--data {folder}: it has {has[0]} controllers and {has[1]} brokers: omit the numbers, or choose"
            " another folder"
        )
    if acls and not found.has_acls:
        raise FolderProblem(f"--data {folder}: its cluster has no ACLs: choose another folder for --acls")
    first = min(node.port for node in found.nodes)
    if port_base not in (None, first):
        raise FolderProblem(
            f"--port-base {port_base}: the nodes in {folder} keep their ports, from {first} on: omit the option, or"
            " choose another folder with --data"
        )
    if taken := taken_ports(found):
        names = ", ".join(f"{node.port} of {node.name}" for node in taken)
        raise FolderProblem(
            f"another process uses {names}: the nodes in {folder} keep their ports, so stop that process"
        )
    return found


def _answer(cluster: LocalCluster, folder: Path, supervisor: Supervisor | None, notes: list[str]) -> Answer:
    """Return the result of the command. ``supervisor`` is None if nothing was started."""
    from barnabas.cli.cluster.local_folder import client_file

    sheet = Sheet(f"cluster {cluster.cluster_id}", ("node", "address", "pid", "log"), keep=4)
    nodes: list[dict[str, object]] = []
    for node in cluster.nodes:
        pid = None if supervisor is None else supervisor.pid_of(node)
        log = str(folder / node.name / "node.log")
        sheet.add(node.name, node.address, str(pid or ""), log)
        nodes.append({"role": node.role, "id": node.node_id, "address": node.address, "pid": pid, "log": log})
    where = Sheet()
    where.add("--bootstrap-server", cluster.bootstrap_server)
    where.add("--bootstrap-controller", cluster.bootstrap_controller)
    document = {
        "cluster_id": cluster.cluster_id,
        "bootstrap_server": cluster.bootstrap_server,
        "bootstrap_controller": cluster.bootstrap_controller,
        "nodes": nodes,
    }
    if not cluster.has_acls:
        return Answer(document, [sheet, where], notes)
    users = Sheet(columns=("user", "may", "--command-config"))
    documents = []
    for user, rights in ((SUPER_USER, "everything"), (PLAIN_USER, "nothing, until an ACL allows it")):
        path = str(client_file(folder, user))
        users.add(f"User:{user}", rights, path)
        documents.append({"user": f"User:{user}", "is_super": user == SUPER_USER, "properties": path})
    admin = f"--bootstrap-server {cluster.bootstrap_server} --command-config {client_file(folder, SUPER_USER)}"
    how = f"barnabas acls add --allow-principal User:{PLAIN_USER} --operation read --topic orders {admin}"
    return Answer(document | {"users": documents}, [sheet, where, users], [f"to grant access: {how}", *notes])


def _say(text: str) -> None:
    sys.stderr.write(f"{running_command.get()}: {printable(text)}\n")
    sys.stderr.flush()


def _launch(node: LocalNode, log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as file:
        return subprocess.Popen(
            [*_NODE, "server.properties"],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            cwd=log.parent,
            start_new_session=True,
            preexec_fn=_end_with_parent(),
        )


def _end_with_parent() -> Callable[[], None] | None:
    """Return a function for the child. The library is loaded before the fork: little is safe between fork and exec."""
    if sys.platform != "linux":
        return None
    libc, parent = ctypes.CDLL(None), os.getpid()

    def end_with_parent() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # The supervisor ended before the call.
            os._exit(1)

    return end_with_parent


@contextmanager
def _counted_signals() -> Iterator[Callable[[], int]]:
    """Count the signals SIGINT and SIGTERM, and SIGHUP of a closed terminal."""
    count = 0

    def counted(number: int, frame: object) -> None:
        nonlocal count
        count += 1

    watched = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, counted) for number in watched}
    try:
        yield lambda: count
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
