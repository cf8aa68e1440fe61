"""The folder of a development cluster: its description, a folder for each node, and the lock of the running ``up``.

``cluster.json`` is written first, and again when all nodes are formatted, so that the next start can continue an
interrupted one. A node's ``server.properties`` is written only once, so manual changes to it are kept.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from barnabas.cli.cluster.local_layout import HOST, PLAIN_USER, SUPER_USER, LocalCluster, LocalNode
from barnabas.server.settings.node_config import load_node_config
from barnabas.server.storage_tool.formatter import format_storage
from barnabas.storage.checkpoint_file import write_atomically

__all__ = ["FolderProblem", "client_file", "format_nodes", "is_free", "locked", "read_cluster", "taken_ports"]

_CLUSTER_FILE = "cluster.json"
_LOCK_FILE = ".lock"
PROPERTIES = "server.properties"


class FolderProblem(Exception):
    """The folder can't be used. The message contains the reason and what to do."""


def read_cluster(folder: Path) -> LocalCluster | None:
    """Return the cluster of the folder, or None for a new folder. Raise FolderProblem."""
    path = folder / _CLUSTER_FILE
    try:
        return LocalCluster.from_document(json.loads(path.read_text()))
    except FileNotFoundError:
        if folder.exists() and any(entry.name != _LOCK_FILE for entry in folder.iterdir()):
            raise FolderProblem(f"--data {folder}: the folder contains other files: choose a new folder") from None
        return None
    except NotADirectoryError:
        raise FolderProblem(f"--data {folder}: this is not a folder") from None
    except (ValueError, TypeError, KeyError) as error:
        raise FolderProblem(
            f"{path} can't be read ({error}): repair it, or choose another folder with --data"
        ) from error


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Create and lock the folder, so that a second ``up`` can't use it. Raise FolderProblem or OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / _LOCK_FILE).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderProblem(
                f"--data {folder}: its cluster is already running: stop it with Ctrl-C, or choose another folder"
            ) from None
        yield


def format_nodes(folder: Path, cluster: LocalCluster) -> LocalCluster:
    """Write the settings and format each node, unless done already. Raise FormatError, InvalidSettings or OSError."""
    if cluster.is_formatted:
        return cluster
    _write(folder, cluster)
    for node in cluster.nodes:
        _format(folder / node.name, cluster, node)
    for user in (SUPER_USER, PLAIN_USER) if cluster.has_acls else ():
        lines = [f"{key}={value}\n" for key, value in cluster.client_properties(user).items()]
        write_atomically(str(client_file(folder, user)), "".join(lines).encode())
    cluster = replace(cluster, is_formatted=True)
    _write(folder, cluster)
    return cluster


def client_file(folder: Path, user: str) -> Path:
    """Return the path of the user's file of client properties."""
    return folder / f"{user}.properties"


def taken_ports(cluster: LocalCluster) -> list[LocalNode]:
    return [node for node in cluster.nodes if not is_free(node.port)]


def is_free(port: int) -> bool:
    """Return whether a node could listen on the port. Remains of closed connections do not prevent it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _format(folder: Path, cluster: LocalCluster, node: LocalNode) -> None:
    folder.mkdir(exist_ok=True)
    properties = folder / PROPERTIES
    if not properties.exists():
        lines = [f"{key}={value}\n" for key, value in cluster.settings(node).items()]
        write_atomically(str(properties), "".join(lines).encode())
    config = load_node_config(str(properties), [f"log.dirs={folder / 'data'}"])
    format_storage(
        config,
        cluster_id=cluster.cluster_id,
        initial_controllers=cluster.initial_controllers if node.role == "controller" else None,
        ignore_formatted=True,
    )


def _write(folder: Path, cluster: LocalCluster) -> None:
    text = json.dumps(cluster.document(), indent=2) + "\n"
    write_atomically(os.fspath(folder / _CLUSTER_FILE), text.encode())
