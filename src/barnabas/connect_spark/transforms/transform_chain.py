"""The transforms of a connector, applied one after another to each RecordBatch, as one projection.

A row that a transform rejects keeps its values and gets a ``failure``; later steps don't change it. A row that Filter
drops is not in the result. Where a predicate holds for some rows only and the transform changes their schema, the
batch is split in two, because a column of Spark has one type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from pyspark.sql import functions as F

from barnabas.common.config_value import ConfigException, ConfigStateException
from barnabas.connect.decide.validation.transforms_config import (
    PREDICATES,
    PREDICATES_PACKAGE,
    TRANSFORMS,
    TRANSFORMS_PACKAGE,
)
from barnabas.connect.plugins.record_plugins import Predicate as PredicatePlugin
from barnabas.connect.plugins.record_plugins import RecordPlugin
from barnabas.connect.plugins.record_plugins import Transform as TransformPlugin
from barnabas.connect_spark.converters.connect_schema import ConnectSchema, DataException
from barnabas.connect_spark.converters.record_batch import FAILURE, RecordBatch, Stage
from barnabas.connect_spark.converters.record_converter import failure_of
from barnabas.connect_spark.converters.session_cache import SessionCache
from barnabas.connect_spark.converters.spark_types import spark_type
from barnabas.connect_spark.transforms.field_transforms import ExtractField, HoistField, SetSchemaMetadata, ValueToKey
from barnabas.connect_spark.transforms.header_transforms import DropHeaders, HeaderFrom, InsertHeader
from barnabas.connect_spark.transforms.insert_field import InsertField
from barnabas.connect_spark.transforms.mask_field import MaskField
from barnabas.connect_spark.transforms.plugin_transform import PluginPredicate, PluginTransform
from barnabas.connect_spark.transforms.predicates import PREDICATE_CLASSES
from barnabas.connect_spark.transforms.record_expressions import Operand, Outcome, Record, Side
from barnabas.connect_spark.transforms.record_transforms import Filter, RegexRouter, TimestampRouter
from barnabas.connect_spark.transforms.replace_field import ReplaceField
from barnabas.connect_spark.transforms.timestamp_converter import TimestampConverter
from barnabas.connect_spark.transforms.transform import Predicate, SidedTransform, Transform
from barnabas.connect_spark.transforms.value_transforms import Cast, Flatten

if TYPE_CHECKING:
    from pyspark.sql import Column

P = TypeVar("P", bound=RecordPlugin)

__all__ = ["Step", "TransformChain", "transform_of"]

_CLASSES: Mapping[str, type[Transform]] = {
    transform.name: transform
    for transform in (
        Cast, DropHeaders, ExtractField, Filter, Flatten, HeaderFrom, HoistField, InsertField, InsertHeader, MaskField,
        RegexRouter, ReplaceField, SetSchemaMetadata, TimestampConverter, TimestampRouter, ValueToKey,
    )
}  # fmt: skip
_PREDICATES: Mapping[str, type[Predicate]] = {predicate.name: predicate for predicate in PREDICATE_CLASSES}
_SIDES = {"Key": Side.KEY, "Value": Side.VALUE}


@dataclass(frozen=True)
class Step:
    java_class: str
    transform: Transform
    predicate: Predicate | None = None
    negate: bool = False

    def condition(self, record: Record) -> Column | None:
        """Return the condition of the rows that it applies to; None: all."""
        if self.predicate is None:
            return None
        found = self.predicate.test(record)
        return ~found if self.negate else found


@dataclass(frozen=True)
class _State:
    """Rows that have passed the same branches so far."""

    record: Record
    failure: Column
    kept: Column | None = None


@dataclass(frozen=True)
class _Branch:
    """One of the RecordBatches that result from one: its rows, their columns and their schemas."""

    kept: Column | None
    columns: tuple[Column, ...]
    key_schema: ConnectSchema | None
    value_schema: ConnectSchema | None


@dataclass(frozen=True)
class TransformChain:
    steps: tuple[Step, ...] = ()
    _branches: SessionCache[list[_Branch]] = field(default_factory=SessionCache, compare=False, repr=False)
    """Expressions depend on schemas and not on data, so only the first batch of its kind creates them."""

    @classmethod
    def of(
        cls, connector_config: Mapping[str, str], plugins: Mapping[str, type[RecordPlugin]] | None = None
    ) -> TransformChain:
        """Parse ``transforms``, ``transforms.<alias>.*``, ``predicates`` and ``predicates.<alias>.*``. ``plugins`` are
        those of other packages, by full name.

        Raise ConfigException, naming the setting, for values that none of the classes here supports.
        """
        known = plugins or {}
        predicates = {
            alias: _predicate(connector_config, alias, known) for alias in _aliases(connector_config, "predicates")
        }
        aliases = _aliases(connector_config, "transforms")
        return cls(tuple(_step(connector_config, alias, predicates, known) for alias in aliases))

    def apply(self, batches: Sequence[RecordBatch]) -> list[RecordBatch]:
        if not self.steps:
            return list(batches)
        return [changed for batch in batches for changed in self._applied(batch)]

    def _applied(self, batch: RecordBatch) -> list[RecordBatch]:
        schemas = (batch.key_schema, batch.value_schema)
        branches = self._branches.get(batch.frame.sparkSession, schemas, lambda: self._planned(batch))
        return [
            RecordBatch(
                (batch.frame if branch.kept is None else batch.frame.filter(branch.kept)).select(*branch.columns),
                branch.key_schema,
                branch.value_schema,
            )
            for branch in branches
        ]

    def _planned(self, batch: RecordBatch) -> list[_Branch]:
        states = [_State(_record(batch), F.col("failure"))]
        for step in self.steps:
            states = [after for before in states for after in _stepped(step, before)]
        return [_branch(state) for state in states]


def _record(batch: RecordBatch) -> Record:
    return Record(
        F.col("topic"),
        F.col("partition"),
        F.col("offset"),
        F.col("timestamp"),
        Operand.of(batch.key_schema, F.col("key")),
        Operand.of(batch.value_schema, F.col("value")),
        F.col("headers"),
        lambda column: batch.frame.select(column.alias("typed")).schema["typed"].dataType,
    )


def _branch(state: _State) -> _Branch:
    record = state.record
    key_schema, value_schema = record.schemas
    columns = (
        record.topic.alias("topic"),
        F.col("partition"),
        F.col("offset"),
        F.col("timestamp"),
        record.key.whole.cast(spark_type(key_schema)).alias("key"),
        record.value.whole.cast(spark_type(value_schema)).alias("value"),
        record.headers.alias("headers"),
        state.failure.cast(FAILURE).alias("failure"),
        F.col("original"),
    )
    return _Branch(state.kept, columns, key_schema, value_schema)


def _stepped(step: Step, state: _State) -> list[_State]:
    before = state.record
    condition = step.condition(before)
    try:
        outcome = step.transform.apply(before)
    except DataException as refusal:
        message = F.lit(str(refusal))
        if isinstance(step.transform, SidedTransform) and step.transform.passes_null:
            message = F.when(before.operand(step.transform.side).present, message)
        outcome = Outcome(before, message, exception_class=refusal.exception_class)
    if outcome.dropped:
        # Rows that failed earlier are not dropped: they must still be reported.
        kept = state.failure.isNotNull() if condition is None else state.failure.isNotNull() | ~condition
        return [replace(state, kept=kept if state.kept is None else state.kept & kept)]
    error = outcome.error
    if error is not None and condition is not None:
        error = F.when(condition, error)
    failure = state.failure
    if error is not None:
        step_failure = failure_of(Stage.TRANSFORMATION, step.java_class, error, F.lit(outcome.exception_class))
        failure = F.coalesce(failure, step_failure)
    if condition is None:
        return [replace(state, record=outcome.record, failure=failure)]
    return _branched(state, outcome.record, condition, failure)


def _branched(state: _State, after: Record, condition: Column, failure: Column) -> list[_State]:
    before = state.record
    if after.schemas == before.schemas:
        merged = Record(
            F.when(condition, after.topic).otherwise(before.topic),
            before.partition,
            before.offset,
            before.timestamp,
            after.key if after.key is before.key else after.key.when(condition, before.key),
            after.value if after.value is before.value else after.value.when(condition, before.value),
            F.when(condition, after.headers).otherwise(before.headers),
            before.type_of,
        )
        return [replace(state, record=merged, failure=failure)]

    def only(kept: Column) -> Column:
        return kept if state.kept is None else state.kept & kept

    return [
        replace(state, record=after, failure=failure, kept=only(condition)),
        replace(state, kept=only(~condition)),
    ]


# ---- Settings -------------------------------------------------------------------------------------------------------


def _aliases(config: Mapping[str, str], setting: str) -> list[str]:
    return [part.strip() for part in config.get(setting, "").split(",") if part.strip()]


def _below(config: Mapping[str, str], prefix: str) -> dict[str, str | None]:
    return {name.removeprefix(prefix): value for name, value in config.items() if name.startswith(prefix)}


def _predicate(config: Mapping[str, str], alias: str, plugins: Mapping[str, type[RecordPlugin]]) -> Predicate:
    prefix = f"predicates.{alias}."
    type_name = config.get(f"{prefix}type", "")
    plugin = plugins.get(type_name)
    if plugin is not None and issubclass(plugin, PredicatePlugin):
        return PluginPredicate(_made(plugin, config, prefix))
    name = type_name.removeprefix(f"{PREDICATES_PACKAGE}.")
    found = _PREDICATES.get(name)
    if found is None:
        raise ConfigException(f"{prefix}type", type_name, f"no such predicate; available: {', '.join(_PREDICATES)}")
    try:
        return found.of(PREDICATES[name].parse(_below(config, prefix)))
    except ConfigException as error:
        raise _prefixed(error, prefix) from None


def _step(
    config: Mapping[str, str],
    alias: str,
    predicates: Mapping[str, Predicate],
    plugins: Mapping[str, type[RecordPlugin]],
) -> Step:
    prefix = f"transforms.{alias}."
    class_name, transform = _transform(config, prefix, plugins)
    wanted = config.get(f"{prefix}predicate", "")
    if wanted and wanted not in predicates:
        raise ConfigException(
            f"{prefix}predicate", wanted, f"`predicates` lacks this alias; it has {', '.join(predicates) or 'none'}"
        )
    negate = config.get(f"{prefix}negate", "false").strip().lower() == "true"
    return Step(class_name, transform, predicates.get(wanted), negate)


def _transform(
    config: Mapping[str, str], prefix: str, plugins: Mapping[str, type[RecordPlugin]]
) -> tuple[str, Transform]:
    """Return the transform and the full name of its class."""
    type_name = config.get(f"{prefix}type", "")
    plugin = plugins.get(type_name)
    if plugin is not None and issubclass(plugin, TransformPlugin):
        return f"{plugin.__module__}.{plugin.__qualname__}", PluginTransform(_made(plugin, config, prefix))
    name = type_name.removeprefix(f"{TRANSFORMS_PACKAGE}.")
    if name not in TRANSFORMS:
        raise ConfigException(f"{prefix}type", type_name, f"no such transform; available: {', '.join(TRANSFORMS)}")
    try:
        return f"{TRANSFORMS_PACKAGE}.{name}", transform_of(name, _below(config, prefix))
    except ConfigException as error:
        raise _prefixed(error, prefix) from None


def _made(plugin: type[P], config: Mapping[str, str], prefix: str) -> P:
    """Create a plugin of another package with its settings below the prefix. Raise ConfigException."""
    try:
        return plugin(plugin.config_def.parse(_below(config, prefix)))
    except ConfigException as error:
        raise _prefixed(error, prefix) from None


def transform_of(name: str, settings: Mapping[str, str | None]) -> Transform:
    """Create the transform with Connect's simple name, plus ``$Key`` or ``$Value`` if any. Raise ConfigException."""
    simple, _, side = name.partition("$")
    transform = _CLASSES[simple].of(TRANSFORMS[name].parse(settings))
    return replace(transform, side=_SIDES[side]) if isinstance(transform, SidedTransform) else transform  # type: ignore[type-var]


def _prefixed(error: ConfigException, prefix: str) -> ConfigException:
    if isinstance(error, ConfigStateException):
        return ConfigStateException(f"{prefix}{error.name}", error.value, str(error.reason))
    return ConfigException(f"{prefix}{error.name}", error.value, error.reason)
