"""``barnabas storage format`` and ``info``: assign log directories to a node, and describe their contents.

Formatting writes ``meta.properties`` last, so that a half-formatted directory counts as empty and is formatted again.
The texts are those of Kafka's tool, because scripts read them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING

from barnabas.common.uuid import Uuid
from barnabas.metadata.bootstrap import bootstrap_records, metadata_version_of
from barnabas.metadata.features import FEATURES, KRAFT_VERSION, METADATA_VERSION
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.metadata.metadata_version import LATEST_PRODUCTION, MetadataVersion
from barnabas.protocol.records.user_scram_credential_record import UserScramCredentialRecord
from barnabas.raft.replica_key import OffsetAndEpoch
from barnabas.raft.voter_set import VoterSet
from barnabas.server.metadata_log.record_serde import MetadataRecordSerde
from barnabas.server.storage_tool.initial_controllers import InitialController, parse_initial_controllers, voter_set_of
from barnabas.storage.bootstrap_file import write_bootstrap_file
from barnabas.storage.checkpoint_file import sync_directory
from barnabas.storage.errors import StorageError
from barnabas.storage.file_permissions import DIRECTORY_MODE
from barnabas.storage.meta_properties import MetaProperties, MetaPropertiesEnsemble, new_directory_id
from barnabas.storage.metadata_log import METADATA_LOG_DIRECTORY
from barnabas.storage.snapshot_file import RawSnapshotWriter, SnapshotWriter

if TYPE_CHECKING:
    from barnabas.server.settings.node_config import NodeConfig

__all__ = ["FormatError", "describe_storage", "format_storage"]

_FLAGS = "--standalone, --initial-controllers, or --no-initial-controllers"


class FormatError(Exception):
    """The directories can't be formatted as requested. The message is for the operator."""


class _DirectoryType(Enum):
    LOG_DIRECTORY = "data directory"
    STATIC_METADATA_DIRECTORY = "metadata directory"
    DYNAMIC_METADATA_NON_VOTER_DIRECTORY = "dynamic metadata directory"
    DYNAMIC_METADATA_VOTER_DIRECTORY = "dynamic metadata voter directory"

    @property
    def is_dynamic(self) -> bool:
        return self.name.startswith("DYNAMIC")


def format_storage(
    config: NodeConfig,
    *,
    cluster_id: str,
    release_version: str | None = None,
    feature_levels: Mapping[str, int] | None = None,
    scram_credentials: Sequence[UserScramCredentialRecord] = (),
    standalone: bool = False,
    no_initial_controllers: bool = False,
    initial_controllers: str | None = None,
    ignore_formatted: bool = False,
    write_line: Callable[[str], None] = lambda line: None,
) -> None:
    """Format every log directory that isn't formatted. If it raises FormatError, nothing was written."""
    levels = dict(feature_levels or {})
    _check_features(levels)
    metadata_version = _metadata_version(release_version, levels)
    controllers = _initial_controllers(config, standalone=standalone, initial_controllers=initial_controllers)
    _check_quorum_flags(config, controllers, no_initial_controllers=no_initial_controllers)
    is_dynamic = bool(controllers) or no_initial_controllers
    kraft_version = _kraft_version(levels, is_dynamic=is_dynamic, has_voters=bool(config.quorum_voters))
    try:
        records = bootstrap_records(metadata_version, levels, scram_credentials)
    except ValueError as error:
        raise FormatError(str(error)) from error
    ensemble = _verified_ensemble(config, cluster_id, ignore_formatted=ignore_formatted)
    for directory in ensemble.error_log_dirs:
        write_line(f"I/O error trying to read log directory {directory}. Ignoring...")
    if ensemble.error_log_dirs and not ensemble.empty_log_dirs and not ensemble.log_dirs:
        raise FormatError("No available log directories to format.")
    if not ensemble.empty_log_dirs:
        write_line("All of the log directories are already formatted.")
        return
    write_line(f"Bootstrap metadata: {_describe_records(records)}")
    formatter = _Formatter(config, cluster_id, records, controllers, kraft_version, ensemble)
    for directory in formatter.directories():
        write_line(
            f"Formatting {formatter.type_of(directory).value} {directory} with {METADATA_VERSION} {metadata_version}."
        )
        formatter.format(directory)


def describe_storage(config: NodeConfig, *, write_line: Callable[[str], None]) -> bool:
    """Describe the contents of the log directories. Return False if one has a problem."""
    problems: list[str] = []
    found: list[str] = []
    previous: MetaProperties | None = None
    for directory in sorted({*config.log_dirs, config.metadata_log_dir}):
        if not os.path.exists(directory):
            problems.append(f"{directory} does not exist")
            continue
        if not os.path.isdir(directory):
            problems.append(f"{directory} is not a directory")
            continue
        found.append(directory)
        try:
            properties = MetaProperties.read(directory)
        except (OSError, StorageError) as error:
            problems.append(f"Error loading {directory}/meta.properties: {error}")
            continue
        if properties is None:
            problems.append(f"{directory} is not formatted.")
            continue
        if previous is not None and not properties.same_node(previous):
            problems.append(f"Metadata for {directory} was {properties}, but other directories featured {previous}")
        previous = previous or properties
    _write_section(write_line, "Found log directory:", "Found log directories:", found)
    if previous is not None:
        write_line(f"Found metadata: {previous}")
        write_line("")
    _write_section(write_line, "Found problem:", "Found problems:", problems)
    return not problems


def _write_section(write_line: Callable[[str], None], singular: str, plural: str, lines: Sequence[str]) -> None:
    if lines:
        write_line(singular if len(lines) == 1 else plural)
        for line in lines:
            write_line(f"  {line}")
        write_line("")


class _Formatter:
    """Formats one directory after another, that of the metadata log first."""

    def __init__(
        self,
        config: NodeConfig,
        cluster_id: str,
        records: Sequence[ApiMessageAndVersion],
        controllers: Sequence[InitialController],
        kraft_version: int,
        ensemble: MetaPropertiesEnsemble,
    ) -> None:
        self._config = config
        self._cluster_id = cluster_id
        self._records = records
        self._controllers = controllers
        self._own = next((controller for controller in controllers if controller.node_id == config.node_id), None)
        self._kraft_version = kraft_version
        self._empty = ensemble.empty_log_dirs
        self._taken = {found.directory_id for found in ensemble.log_dirs.values() if found.directory_id is not None}
        self._taken.update(controller.directory_id for controller in controllers)
        self._serde = MetadataRecordSerde()

    def directories(self) -> list[str]:
        metadata_log_dir = self._config.metadata_log_dir
        return sorted(self._empty, key=lambda directory: (directory != metadata_log_dir, directory))

    def type_of(self, directory: str) -> _DirectoryType:
        if directory != self._config.metadata_log_dir:
            return _DirectoryType.LOG_DIRECTORY
        if not self._controllers:
            return _DirectoryType.STATIC_METADATA_DIRECTORY
        if self._own is None:
            return _DirectoryType.DYNAMIC_METADATA_NON_VOTER_DIRECTORY
        return _DirectoryType.DYNAMIC_METADATA_VOTER_DIRECTORY

    def format(self, directory: str) -> None:
        try:
            os.makedirs(directory, DIRECTORY_MODE, exist_ok=True)
            write_bootstrap_file(directory, self._records, serde=self._serde, now_ms=_now_ms())
            if self.type_of(directory).is_dynamic:
                self._write_voters(directory)
            properties = MetaProperties(
                cluster_id=self._cluster_id, node_id=self._config.node_id, directory_id=self._directory_id(directory)
            )
            properties.write(directory, _date())
        except OSError as error:
            raise FormatError(f"Error while writing meta.properties file {directory}: {error.strerror}") from error

    def _directory_id(self, directory: str) -> Uuid:
        if self._own is not None and self.type_of(directory) is _DirectoryType.DYNAMIC_METADATA_VOTER_DIRECTORY:
            return self._own.directory_id
        directory_id = _random_directory_id(self._taken)
        self._taken.add(directory_id)
        return directory_id

    def _write_voters(self, directory: str) -> None:
        """Write the 0-0 checkpoint: the voters, before the log exists."""
        log_directory = f"{directory}/{METADATA_LOG_DIRECTORY}"
        os.makedirs(log_directory, DIRECTORY_MODE, exist_ok=True)
        writer = SnapshotWriter(
            RawSnapshotWriter(log_directory, OffsetAndEpoch(0, 0), token=str(_now_ms())),
            last_contained_log_timestamp=_now_ms(),
            now_ms=_now_ms(),
            serde=self._serde,
            kraft_version=self._kraft_version,
            voters=self._voters(),
        )
        writer.freeze()
        sync_directory(directory)

    def _voters(self) -> VoterSet:
        return voter_set_of(self._controllers, self._config.first_controller_listener)


def _check_features(levels: Mapping[str, int]) -> None:
    for name in levels:
        if name not in FEATURES and name != METADATA_VERSION:
            raise FormatError(f"Unsupported feature: {name}. Supported features are: {', '.join(sorted(FEATURES))}")


def _metadata_version(release_version: str | None, levels: Mapping[str, int]) -> MetadataVersion:
    try:
        if release_version is None:
            return MetadataVersion(levels[METADATA_VERSION]) if METADATA_VERSION in levels else LATEST_PRODUCTION
        if METADATA_VERSION in levels:
            raise FormatError("Use --release-version instead of --feature metadata.version=X to avoid ambiguity.")
        return MetadataVersion.from_version_string(release_version)
    except ValueError as error:
        raise FormatError(str(error)) from error


def _initial_controllers(
    config: NodeConfig, *, standalone: bool, initial_controllers: str | None
) -> list[InitialController]:
    try:
        if initial_controllers is not None:
            return parse_initial_controllers(initial_controllers)
    except ValueError as error:
        raise FormatError(str(error)) from error
    if not standalone:
        return []
    if not config.is_controller:
        raise FormatError("You can only use --standalone on a controller.")
    if not config.advertised_controller_listeners:
        raise FormatError("No controller listeners found.")
    listener = config.advertised_controller_listeners[0]
    return [InitialController(config.node_id, listener.host or "localhost", listener.port, _random_directory_id(()))]


def _check_quorum_flags(
    config: NodeConfig, controllers: Sequence[InitialController], *, no_initial_controllers: bool
) -> None:
    if no_initial_controllers or not config.is_controller:
        return
    if not config.quorum_voters and not controllers:
        raise FormatError(
            "Because controller.quorum.voters is not set on this controller, you must specify one of the following: "
            f"{_FLAGS}."
        )
    if config.quorum_voters and controllers:
        raise FormatError(
            "You cannot specify controller.quorum.voters and format the node with --initial-controllers or "
            "--standalone. If you want to use dynamic quorum, please remove controller.quorum.voters and specify "
            "controller.quorum.bootstrap.servers instead."
        )


def _kraft_version(levels: dict[str, int], *, is_dynamic: bool, has_voters: bool) -> int:
    """Return the level of kraft.version. The flags decide it; it is not a bootstrap record."""
    asked = levels.pop(KRAFT_VERSION, None)
    if is_dynamic and asked == 0 and not has_voters:
        raise FormatError(
            f"Cannot set kraft.version to 0 if controller.quorum.voters is empty and one of the flags {_FLAGS} is "
            "used. For dynamic controllers support, try removing the --feature flag for kraft.version."
        )
    if not is_dynamic and asked:
        raise FormatError(
            f"Cannot set kraft.version to {asked} unless controller.quorum.voters is empty and one of the flags "
            f"{_FLAGS} is used. For dynamic controllers support, try using one of {_FLAGS} and removing "
            "controller.quorum.voters."
        )
    if asked is not None:
        return asked
    return 1 if is_dynamic else 0


def _verified_ensemble(config: NodeConfig, cluster_id: str, *, ignore_formatted: bool) -> MetaPropertiesEnsemble:
    ensemble = MetaPropertiesEnsemble(config.log_dirs, config.metadata_log_dir)
    if ensemble.log_dirs and not ignore_formatted:
        first = next(iter(ensemble.log_dirs))
        raise FormatError(
            f"Log directory {first} is already formatted. Use --ignore-formatted to ignore this directory and format "
            "the others."
        )
    if ensemble.log_dirs or ensemble.error_log_dirs:
        try:
            ensemble.verify(node_id=config.node_id, cluster_id=cluster_id)
        except StorageError as error:
            raise FormatError(str(error)) from error
    return ensemble


def _describe_records(records: Sequence[ApiMessageAndVersion]) -> str:
    """Return the records as Kafka's tool prints them, without the keys of credentials."""
    level = int(metadata_version_of([record.message for record in records]))
    shown = ", ".join(f"ApiMessageAndVersion({_describe(record.message)} at version 0)" for record in records)
    return f"BootstrapMetadata(records=[{shown}], metadataVersionLevel={level}, source=format command)"


def _describe(message: object) -> str:
    if isinstance(message, UserScramCredentialRecord):
        return (
            f"UserScramCredentialRecord(name='{message.name}', mechanism={message.mechanism}, "
            f"iterations={message.iterations})"
        )
    name, level = getattr(message, "name", ""), getattr(message, "feature_level", 0)
    return f"{type(message).__name__}(name='{name}', featureLevel={level})"


def _random_directory_id(taken: Sequence[Uuid] | set[Uuid]) -> Uuid:
    while True:
        directory_id = new_directory_id(os.urandom(16), taken)
        if directory_id is not None:
            return directory_id


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _date() -> str:
    """Return the date line of a file in the form of Java's Properties."""
    return time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime())
