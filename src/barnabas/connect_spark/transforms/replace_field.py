"""ReplaceField: drop, keep and rename fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from pyspark.sql import functions as F

from barnabas.connect_spark.converters.connect_schema import Field
from barnabas.connect_spark.transforms.record_expressions import (
    Operand,
    Outcome,
    Record,
    Side,
    members_of,
    require_struct,
)
from barnabas.connect_spark.transforms.struct_fields import duplicate, replaces_null, struct_like, with_default
from barnabas.connect_spark.transforms.transform import SidedTransform, names

if TYPE_CHECKING:
    from pyspark.sql import Column

    from barnabas.connect_spark.transforms.transform import Settings

__all__ = ["ReplaceField"]


@dataclass(frozen=True)
class ReplaceField(SidedTransform):
    exclude: frozenset[str]
    include: frozenset[str]
    renames: tuple[tuple[str, str], ...]
    replaces: bool
    side: Side = Side.VALUE

    name: ClassVar[str] = "ReplaceField"
    passes_null: ClassVar[bool] = True

    @classmethod
    def of(cls, settings: Settings) -> Self:
        renames = []
        for name in names(settings["renames"]):
            old, _, new = name.partition(":")
            renames.append((old.strip(), new.strip()))
        return cls(
            frozenset(names(settings["exclude"])),
            frozenset(names(settings["include"])),
            tuple(renames),
            replaces_null(settings),
        )

    def _keeps(self, name: str) -> bool:
        return name not in self.exclude and (not self.include or name in self.include)

    def apply(self, record: Record) -> Outcome:
        operand = record.operand(self.side)
        if operand.schema is None:
            members, wrong = members_of(operand, "field replacement", null_allowed=True)
            return Outcome(
                record.with_operand(self.side, Operand.of_members(operand.present, self._members(members))), wrong
            )
        schema, columns, _ = require_struct(operand, "field replacement", null_allowed=True)
        renames = dict(self.renames)
        fields: list[Field] = []
        values: dict[str, Column] = {}
        for field in schema.fields:
            if self._keeps(field.name):
                name = renames.get(field.name, field.name)
                if name in values:
                    raise duplicate(name)
                fields.append(Field(name, field.schema))
                values[name] = with_default(field.schema, columns[field.name], self.replaces)
        replaced = struct_like(schema, tuple(fields))
        return Outcome(record.with_operand(self.side, Operand.of_fields(replaced, operand.present, values)))

    def _members(self, members: Column) -> Column:
        if self.exclude or self.include:
            members = F.map_filter(members, lambda name, _: self._condition(name))
        if not self.renames:
            return members
        # A field with the new name replaces an existing one: a map can't have it twice.
        taken = [new for _, new in self.renames]
        old_names = [old for old, _ in self.renames]
        renamed = F.map_filter(members, lambda name, _: name.isin(*old_names))
        moved = F.transform_keys(_last_of_each(renamed, dict(self.renames)), lambda name, _: self._renamed(name))
        stay = F.map_filter(
            members,
            lambda name, _: ~name.isin(*old_names) & ~(name.isin(*taken) & F.array_contains(F.map_keys(moved), name)),
        )
        return F.map_concat(stay, moved)

    def _condition(self, name: Column) -> Column:
        condition = F.lit(True)
        if self.exclude:
            condition = condition & ~name.isin(*sorted(self.exclude))
        if self.include:
            condition = condition & name.isin(*sorted(self.include))
        return condition

    def _renamed(self, name: Column) -> Column:
        renamed = F.when(F.lit(False), name)
        for old, new in self.renames:
            renamed = renamed.when(name == old, F.lit(new))
        return renamed.otherwise(name)


def _last_of_each(members: Column, renames: Mapping[str, str]) -> Column:
    """Select only the last existing one of old names with the same new name."""
    by_new: dict[str, list[str]] = {}
    for old, new in renames.items():
        by_new.setdefault(new, []).append(old)
    for olds in by_new.values():
        for at, old in enumerate(olds[:-1]):
            members = _unless(members, old, olds[at + 1 :])
    return members


def _unless(members: Column, name: str, others: list[str]) -> Column:
    """Remove the name if one of the others exists."""
    is_there = F.arrays_overlap(F.map_keys(members), F.array(*(F.lit(name) for name in others)))
    return F.map_filter(members, lambda key, _: ~((key == name) & is_there))
