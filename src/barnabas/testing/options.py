"""What a test says about its nodes, checked before anything is started."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from barnabas.testing.errors import NotPossible
from barnabas.testing.records import RecordData, keys_and_values
from barnabas.testing.security import check_users

if TYPE_CHECKING:
    from barnabas.common.acl import AclBinding

__all__ = ["NodeOptions", "Options", "SettingValue", "Topics", "check_names", "setting_text"]

SettingValue = str | int | float | bool
Topics = Mapping[str, int] | Iterable[str]
"""Numbers of partitions by topic, or names of topics with one partition each."""

_OWN = {
    "log.dirs": "use folder=...",
    "log.dir": "use folder=...",
    "node.id": "nodes are numbered from 1",
    "broker.id": "nodes are numbered from 1",
    "listeners": "the system chooses the ports",
    "advertised.listeners": "the system chooses the ports",
    "controller.listener.names": "the system chooses the ports",
    "process.roles": "use Cluster(controllers=...)",
    "controller.quorum.bootstrap.servers": "nodes know each other",
    "controller.quorum.voters": "nodes know each other",
}
"""Settings that the layout of the nodes determines, with the reason or the alternative."""


class NodeOptions(TypedDict, total=False):
    """Options of ``Node`` and ``Cluster``."""

    topics: Topics
    """Topics that exist from the beginning."""
    records: Mapping[str, Iterable[RecordData]]
    """Records by topic: values, or (key, value) pairs. A topic that is not in ``topics`` has one partition."""
    users: Mapping[str, str]
    """Passwords by user, for SASL. The super user ``admin`` is added."""
    acls: Iterable[AclBinding]
    """Rules. With them, even none, users need rights. They need ``users``."""
    tls: bool
    """Whether clients use TLS, with certificates made for the run."""
    client_certificates: bool
    """Whether each client must present a certificate."""
    settings: Mapping[str, SettingValue]
    """Settings of the nodes, with Kafka's names."""
    cluster_id: str | None
    """The id of the cluster. Default: a random one."""
    folder: Path | str
    """A new or empty folder for the data, which stays. Default: a temporary folder, which is removed at the end."""
    in_memory: bool
    """Whether the temporary folder is in memory, if there is enough. Default: yes."""
    in_process: bool
    """Whether nodes run on threads of this process: they start sooner, and can't be killed or cut off."""
    timeout_s: float
    """How long a node may take to start. Default: 60."""


@dataclass(slots=True)
class Options:
    """The options of a cluster. Creating it raises NotPossible, which names the option.

    Iterables are read once, here: a test may pass generators.
    """

    brokers: int
    controllers: int | None = None
    replication: int | None = None
    topics: Topics = ()
    records: Mapping[str, Iterable[RecordData]] | None = None
    users: Mapping[str, str] | None = None
    acls: Iterable[AclBinding] | None = None
    tls: bool = False
    client_certificates: bool = False
    settings: Mapping[str, SettingValue] | None = None
    cluster_id: str | None = None
    folder: Path | str | None = None
    in_memory: bool = True
    in_process: bool = False
    timeout_s: float = 60

    def __post_init__(self) -> None:
        if self.brokers < 1:
            raise NotPossible(f"brokers={self.brokers}: a cluster has at least 1")
        if self.controllers is not None and self.controllers < 1:
            raise NotPossible(
                f"controllers={self.controllers}: use 1 or more, or omit it for brokers that are controllers"
            )
        if self.replication is not None and not 1 <= self.replication <= self.brokers:
            raise NotPossible(
                f"replication={self.replication}: each copy needs a broker of its own, so use 1 to {self.brokers}"
            )
        self._check_security()
        for name in self.settings or ():
            if name in _OWN:
                raise NotPossible(f"settings: {name} is determined by the layout of the nodes; {_OWN[name]}")
        folder = self.data_folder
        if folder is not None and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise NotPossible(f"folder={str(folder)!r} is not an empty folder: nodes begin with empty disks")
        if self.timeout_s <= 0:
            raise NotPossible(f"timeout_s={self.timeout_s}: use more than 0 seconds")
        self.records = {topic: keys_and_values(records) for topic, records in (self.records or {}).items()}
        self.topics = self._partitions_by_topic(self.records)

    def _check_security(self) -> None:
        if self.users is not None:
            check_users(self.users)
        if self.acls is not None and self.users is None:
            raise NotPossible("acls=... needs users={...}: without users all clients are User:ANONYMOUS")
        if self.acls is not None:
            self.acls = list(self.acls)
        if self.client_certificates and not self.tls:
            raise NotPossible("client_certificates=True needs tls=True")

    @property
    def data_folder(self) -> Path | None:
        return None if self.folder is None else Path(self.folder).absolute()

    @property
    def default_replication(self) -> int:
        return self.replication or min(3, self.brokers)

    def settings_text(self) -> dict[str, str]:
        return {name: setting_text(value) for name, value in (self.settings or {}).items()}

    def _partitions_by_topic(self, others: Iterable[str]) -> dict[str, int]:
        """Return all topics, also those that only ``records`` names."""
        if isinstance(self.topics, str):
            raise NotPossible(f"topics={self.topics!r} is a single name: write topics=[{self.topics!r}]")
        named = dict(self.topics) if isinstance(self.topics, Mapping) else dict.fromkeys(self.topics, 1)
        for name, partitions in named.items():
            if not isinstance(partitions, int) or partitions < 1:
                raise NotPossible(f"topics: {name!r} has {partitions!r} partitions; use a number from 1 on")
        return {**dict.fromkeys(others, 1), **named}


def check_names(options: Mapping[str, object]) -> None:
    """Raise TypeError for an unknown option, with the nearest one."""
    known = NodeOptions.__annotations__
    for name in options.keys() - known.keys():
        near = get_close_matches(name, known, n=1)
        advice = f"did you mean {near[0]}?" if near else f"the options are {', '.join(known)}"
        raise TypeError(f"{name}=... is not an option of a node: {advice}")


def setting_text(value: SettingValue) -> str:
    """Return the value as in a file: True is ``true``."""
    return str(value).lower() if isinstance(value, bool) else str(value)
