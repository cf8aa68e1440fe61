"""``barnabas cluster up``: controllers and brokers on this machine, for development."""

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
    NoPorts,
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
    """Start controllers and brokers on this machine, each in a process, until Ctrl-C. For development.

    The first start formats the folder; a later one goes on with the same nodes, ports and data. Nodes listen on
    127.0.0.1, in clear. Without --acls every client may do everything.

    For example:

        barnabas cluster up --controllers 3 --brokers 3
        barnabas cluster up --controllers 1 --brokers 2 --data /tmp/two-brokers --port-base 19092
        barnabas cluster up --acls --data /tmp/with-acls

    Parameters
    ----------
    controllers
        How many vote, 1 to 9; an odd number. 3, or as many as the folder has.
    brokers
        How many serve clients, 1 to 9. 3, or as many as the folder has.
    data
        The folder of the cluster.
    port_base
        The first of neighbouring ports, brokers before controllers. Without it 9092, or the next place that is free.
    acls
        With logins and access rules: a super user admin, a user alice without any right, and an authorizer. Their
        passwords are in files for --command-config in the folder.
    dry_run
        Check and say what would be started, and write nothing.
    """
    options = options or AnswerOptions()
    _check("--controllers", controllers)
    _check("--brokers", brokers)
    from barnabas.cli.cluster.local_folder import FolderProblem
    from barnabas.server.settings.problem import InvalidSettings
    from barnabas.server.storage_tool.formatter import FormatError

    try:
        wanted = _Wanted(controllers, brokers, port_base, acls)
        return _up(wanted, Path(data).absolute(), dry_run=dry_run, options=options)
    except (FolderProblem, NoPorts) as error:
        raise UsageError(str(error)) from error
    except (FormatError, InvalidSettings) as error:
        problem = Problem(str(error), advice=f"mend that, or begin anew with another folder than {data} (--data)")
        return options.give(Answer({}, problems=[problem]))
    except OSError as error:
        return options.give(Answer({}, problems=[Problem(error.strerror or str(error), error.filename or data)]))


def _check(option: str, count: int | None) -> None:
    if count is not None and not 1 <= count <= NODES_MAX:
        raise UsageError(f"{option} {count}: there can be 1 to {NODES_MAX} of them on a machine for development")


class _Wanted(NamedTuple):
    """The cluster of the command line; None for what was not said."""

    controllers: int | None
    brokers: int | None
    port_base: int | None
    acls: bool


def _up(wanted: _Wanted, folder: Path, *, dry_run: bool, options: AnswerOptions) -> int:
    from barnabas.cli.cluster.local_folder import format_nodes, locked, read_cluster

    # Before a folder is made: nothing is written where it does not belong, or for a cluster that can't be.
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
                _say("no node is left")
                status = FAILED
    except NodeFailed as failure:
        ends = [f"its log, {supervisor.log_of(failure.node)}, ends:", *failure.lines]
        options.give(Answer({"log": list(failure.lines)}, problems=[Problem(str(failure))]))
        sys.stderr.writelines(f"{printable(line)}\n" for line in ends)
        status = FAILED
    _say("stopping brokers, then controllers")
    return status if supervisor.stop() else FAILED


def _cluster(folder: Path, wanted: _Wanted) -> LocalCluster:
    """The folder's, or a new one. Raises FolderProblem, NoPorts."""
    controllers, brokers, port_base, acls = wanted
    from barnabas.cli.cluster.local_folder import FolderProblem, is_free, read_cluster, taken_ports
    from barnabas.cli.storage.command import random_uuid

    found = read_cluster(folder)
    if found is None:
        counts = (controllers or _NODES, brokers or _NODES)
        if counts[0] % 2 == 0:
            _say(
                f"--controllers {counts[0]}: no more of them may fail than of {counts[0] - 1}: an odd number is better"
            )
        new_password = (lambda: token_urlsafe(18)) if acls else None
        return new_cluster(*counts, choose_ports(sum(counts), port_base, is_free), random_uuid, new_password)
    has = (len(found.of("controller")), len(found.of("broker")))
    if (controllers or has[0], brokers or has[1]) != has:
        raise FolderProblem(
            f"--data {folder}: it has {has[0]} controllers and {has[1]} brokers: leave the numbers away, or choose"
            " another folder"
        )
    if acls and not found.has_acls:
        raise FolderProblem(f"--data {folder}: it has a cluster without access rules: choose another folder for --acls")
    first = min(node.port for node in found.nodes)
    if port_base not in (None, first):
        raise FolderProblem(
            f"--port-base {port_base}: the nodes in {folder} keep their ports, from {first} on: leave it away, or"
            " choose another folder with --data"
        )
    if taken := taken_ports(found):
        names = ", ".join(f"{node.port} of {node.name}" for node in taken)
        raise FolderProblem(f"another process has {names}: the nodes in {folder} keep their ports, so stop that one")
    return found


def _answer(cluster: LocalCluster, folder: Path, supervisor: Supervisor | None, notes: list[str]) -> Answer:
    """``supervisor`` is None when nothing was started."""
    from barnabas.cli.cluster.local_folder import client_file

    sheet = Sheet(f"cluster {cluster.cluster_id}", ("node", "address", "pid", "log"))
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
    for user, rights in ((SUPER_USER, "everything"), (PLAIN_USER, "nothing, until a rule says so")):
        path = str(client_file(folder, user))
        users.add(f"User:{user}", rights, path)
        documents.append({"user": f"User:{user}", "is_super": user == SUPER_USER, "properties": path})
    admin = f"--bootstrap-server {cluster.bootstrap_server} --command-config {client_file(folder, SUPER_USER)}"
    how = f"barnabas acls add --allow-principal User:{PLAIN_USER} --operation read --topic orders {admin}"
    return Answer(document | {"users": documents}, [sheet, where, users], [f"to give a right: {how}", *notes])


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
    """Run in the child; the library is loaded here, because between fork and exec little is safe."""
    if sys.platform != "linux":
        return None
    libc, parent = ctypes.CDLL(None), os.getpid()

    def end_with_parent() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # It was gone before we asked.
            os._exit(1)

    return end_with_parent


@contextmanager
def _counted_signals() -> Iterator[Callable[[], int]]:
    """How often SIGINT and SIGTERM came; SIGHUP, of a terminal that was closed, is one of them."""
    count = 0

    def counted(number: int, frame: object) -> None:
        nonlocal count
        count += 1

    watched = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {each: signal.signal(each, counted) for each in watched}
    try:
        yield lambda: count
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
