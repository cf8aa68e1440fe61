"""Reads the identity of a node's directories before it starts, and whether the node stopped cleanly."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from time import gmtime, strftime
from typing import TYPE_CHECKING

from barnabas.common.uuid import Uuid
from barnabas.server.start_errors import NodeStartError
from barnabas.storage.errors import StorageError
from barnabas.storage.meta_properties import META_PROPERTIES, MetaPropertiesEnsemble, new_directory_id
from barnabas.storage.metadata_log import METADATA_LOG_DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.server.settings.node_config import NodeConfig

__all__ = ["NodeIdentity", "read_identity"]

log = logging.getLogger(__name__)


class NodeIdentity:
    """Cluster and directory ids from meta.properties. ``offline_log_dirs`` maps unreadable directories to reasons."""

    __slots__ = ("cluster_id", "directory_ids", "metadata_directory_id", "offline_log_dirs")

    def __init__(
        self,
        cluster_id: str,
        directory_ids: Mapping[str, Uuid],
        metadata_directory_id: Uuid,
        offline_log_dirs: Mapping[str, str],
    ) -> None:
        self.cluster_id = cluster_id
        self.directory_ids = directory_ids
        self.metadata_directory_id = metadata_directory_id
        self.offline_log_dirs = offline_log_dirs


def read_identity(config: NodeConfig) -> NodeIdentity:
    """Read the identity; format empty directories first if ``barnabas.auto.format`` is set. Raise NodeStartError."""
    ensemble = MetaPropertiesEnsemble(config.log_dirs, config.metadata_log_dir)
    if not ensemble.log_dirs and not ensemble.error_log_dirs and config.barnabas_auto_format:
        _format(config)
        ensemble = MetaPropertiesEnsemble(config.log_dirs, config.metadata_log_dir)
    try:
        ensemble.verify(node_id=config.node_id)
    except StorageError as error:
        hint = ""
        if not ensemble.log_dirs and not ensemble.error_log_dirs:
            hint = (
                f". Format the directories first: barnabas storage format --standalone "
                f"--cluster-id $(barnabas storage random-uuid) --config {config.source or 'server.properties'}"
            )
        raise NodeStartError(f"{error}{hint}") from error
    for path, reason in ensemble.error_log_dirs.items():
        log.error("the log directory %s can't be used, the node continues without it: %s", path, reason)
    for directory in ensemble.empty_log_dirs:
        raise NodeStartError(
            f"log directory {directory} is not formatted, the others are: "
            "format it with barnabas storage format --ignore-formatted"
        )
    cluster_id = ensemble.cluster_id
    if cluster_id is None:
        files = ", ".join(f"{path}/{META_PROPERTIES}" for path in ensemble.log_dirs)
        raise NodeStartError(
            f"{files}: cluster.id is missing. Restore the file from a backup, or write it again with the lines "
            f"version=1, cluster.id=(as on the other nodes), node.id={config.node_id} and directory.id="
        )
    ids = _directory_ids(ensemble)
    return NodeIdentity(
        cluster_id,
        {path: ids[path] for path in config.log_dirs if path in ids},
        ids[config.metadata_log_dir],
        {path: ensemble.error_log_dirs[path] for path in config.log_dirs if path in ensemble.error_log_dirs},
    )


def _directory_ids(ensemble: MetaPropertiesEnsemble) -> dict[str, Uuid]:
    """Return the id of each readable directory. Assign one to a directory that was formatted without an id."""
    ids = {path: found.directory_id for path, found in ensemble.log_dirs.items() if found.directory_id is not None}
    for path, found in ensemble.log_dirs.items():
        while path not in ids:
            made = new_directory_id(os.urandom(16), ids.values())
            if made is not None:
                try:
                    replace(found, directory_id=made).write(path, strftime("%a %b %d %H:%M:%S UTC %Y", gmtime()))
                except OSError as error:
                    raise NodeStartError(f"{path} can't be given a directory.id: {error}") from error
                ids[path] = made
    return ids


def _format(config: NodeConfig) -> None:
    from glob import escape, glob

    from barnabas.server.storage_tool.formatter import FormatError, format_storage

    for directory in dict.fromkeys([*config.log_dirs, config.metadata_log_dir]):
        # An interrupted format leaves no log: the first start creates the log.
        if glob(f"{escape(directory)}/{METADATA_LOG_DIRECTORY}/*.log"):
            raise NodeStartError(f"{directory} contains the data of a cluster, but its meta.properties is missing")
    cluster_id = str(Uuid(os.urandom(16)))
    try:
        format_storage(config, cluster_id=cluster_id, standalone=not config.quorum_voters)
    except (FormatError, StorageError, OSError) as error:
        raise NodeStartError(f"formatting {', '.join(config.log_dirs)} failed: {error}") from error
    log.info("formatted %s for new cluster %s", ", ".join(config.log_dirs), cluster_id)
