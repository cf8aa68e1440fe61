"""The policy of a connector's ``errors.*`` settings (KIP-298), and the texts that describe a bad record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.common.config_validators import Range, ValidString
from barnabas.connect.settings.plugin_config_def import ConfigDef, ConfigKey, ConfigType

__all__ = ["DEAD_LETTER_HEADERS", "ErrorPolicy", "Stage", "backoff_s"]

_PREFIX = "errors.deadletterqueue."

_DEFINITION = ConfigDef(
    [
        ConfigKey("errors.tolerance", ConfigType.STRING, "none", validator=ValidString(("none", "all"))),
        ConfigKey("errors.retry.timeout", ConfigType.LONG, "0"),
        ConfigKey("errors.retry.delay.max.ms", ConfigType.LONG, "60000", validator=Range(1)),
        ConfigKey("errors.log.enable", ConfigType.BOOLEAN, "false"),
        ConfigKey("errors.log.include.messages", ConfigType.BOOLEAN, "false"),
        ConfigKey(f"{_PREFIX}topic.name", ConfigType.STRING, ""),
        ConfigKey(f"{_PREFIX}topic.replication.factor", ConfigType.SHORT, "3"),
        ConfigKey(f"{_PREFIX}context.headers.enable", ConfigType.BOOLEAN, "false"),
    ]
)


class Stage:
    """The stage in which a record was bad; the names are Kafka's."""

    HEADER_CONVERTER = "HEADER_CONVERTER"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    TRANSFORMATION = "TRANSFORMATION"
    TASK_PUT = "TASK_PUT"
    TASK_POLL = "TASK_POLL"


DEAD_LETTER_HEADERS = {
    name: f"__connect.errors.{name}"
    for name in (
        "topic",
        "partition",
        "offset",
        "connector.name",
        "task.id",
        "stage",
        "class.name",
        "exception.class.name",
        "exception.message",
        "exception.stacktrace",
    )
}
"""The headers of a dead letter that describe its error."""


@dataclass(frozen=True, slots=True)
class ErrorPolicy:
    tolerates: bool
    retry_timeout_ms: int
    """-1: retry forever."""
    retry_delay_max_ms: int
    is_logged: bool
    logs_messages: bool
    dead_letter_topic: str
    dead_letter_replication_factor: int
    adds_context_headers: bool

    @classmethod
    def of(cls, config: Mapping[str, str]) -> ErrorPolicy:
        """Parse the settings. Raise ConfigException."""
        values = _DEFINITION.parse(config)
        return cls(
            values["errors.tolerance"] == "all",
            int(str(values["errors.retry.timeout"])),
            int(str(values["errors.retry.delay.max.ms"])),
            bool(values["errors.log.enable"]),
            bool(values["errors.log.include.messages"]),
            str(values[f"{_PREFIX}topic.name"]),
            int(str(values[f"{_PREFIX}topic.replication.factor"])),
            bool(values[f"{_PREFIX}context.headers.enable"]),
        )

    @property
    def wants_bad_records(self) -> bool:
        """Return whether the bad records of a batch must be examined one by one."""
        return self.tolerates and (self.is_logged or bool(self.dead_letter_topic))


def backoff_s(attempt: int, policy: ErrorPolicy, elapsed_ms: int) -> float | None:
    """Return how long to wait before the next retry; None to give up. Kafka begins at 300 ms and doubles."""
    if policy.retry_timeout_ms >= 0 and elapsed_ms >= policy.retry_timeout_ms:
        return None
    wait_ms: int = min(300 << min(attempt, 20), policy.retry_delay_max_ms)
    if policy.retry_timeout_ms >= 0:
        wait_ms = min(wait_ms, policy.retry_timeout_ms - elapsed_ms)
    return wait_ms / 1000
