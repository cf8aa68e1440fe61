"""Collects the records of an image."""

from __future__ import annotations

from typing import Any, NamedTuple

from barnabas.metadata.metadata_version import MetadataVersion

__all__ = ["ApiMessageAndVersion", "RecordWriter"]


class ApiMessageAndVersion(NamedTuple):
    """A record and the version that it is written at."""

    message: Any
    version: int


class RecordWriter:
    """``metadata_version`` decides the versions; ``losses`` names what a lower level could not keep."""

    __slots__ = ("losses", "metadata_version", "records")

    def __init__(self, metadata_version: MetadataVersion) -> None:
        self.metadata_version = metadata_version
        self.records: list[ApiMessageAndVersion] = []
        self.losses: list[str] = []

    def write(self, message: object, version: int) -> None:
        self.records.append(ApiMessageAndVersion(message, version))

    def lose(self, what: str) -> None:
        self.losses.append(what)
