"""The state of a row at one point of a chain, as expressions over the columns of a RecordBatch.

The fields of a struct stay separate until the end of the chain. So a step that adds, drops or renames a field costs
nothing for the others, no expression is repeated, and the whole chain is one projection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from barnabas.connect_spark.converters.connect_schema import ConnectSchema, DataException, SchemaType
from barnabas.connect_spark.converters.variants import null_variant, object_of

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

__all__ = [
    "Operand",
    "Outcome",
    "Record",
    "Side",
    "absent_as_null",
    "java_class",
    "members_of",
    "require_struct",
]


class Side(Enum):
    """Which half of a record a transform works on."""

    KEY = "key"
    VALUE = "value"


@dataclass(frozen=True)
class Operand:
    """A key or value: whole, or as the fields of a struct, or as the members of a schemaless object."""

    schema: ConnectSchema | None
    present: Column
    column: Column | None = None
    fields: Mapping[str, Column] | None = None
    members: Column | None = None
    """map<string,variant>; null where the value is null."""

    @classmethod
    def of(cls, schema: ConnectSchema | None, column: Column) -> Operand:
        if schema is not None and schema.type is SchemaType.STRUCT:
            fields = {field.name: column.getField(field.name) for field in schema.fields}
            return cls(schema, column.isNotNull(), column, fields)
        return cls(schema, column.isNotNull(), column)

    @classmethod
    def of_fields(cls, schema: ConnectSchema, present: Column, fields: Mapping[str, Column]) -> Operand:
        return cls(schema, present, None, dict(fields))

    @classmethod
    def of_members(cls, present: Column, members: Column) -> Operand:
        return cls(None, present, None, None, members)

    @cached_property
    def whole(self) -> Column:
        """Return it as one column of the schema's type."""
        if self.column is not None:
            return self.column
        if self.members is not None:
            return F.when(self.present, object_of(self.members))
        fields = [column.alias(name) for name, column in (self.fields or {}).items()]
        return F.when(self.present, F.struct(*fields) if fields else F.expr("struct()"))

    def when(self, condition: Column, otherwise: Operand) -> Operand:
        """Use this operand where the condition holds, otherwise the other one. Both have the same schema."""
        present = F.when(condition, self.present).otherwise(otherwise.present)
        if self.schema is not None and self.fields is not None and otherwise.fields is not None:
            fields = {
                name: column if column is otherwise.fields[name] else F.when(condition, column).otherwise(
                    otherwise.fields[name]
                )
                for name, column in self.fields.items()
            }  # fmt: skip
            return Operand.of_fields(self.schema, present, fields)
        return Operand(self.schema, present, F.when(condition, self.whole).otherwise(otherwise.whole))


@dataclass(frozen=True)
class Record:
    topic: Column
    partition: Column
    offset: Column
    timestamp: Column
    key: Operand
    value: Operand
    headers: Column
    type_of: Callable[[Column], DataType] | None = field(default=None, compare=False, repr=False)
    """Return the type of an expression over the columns of the batch; for transforms of other packages."""

    def operand(self, side: Side) -> Operand:
        return self.key if side is Side.KEY else self.value

    def with_operand(self, side: Side, operand: Operand) -> Record:
        return replace(self, key=operand) if side is Side.KEY else replace(self, value=operand)

    @property
    def schemas(self) -> tuple[ConnectSchema | None, ConnectSchema | None]:
        return self.key.schema, self.value.schema


@dataclass(frozen=True)
class Outcome:
    """The result of a step. The row is rejected if ``error`` is not null, and removed if ``dropped``."""

    record: Record
    error: Column | None = None
    dropped: bool = False
    exception_class: str = "org.apache.kafka.connect.errors.DataException"


def java_class(variant: Column) -> Column:
    """Return the type name of schemaless data in Connect's messages."""
    kind = F.schema_of_variant(variant)
    return (
        F.when(kind == "STRING", F.lit("java.lang.String"))
        .when(kind == "BOOLEAN", F.lit("java.lang.Boolean"))
        .when(kind == "BIGINT", F.lit("java.lang.Long"))
        .when(kind.startswith("ARRAY"), F.lit("java.util.ArrayList"))
        .when(kind.startswith("OBJECT"), F.lit("java.util.HashMap"))
        .when(kind == "BINARY", F.lit("[B"))
        .otherwise(F.lit("java.lang.Double"))
    )


def members_of(operand: Operand, purpose: str, *, null_allowed: bool = False) -> tuple[Column, Column]:
    """Return the members of a schemaless object, and the error of a row that has none."""
    if operand.members is not None:
        members, found = operand.members, F.lit("java.util.HashMap")
    else:
        variant = operand.whole
        members, found = variant.try_cast("map<string,variant>"), java_class(variant)
    message = F.concat(
        F.lit(f"Only Map objects supported in absence of schema for [{purpose}], found: "),
        F.when(operand.present, found).otherwise(F.lit("null")),
    )
    wrong = members.isNull() & operand.present if null_allowed else members.isNull()
    return members, F.when(wrong, message)


def absent_as_null(members: Column, names: Sequence[str]) -> Column:
    """Return a map from those names that the members lack to null."""
    known = F.coalesce(F.map_keys(members), F.array().cast("array<string>"))
    absent = F.array_except(F.array(*(F.lit(name) for name in names)), known)
    return F.map_from_arrays(absent, F.transform(absent, lambda _: null_variant()))


_JAVA_CLASSES = {
    SchemaType.INT8: "java.lang.Byte",
    SchemaType.INT16: "java.lang.Short",
    SchemaType.INT32: "java.lang.Integer",
    SchemaType.INT64: "java.lang.Long",
    SchemaType.FLOAT32: "java.lang.Float",
    SchemaType.FLOAT64: "java.lang.Double",
    SchemaType.BOOLEAN: "java.lang.Boolean",
    SchemaType.STRING: "java.lang.String",
    SchemaType.BYTES: "[B",
    SchemaType.ARRAY: "java.util.ArrayList",
    SchemaType.MAP: "java.util.HashMap",
}


def require_struct(
    operand: Operand, purpose: str, *, null_allowed: bool = False
) -> tuple[ConnectSchema, Mapping[str, Column], Column]:
    """Return schema and fields of typed data, and the error of a null row. Raise DataException for other types."""
    problem = f"Only Struct objects supported for [{purpose}], found: "
    if operand.schema is None or operand.fields is None:
        found = "null" if operand.schema is None else _JAVA_CLASSES.get(operand.schema.type, "null")
        raise DataException(f"{problem}{found}")
    wrong = F.lit(None).cast("string") if null_allowed else F.when(~operand.present, F.lit(f"{problem}null"))
    return operand.schema, operand.fields, wrong
