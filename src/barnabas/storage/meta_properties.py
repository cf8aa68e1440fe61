"""``meta.properties``: the cluster and node that own a log directory. Every log directory has one, written when it is
formatted.

A node starts only when all of its directories agree with each other and with its configuration; a directory that
belongs to another node or cluster must not be served, whatever it holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from barnabas.common.properties_file import parse_properties
from barnabas.common.uuid import Uuid
from barnabas.storage.checkpoint_file import write_atomically
from barnabas.storage.errors import CorruptFileError, StorageError
from barnabas.storage.file_io import exists, naming

__all__ = ["META_PROPERTIES", "MetaProperties", "MetaPropertiesEnsemble", "new_directory_id"]

META_PROPERTIES = "meta.properties"
VERSION_MAX = 1


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The file's content. Version 0 predates KRaft: there ids may be missing."""

    version: int = VERSION_MAX
    cluster_id: str | None = None
    node_id: int | None = None
    directory_id: Uuid | None = None

    @classmethod
    def read(cls, directory: str) -> MetaProperties | None:
        """Read the file; None if the directory does not have one."""
        path = f"{directory}/{META_PROPERTIES}"
        try:
            with naming(path), open(path, encoding="latin-1") as file:
                fields = parse_properties(file.read()).values
        except FileNotFoundError:
            return None
        version = _number(path, fields, "version") or 0
        if not 0 <= version <= VERSION_MAX:
            raise CorruptFileError(path, f"version {version} is not 0 or 1")
        node_id = _number(path, fields, "node.id" if version >= 1 else "broker.id")
        cluster_id = fields.get("cluster.id")
        if version >= 1 and cluster_id is None:
            raise CorruptFileError(path, "cluster.id is missing")
        if version >= 1 and node_id is None:
            raise CorruptFileError(path, "node.id is missing")
        directory_id = fields.get("directory.id")
        try:
            return cls(version, cluster_id, node_id, Uuid.from_string(directory_id) if directory_id else None)
        except ValueError as error:
            raise CorruptFileError(path, f"directory.id: {error}") from error

    def write(self, directory: str, date: str) -> None:
        """Replace the file durably; ``date`` is its second comment line, as Java writes it."""
        lines = ["#", f"#{date}"]
        if self.node_id is not None:
            lines.append(f"{'node.id' if self.version >= 1 else 'broker.id'}={self.node_id}")
        if self.directory_id is not None:
            lines.append(f"directory.id={self.directory_id}")
        lines.append(f"version={self.version}")
        if self.cluster_id is not None:
            lines.append(f"cluster.id={self.cluster_id}")
        write_atomically(f"{directory}/{META_PROPERTIES}", ("\n".join(lines) + "\n").encode("latin-1"))

    def same_node(self, other: MetaProperties) -> bool:
        """Whether both may belong to one node; their directory ids differ in any case."""
        return replace(self, directory_id=None) == replace(other, directory_id=None)

    def __str__(self) -> str:
        """Format the properties as Kafka's storage tool prints them."""
        fields: dict[str, object] = {"cluster.id": self.cluster_id, "directory.id": self.directory_id}
        fields["node.id" if self.version >= 1 else "broker.id"] = self.node_id
        fields["version"] = self.version
        return "{" + ", ".join(f"{name}={value}" for name, value in fields.items() if value is not None) + "}"


def _number(path: str, fields: Mapping[str, str], name: str) -> int | None:
    text = fields.get(name)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError as error:
        raise CorruptFileError(path, f"{name} is {text!r}, not a number") from error


def new_directory_id(random_bytes: bytes, taken: Iterable[Uuid] = ()) -> Uuid | None:
    """Return a directory id from these 16 bytes, as a version-4 UUID; None if it is reserved, taken or begins with a
    dash."""
    raw = bytearray(random_bytes)
    raw[6] = (raw[6] & 0x0F) | 0x40
    raw[8] = (raw[8] & 0x3F) | 0x80
    candidate = Uuid(bytes(raw))
    if candidate.is_reserved or str(candidate).startswith("-") or candidate in set(taken):
        return None
    return candidate


class MetaPropertiesEnsemble:
    """The files of all directories of a node."""

    def __init__(self, log_dirs: Iterable[str], metadata_log_dir: str) -> None:
        self.metadata_log_dir = metadata_log_dir
        self.log_dirs: dict[str, MetaProperties] = {}
        self.empty_log_dirs: list[str] = []
        self.error_log_dirs: dict[str, str] = {}
        for directory in dict.fromkeys([*log_dirs, metadata_log_dir]):
            self._load(directory)

    def _load(self, directory: str) -> None:
        try:
            if not exists(directory):
                self.empty_log_dirs.append(directory)
                return
            found = MetaProperties.read(directory)
        except (OSError, StorageError) as error:
            self.error_log_dirs[directory] = str(error)
            return
        if found is None:
            self.empty_log_dirs.append(directory)
        else:
            self.log_dirs[directory] = found

    @property
    def cluster_id(self) -> str | None:
        return next((found.cluster_id for found in self.log_dirs.values() if found.cluster_id), None)

    @property
    def node_id(self) -> int | None:
        return next((found.node_id for found in self.log_dirs.values() if found.node_id is not None), None)

    def verify(self, *, node_id: int, cluster_id: str | None = None) -> None:
        """Raise StorageError for the first reason why this node cannot use these directories."""
        if self.metadata_log_dir in self.error_log_dirs:
            raise StorageError(
                f"Encountered I/O error in metadata log directory {self.metadata_log_dir}. Cannot continue: "
                f"{self.error_log_dirs[self.metadata_log_dir]}"
            )
        if not self.log_dirs:
            directories = ", ".join([*self.empty_log_dirs, *self.error_log_dirs])
            raise StorageError(f"No readable meta.properties files found. Looked in: {directories}")
        expected_cluster_id = cluster_id or self.cluster_id
        seen: dict[Uuid, str] = {}
        for directory, found in self.log_dirs.items():
            if found.cluster_id != expected_cluster_id and (found.version >= 1 or found.cluster_id is not None):
                raise StorageError(
                    f"Invalid cluster.id in: {directory}/{META_PROPERTIES}. "
                    f"Expected {expected_cluster_id}, but read {found.cluster_id}"
                )
            if found.node_id is not None and found.node_id != node_id:
                raise StorageError(
                    f"Stored node id {found.node_id} doesn't match previous node id {node_id} in {directory}. "
                    "If you moved your data, make sure your configured node id matches. "
                    "If you intend to create a new node, you should remove all data in your data directories."
                )
            self._verify_directory_id(directory, found.directory_id, seen)

    def _verify_directory_id(self, directory: str, directory_id: Uuid | None, seen: dict[Uuid, str]) -> None:
        if directory_id is None:
            return
        if directory_id.is_reserved:
            raise StorageError(f"Invalid directory.id {directory_id} in {directory}: ids below 100 are reserved")
        if directory_id in seen:
            raise StorageError(f"Duplicate directory.id {directory_id} in {directory} and {seen[directory_id]}")
        seen[directory_id] = directory
