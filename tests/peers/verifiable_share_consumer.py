"""Kafka's VerifiableShareConsumer as a process of its own, which can be killed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.peers import kafka_command, require_peer

__all__ = ["VerifiableShareConsumer"]

_CLASS = "org.apache.kafka.tools.VerifiableShareConsumer"


class VerifiableShareConsumer:
    """A member of a share group that accepts each record that it receives. An offset is (partition, offset) here."""

    def __init__(self, bootstrap: str, topic: str, group: str, folder: Path, name: str) -> None:
        require_peer()
        arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group]
        arguments += ["--acknowledgement-mode", "sync", "--offset-reset-strategy", "earliest"]
        self._printed = folder / f"{name}.jsonl"
        with self._printed.open("wb") as printed, (folder / f"{name}.log").open("wb") as log:
            self._process = subprocess.Popen(
                kafka_command(_CLASS, *arguments), stdin=subprocess.DEVNULL, stdout=printed, stderr=log
            )

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def received(self) -> list[tuple[int, int]]:
        return [offset for event in self._events("records_consumed") for offset in _offsets(event)]

    def accepted(self) -> list[tuple[int, int]]:
        """Return what it accepted and received a confirmation for."""
        return [
            offset for event in self._events("offsets_acknowledged") if event["success"] for offset in _offsets(event)
        ]

    def failures(self) -> list[str]:
        """Return the errors of acknowledgements of which it does not know whether they took effect."""
        return [event["error"] for event in self._events("offsets_acknowledged") if not event["success"]]

    def _events(self, name: str) -> Iterator[dict[str, Any]]:
        for line in self._printed.read_text().splitlines():
            # The last line of a killed process may be cut.
            if line.startswith("{") and line.endswith("}") and (event := json.loads(line))["name"] == name:
                yield event


def _offsets(event: dict[str, Any]) -> Iterator[tuple[int, int]]:
    for part in event["partitions"]:
        for offset in part["offsets"]:
            yield part["partition"], offset
