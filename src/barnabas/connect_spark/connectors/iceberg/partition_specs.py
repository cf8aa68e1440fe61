"""Partition specs of Iceberg tables, compared with transforms and changed to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from barnabas.connect_spark.connectors.iceberg.partition_transforms import PartitionTransform

__all__ = ["PartitionSpecs"]


class PartitionSpecs:
    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm

    def built(self, schema: Any, transforms: Sequence[PartitionTransform]) -> Any:
        """Return the spec of a new table."""
        builder = self._jvm.org.apache.iceberg.PartitionSpec.builderFor(schema)
        for transform in transforms:
            made = getattr(builder, transform.kind)
            builder = made(transform.column) if transform.number is None else made(transform.column, transform.number)
        return builder.build()

    def of(self, table: Any) -> list[PartitionTransform]:
        """Return the transforms of a table's present spec."""
        return [transform for _, transform in self._fields(table)]

    def evolve(self, table: Any, wanted: Sequence[PartitionTransform]) -> None:
        """Change the spec: files that exist keep theirs, new files have the new one."""
        update, known = table.updateSpec(), self._fields(table)
        for name, transform in known:
            if transform not in wanted:
                update.removeField(name)
        for transform in wanted:
            if transform not in [each for _, each in known]:
                update.addField(self._term(transform))
        update.commit()

    def _term(self, transform: PartitionTransform) -> Any:
        made = self._jvm.org.apache.iceberg.expressions.Expressions
        if transform.kind == "identity":
            return made.ref(transform.column)
        named = getattr(made, transform.kind)
        return named(transform.column) if transform.number is None else named(transform.column, transform.number)

    @staticmethod
    def _fields(table: Any) -> list[tuple[str, PartitionTransform]]:
        found = []
        for field in table.spec().fields():
            kind, _, number = str(field.transform().toString()).rstrip("]").partition("[")
            if kind != "void":  # A field that was removed from a table of format version 1.
                column = str(table.schema().findColumnName(field.sourceId()))
                found.append((str(field.name()), PartitionTransform(kind, column, int(number) if number else None)))
        return found
