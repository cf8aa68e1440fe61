"""Create and delete topics and change a config during all faults; the final state must be the last acknowledged one."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tests.history.clients import CLIENT_SETTINGS, Client
from tests.history.register_check import Read, RegisterCheck, Write
from tests.history.violations import Violation

__all__ = ["HistoryAdmin"]

_TIMEOUT_S = 15.0
_CONFIG = "max.message.bytes"
_FIRST_VALUE = 1_048_588
"""The default; larger ones change nothing for these records."""
_PREFIX = "made-"
_ABSENT, _PRESENT = 0, 1


class HistoryAdmin(Client):
    def __init__(self, bootstrap: str, topic: str, *, name: str, seed: int) -> None:
        super().__init__(name)
        self._client = AdminClient({**CLIENT_SETTINGS, "bootstrap.servers": bootstrap})
        self._rng = random.Random(f"{seed} {name}")
        self._config = RegisterCheck(f"{_CONFIG} of {topic}", initial=_FIRST_VALUE)
        self._topics: dict[str, RegisterCheck] = {}
        self._resource = ConfigResource(ResourceType.TOPIC, topic)
        self._value = _FIRST_VALUE

    def _run(self) -> None:
        living: list[str] = []
        while not self._ends.wait(self._rng.uniform(0.1, 1.0)):
            kind = self._rng.random()
            if kind < 0.4:
                name = f"{_PREFIX}{len(self._topics)}"
                self._topics[name] = RegisterCheck(f"existence of {name}", initial=_ABSENT)
                self._note(self._topics[name], _PRESENT, partial(self._create, name))
                living.append(name)
            elif kind < 0.7 and living:
                name = living.pop(self._rng.randrange(len(living)))
                self._note(self._topics[name], _ABSENT, partial(self._delete, name))
            else:
                self._value += 1
                self._note(self._config, self._value, self._alter)

    def _note(self, register: RegisterCheck, value: int, call: Callable[[], Any]) -> None:
        """A failed call may have taken effect, or may still take effect."""
        number = register.wrote(Write(value, time.monotonic()))
        try:
            call()
        except KafkaException as error:
            self.counts[f"failed: {error.args[0].name()}"] += 1
        else:
            self.counts["acknowledged"] += 1
            register.answered(number, time.monotonic())

    def _create(self, name: str) -> None:
        topic = NewTopic(name, num_partitions=3, replication_factor=3)
        self._client.create_topics([topic], operation_timeout=_TIMEOUT_S, request_timeout=_TIMEOUT_S)[name].result()

    def _delete(self, name: str) -> None:
        self._client.delete_topics([name], operation_timeout=_TIMEOUT_S, request_timeout=_TIMEOUT_S)[name].result()

    def _alter(self) -> None:
        entry = ConfigEntry(_CONFIG, str(self._value), incremental_operation=AlterConfigOpType.SET)
        change = ConfigResource(ResourceType.TOPIC, self._resource.name, incremental_configs=[entry])
        self._client.incremental_alter_configs([change], request_timeout=_TIMEOUT_S)[change].result()

    def read_in_the_end(self) -> list[Violation]:
        """Read the final state when every broker follows the controller again."""
        began = time.monotonic()
        names = set(self._client.list_topics(timeout=_TIMEOUT_S).topics)
        configs = self._client.describe_configs([self._resource])[self._resource].result(_TIMEOUT_S)
        ended = time.monotonic()
        self._config.read(Read(int(configs[_CONFIG].value), began, ended, "the final read"))
        for name, register in self._topics.items():
            register.read(Read(_PRESENT if name in names else _ABSENT, began, ended, "the final read"))
        return [violation for register in (self._config, *self._topics.values()) for violation in register.violations()]
