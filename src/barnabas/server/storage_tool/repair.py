"""``barnabas storage repair``: lists the records that a damaged metadata log has lost, and continues without them.

Only a node without peers needs it, or a quorum in which most voters are damaged: any other node fetches the records
from its quorum when it starts. The node must be stopped. A torn tail is truncated as at a start.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from barnabas.server.settings.node_config import NodeConfig
from barnabas.server.storage_tool.formatter import FormatError
from barnabas.storage.damaged_files import DamagedLogError, LogDamage
from barnabas.storage.errors import StorageError
from barnabas.storage.log_directory import LogDirectory
from barnabas.storage.lost_promises_file import LostPromisesFile
from barnabas.storage.metadata_log import METADATA_LOG_DIRECTORY, MetadataLog
from barnabas.storage.metadata_log_loss import describe_loss
from barnabas.storage.metadata_log_repair import cut_damaged_log

__all__ = ["repair_storage"]


def repair_storage(
    config: NodeConfig, *, accepts_loss: bool, ask: Callable[[], bool], write_line: Callable[[str], None]
) -> bool:
    """List the lost records and, if the loss is accepted, truncate the log. Return whether the node can start now.

    ``ask`` is called after the loss was listed, if it was not accepted yet. Raise FormatError if a file can't be used.
    """
    with ExitStack() as locks:
        try:
            for path in dict.fromkeys([*config.log_dirs, config.metadata_log_dir]):
                directory = LogDirectory(path)
                directory.lock()
                locks.callback(directory.unlock)
            return _repair(config.metadata_log_dir, accepts_loss, ask, write_line)
        except StorageError as error:
            raise FormatError(str(error)) from error


def _repair(log_dir: str, accepts_loss: bool, ask: Callable[[], bool], write_line: Callable[[str], None]) -> bool:
    promises = LostPromisesFile(f"{log_dir}/{METADATA_LOG_DIRECTORY}")
    damage, lost = _damage(log_dir), promises.read()
    if damage is None and lost is None:
        write_line(f"The metadata log in {log_dir} is sound. Nothing was changed.")
        return True
    while damage is not None:
        write_line(str(damage))
        write_line("Lost without these records (some may never have been committed):")
        for line in describe_loss(log_dir, damage):
            write_line(line)
        if not (accepts_loss or ask()):
            write_line("Nothing was changed. `barnabas storage repair --accept-loss` continues without these records.")
            return False
        accepts_loss = True
        cut_damaged_log(log_dir, damage, report=write_line)
        damage = _damage(log_dir)
    if lost is not None:
        write_line(f"{promises.path}: this voter does not vote until it has what it lost again ({lost.reason}).")
        if not (accepts_loss or ask()):
            write_line("Nothing was changed. `barnabas storage repair --accept-loss` allows it to vote without that.")
            return False
        promises.clear()
        write_line(f"{promises.path}: removed. The voter votes after its next start.")
    write_line("The node can start. Every removed byte is kept in the files named above.")
    return True


def _damage(log_dir: str) -> LogDamage | None:
    try:
        MetadataLog(log_dir).close()
    except DamagedLogError as error:
        return error.damage
    return None
