"""The shell's own statements. Every other statement is a ``SparkStatement``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from barnabas.cli.sql.table_names import TableName

__all__ = [
    "AlterPipeline",
    "CreatePipeline",
    "CreateInputView",
    "Describe",
    "DropPipeline",
    "DropView",
    "Exit",
    "Help",
    "OwnStatement",
    "PipelineAction",
    "Reset",
    "SetSetting",
    "Show",
    "Shown",
    "SparkStatement",
]


class Shown(Enum):
    """What SHOW lists, and DESCRIBE describes."""

    TOPICS = "topic"
    PIPELINES = "pipeline"
    VIEWS = "view"


class PipelineAction(Enum):
    """What ALTER PIPELINE does without changing settings. The values are verbs of the REST API."""

    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    RESTART = "restart"


@dataclass(frozen=True, slots=True)
class Show:
    shown: Shown
    pattern: str | None = None
    """As in Spark's SHOW: ``*`` is any text, ``|`` separates alternatives."""


@dataclass(frozen=True, slots=True)
class Describe:
    name: str
    kind: Shown | None = None
    """None: whatever has the name."""


@dataclass(frozen=True, slots=True)
class CreateInputView:
    """``CREATE TEMPORARY VIEW name USING topic OPTIONS (...)``, and the same with ``USING table``."""

    name: str
    options: Mapping[str, str]
    is_table: bool = False
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class DropView:
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreatePipeline:
    name: str
    query: str
    options: Mapping[str, str] = field(default_factory=dict)
    if_not_exists: bool = False
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class AlterPipeline:
    """One of: settings that change (None removes a setting), another query, or an action."""

    name: str
    settings: Mapping[str, str | None] = field(default_factory=dict)
    query: str | None = None
    action: PipelineAction | None = None


@dataclass(frozen=True, slots=True)
class DropPipeline:
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class SetSetting:
    """``SET``, ``SET name`` and ``SET name = value``."""

    name: str | None = None
    value: str | None = None


@dataclass(frozen=True, slots=True)
class Reset:
    """``RESET name``, or all settings."""

    name: str | None = None


@dataclass(frozen=True, slots=True)
class Help:
    """``HELP``."""


@dataclass(frozen=True, slots=True)
class Exit:
    """``EXIT`` and ``QUIT``."""


@dataclass(frozen=True, slots=True)
class SparkStatement:
    """A statement for Spark's parser."""

    text: str
    names: Sequence[TableName] = ()
    """The topics, tables and views that it reads."""
    explains: bool = False
    """The result is a plan."""


OwnStatement: TypeAlias = (
    Show
    | Describe
    | CreateInputView
    | DropView
    | CreatePipeline
    | AlterPipeline
    | DropPipeline
    | SetSetting
    | Reset
    | Help
    | Exit
)
