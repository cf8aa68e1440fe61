"""Options of the verbs that take records from a queue, and the settings that these verbs choose themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.cli.records.options import RecordOptions, usage_error
from barnabas.common.error_code import ErrorCode

if TYPE_CHECKING:
    from barnabas.clients.share.config import ShareConfig

__all__ = ["ADVICE", "QueueOptions", "Wanted", "right_of"]

ADVICE = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "'barnabas topics list' shows the topics that you may see",
    ErrorCode.UNSUPPORTED_VERSION: "the cluster has no share groups: they need Kafka 4.2 with share.version=1, see "
    "'barnabas features describe'",
    ErrorCode.GROUP_ID_NOT_FOUND: "the group may be of another type: 'barnabas groups list' shows it",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the group has as many members as group.share.max.size allows",
    ErrorCode.INVALID_RECORD_STATE: "the record is delivered again, to any member of the group",
    ErrorCode.NETWORK_EXCEPTION: "check the cluster with 'barnabas cluster describe'",
}

_INSTEAD = {
    "group.id": "--group",
    "group.protocol": "nothing: a queue is a share group",
    "share.acknowledgement.mode": "--accept",
    "share.acquire.mode": "--max",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to receive: up to ``count`` records, each within ``wait_s``."""

    group: str
    topic: str
    count: int
    wait_s: float
    is_quiet: bool = False


@dataclass(kw_only=True)
class QueueOptions(RecordOptions):
    """The cluster to contact, and the output format."""

    def share_config(self, *, is_implicit: bool) -> ShareConfig:
        """Return the settings of a consumer that acquires no more records than it wants. Raise UsageError."""
        from barnabas.clients.errors import InvalidClientConfig
        from barnabas.clients.share.config import share_config

        modes = {
            "share.acquire.mode": "record_limit",
            "share.acknowledgement.mode": "implicit" if is_implicit else "explicit",
        }
        try:
            return share_config(self.checked_properties() | modes, source=self.source)
        except InvalidClientConfig as error:
            raise usage_error(error) from error

    def checked_properties(self) -> dict[str, str]:
        """Return the properties of the file and the command line. Raise UsageError."""
        from barnabas.clients.consumer.config import CONSUMER_PROPERTIES

        return self.properties({}, CONSUMER_PROPERTIES, _INSTEAD)


def right_of(group: str, topic: str) -> str:
    return f"READ on Topic:{topic} and on Group:{group}"
