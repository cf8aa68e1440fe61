"""Map topics to tables, and create missing tables and columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.connect.plugins.api import TerminalError
from barnabas.connect_spark.connectors.jdbc.column_types import ColumnType
from barnabas.connect_spark.connectors.jdbc.database import Database
from barnabas.connect_spark.connectors.jdbc.sql_dialect import Table, table_name

__all__ = ["TableRules", "target_table"]


def target_table(format_text: str, topic: str) -> Table:
    """Return the table. The first dot of the format separates schema and table; dots of the topic's name do not."""
    schema, dot, name = format_text.partition(".")
    parts = (schema, name) if dot else (schema,)
    return tuple(part.replace("${topic}", topic) for part in parts)


@dataclass(frozen=True, slots=True)
class TableRules:
    creates: bool
    evolves: bool
    keys: tuple[str, ...]

    def prepare(
        self, database: Database, table: Table, types: Mapping[str, ColumnType], filled: set[str], *, is_alone: bool
    ) -> tuple[list[str], bool]:
        """Return the columns to write, after creating the missing ones, and whether any was. Raise TerminalError.

        A field that is null in every record of the batch needs no column: records of several topics share one schema
        in a batch, so it may belong to another topic. ``is_alone`` says that the batch has a single topic.
        """
        found = database.columns(table)
        if not found:
            if not self.creates:
                raise TerminalError(f"table {table_name(table)} does not exist. Create it, or set auto.create=true.")
            wanted = {name: kind for name, kind in types.items() if is_alone or name in filled}
            if not wanted:
                raise TerminalError(f"the records for {table_name(table)} have no fields for columns.")
            database.execute(database.dialect.create_table(table, wanted, self.keys))
            return list(wanted), True
        there = {column.name for column in found}
        missing = [name for name in types if name in filled and name not in there]
        if missing and not self.evolves:
            raise TerminalError(
                f"{table_name(table)} has no column {', '.join(missing)} (it has {', '.join(sorted(there))}). Add "
                "it, set auto.evolve=true to add it automatically, or exclude fields with fields.whitelist."
            )
        for name in missing:
            database.execute(database.dialect.add_column(table, name, types[name]))
        return [name for name in types if name in there or name in missing], bool(missing)
