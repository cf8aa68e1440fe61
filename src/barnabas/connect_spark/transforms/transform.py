"""The port of all transforms and predicates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Self

from barnabas.common.config_value import ConfigValue

if TYPE_CHECKING:
    from pyspark.sql import Column

    from barnabas.connect_spark.transforms.record_expressions import Outcome, Record, Side

__all__ = ["Predicate", "Settings", "SidedTransform", "Transform", "names"]

Settings = Mapping[str, ConfigValue]
"""The parsed settings, as ``connect.decide.validation.transforms_config`` defines them."""


def names(value: object) -> tuple[str, ...]:
    """Parse a setting of the type list."""
    return tuple(str(item) for item in value) if isinstance(value, list | tuple) else ()


class Transform(ABC):
    name: ClassVar[str]
    """Connect's simple name of the class, without ``$Key`` or ``$Value``."""

    @classmethod
    @abstractmethod
    def of(cls, settings: Settings) -> Self:
        """Create it. Raise ConfigException for errors that the definitions of the settings alone can't detect."""

    @abstractmethod
    def apply(self, record: Record) -> Outcome:
        """Transform the record. Raise DataException if it rejects every record of these schemas."""


class SidedTransform(Transform):
    """A transform of the key or of the value: ``$Key`` and ``$Value``."""

    side: Side

    passes_null: ClassVar[bool] = False
    """Whether a null passes even where the transform rejects every other record of these schemas."""


class Predicate(ABC):
    name: ClassVar[str]

    @classmethod
    @abstractmethod
    def of(cls, settings: Settings) -> Self: ...

    @abstractmethod
    def test(self, record: Record) -> Column:
        """Return a boolean, never null."""
