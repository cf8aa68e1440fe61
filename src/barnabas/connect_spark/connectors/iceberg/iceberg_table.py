"""An Iceberg table: its schema, its commits, and the positions that its snapshots keep (``snapshot_positions``).

Spark writes the files of a batch and hands them over uncommitted, as it does when it rewrites files. Iceberg's core
then puts them into a snapshot. The commit compares and swaps the table's metadata: it succeeds only on the metadata in
which the positions were checked last. If another writer was faster, positions are checked again on the new metadata:
files that were only added are committed there without being written again.

A schema or partition spec that must change is changed before the files are written, in a commit of its own. That
changes no row, and the next task finds it done.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.plugins.api import TerminalError
from barnabas.connect_spark.connectors.iceberg.iceberg_catalog import IcebergCatalog
from barnabas.connect_spark.connectors.iceberg.partition_specs import PartitionSpecs
from barnabas.connect_spark.connectors.iceberg.partition_transforms import parse_transforms
from barnabas.connect_spark.connectors.iceberg.snapshot_positions import positions_in, property_of, summary_of
from barnabas.connect_spark.connectors.tables.sink_table import TableConflict
from barnabas.connect_spark.sessions.java_errors import java_class, java_message

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["IcebergTable", "IcebergTransaction", "TableOwner", "quoted_name", "refusal"]

_COMMITS_MAX = 20
"""How often added files are committed again because another writer was faster."""
_DEFAULTS = {
    # Each commit writes a new file with the metadata; without this a busy table would keep all of them.
    "write.metadata.delete-after-commit.enabled": "true",
}
_PREFIX = "iceberg."


@dataclass(slots=True)
class TableOwner:
    """The connector that writes, and the tables whose partition spec it has compared with its settings."""

    application: str
    connector: str
    task: int | None = None
    specs_checked: set[str] = field(default_factory=set)


def quoted_name(parts: Sequence[str]) -> str:
    return ".".join(f"`{part}`" for part in parts)


class IcebergTable:
    def __init__(self, spark: SparkSession, catalog: IcebergCatalog, name: str, owner: TableOwner) -> None:
        """``name`` is that of ``quoted_name``: namespaces, then the table."""
        self.spark = spark
        self.owner = owner
        self.name = name
        self.full_name = f"{catalog.name}.{name}"
        self.settings = catalog
        self.jvm: Any = spark._jvm
        self._catalog = catalog.open(spark)
        *self._namespace, self._table = name[1:-1].split("`.`")

    def begin(self) -> IcebergTransaction:
        """Start a transaction on the present table; a table that does not exist has no columns."""
        return IcebergTransaction(self, self.load())

    def set_positions(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Set positions on request; None removes one. The data stay unchanged. Raise TableConflict."""
        transaction = self.begin()
        if transaction.exists:
            transaction.set_positions(offsets)

    def load(self) -> Any:
        """Return Iceberg's table; None if it does not exist."""
        try:
            return self._catalog.loadTable(self._identifier)
        except Exception as error:
            if java_class(error).endswith((".NoSuchTableException", ".NoSuchNamespaceException")):
                return None
            raise

    def create(self, schema: StructType, partition_by: Sequence[str], properties: Mapping[str, str]) -> Any:
        """Create the table. Raise TableConflict if another writer was faster."""
        converted = self.jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert(self.java_type(schema))
        builder = self._catalog.buildTable(self._identifier, converted)
        builder = builder.withPartitionSpec(PartitionSpecs(self.jvm).built(converted, _transforms(partition_by)))
        for name, value in (_DEFAULTS | dict(properties)).items():
            builder = builder.withProperty(name.removeprefix(_PREFIX), value)
        try:
            with self.settings.commit_lock():
                self._create_namespace()
                return builder.create()
        except Exception as error:
            if java_class(error).endswith((".AlreadyExistsException", ".CommitFailedException")):
                raise TableConflict(f"another writer has created {self.name}") from error
            raise

    def java_type(self, schema: StructType) -> Any:
        return self.jvm.org.apache.spark.sql.types.StructType.fromJson(schema.json())

    def _create_namespace(self) -> None:
        namespace = self._identifier.namespace()
        try:
            if not self._catalog.namespaceExists(namespace):
                self._catalog.createNamespace(namespace)
        except Exception as error:
            if not java_class(error).endswith(".AlreadyExistsException"):
                raise

    @property
    def _identifier(self) -> Any:
        catalog = self.jvm.org.apache.iceberg.catalog
        gateway: Any = self.spark.sparkContext._gateway
        levels = gateway.new_array(self.jvm.java.lang.String, len(self._namespace))
        for at, level in enumerate(self._namespace):
            levels[at] = level
        return catalog.TableIdentifier.of(catalog.Namespace.of(levels), self._table)


class IcebergTransaction:
    """A transaction, whose commit is checked against its reads."""

    def __init__(self, table: IcebergTable, loaded: Any) -> None:
        """``loaded`` is Iceberg's table, None for one that does not exist."""
        self._table = table
        self._loaded = loaded
        self._snapshot = _snapshot_id(loaded)
        self._known = {} if loaded is None else self._positions_in(loaded.operations().current())
        self._added: list[Any] = []
        self._removed: list[Any] = []

    @property
    def exists(self) -> bool:
        return self._loaded is not None

    @property
    def schema(self) -> StructType:
        from pyspark.sql.types import StructType

        convert = self._table.jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert
        return StructType.fromJson(json.loads(convert(self._loaded.schema()).json()))

    @property
    def file_column(self) -> str:
        return "_file"

    def positions(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the positions that the table stores."""
        return {partition: self._known[partition] for partition in partitions if partition in self._known}

    def rows(self) -> DataFrame:
        """Return all rows."""
        if self._snapshot is None:
            return self._table.spark.table(self._table.full_name).where("false")
        reader = self._table.spark.read.format("iceberg").option("snapshot-id", str(self._snapshot))
        return reader.load(self._table.full_name)

    def add(
        self,
        rows: DataFrame,
        *,
        merges_schema: bool,
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Write files. They belong to the table only after the commit. ``properties`` apply to a new table."""
        table, owner = self._table, self._table.owner
        if self._loaded is None:
            self._loaded = table.create(rows.schema, partition_by, properties or {})
        elif merges_schema:
            self._merge_schema(rows.schema)
        if partition_by and table.name not in owner.specs_checked:
            self._evolve_spec(partition_by)
        owner.specs_checked.add(table.name)
        self._added += self._written(_shaped(rows, self.schema))

    def remove(self, files: Sequence[str]) -> None:
        """Remove files by their names in ``rows``. The commit then conflicts with every writer that adds files."""
        wanted = set(files)
        if not wanted:
            return
        scan = self._loaded.newScan().useSnapshot(self._snapshot).planFiles()
        try:
            tasks = scan.iterator()
            while tasks.hasNext():
                file = tasks.next().file()
                if str(file.location()) in wanted:
                    self._removed.append(file)
        finally:
            scan.close()

    def commit(self, positions: Mapping[TopicPartition, int]) -> None:
        """Commit the added and removed files, and the positions. Raise TableConflict."""
        if self._loaded is not None:  # Nothing was written to a table that does not exist.
            self._commit(positions, self._table.owner.task, lambda known: {**known, **positions})

    def set_positions(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commit positions without data; None removes one. Raise TableConflict."""
        removed = {partition for partition, offset in offsets.items() if offset is None}
        given = {partition: offset for partition, offset in offsets.items() if offset is not None}

        def changed(known: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
            return {partition: at for partition, at in {**known, **given}.items() if partition not in removed}

        self._commit(given, None, changed)

    # ---- the commit

    def _commit(self, batch: Mapping[TopicPartition, int], task: int | None, changed: Any) -> None:
        try:
            for _ in range(_COMMITS_MAX):
                with self._table.settings.commit_lock():
                    if self._try_commit(batch, task, changed):
                        return
            raise TableConflict(f"{self._table.name} changed {_COMMITS_MAX} times while a batch was committed")
        except TableConflict:
            self._delete_added()
            raise

    def _try_commit(self, batch: Mapping[TopicPartition, int], task: int | None, changed: Any) -> bool:
        """Return False if another writer was faster. Raise TableConflict if it has changed what was read."""
        operations = self._loaded.operations()
        transaction = self._table.jvm.org.apache.iceberg.Transactions.newTransaction(self._table.name, operations)
        base = transaction.startMetadata()
        known = self._positions_in(base)
        self._check_unchanged(base, known, batch)
        owner = self._table.owner
        summary = summary_of(owner.application, owner.connector, task, batch, changed(known))
        update = self._update(transaction)
        for name, text in summary.items():
            update.set(name, text)
        update.commit()
        properties = transaction.updateProperties()
        properties.set(property_of(owner.application), summary["barnabas.positions"]).commit()
        try:
            operations.commit(base, transaction.currentMetadata())
        except Exception as error:
            if java_class(error).endswith(".CommitFailedException"):
                return False
            raise  # Also if the outcome is unknown: the next attempt reads the positions first.
        return True

    def _check_unchanged(
        self, base: Any, known: Mapping[TopicPartition, int], batch: Mapping[TopicPartition, int]
    ) -> None:
        if any(known.get(partition) != self._known.get(partition) for partition in batch):
            raise TableConflict(f"another task has committed positions of the same partitions to {self._table.name}")
        snapshot = base.currentSnapshot()
        if self._removed and (snapshot is None or snapshot.snapshotId() != self._snapshot):
            raise TableConflict(f"another writer has changed {self._table.name}, whose rows were to be replaced")

    def _update(self, transaction: Any) -> Any:
        """Return the change of the table's files."""
        if not self._removed:
            update = transaction.newAppend()
            for file in self._added:
                update.appendFile(file)
            return update
        update = transaction.newOverwrite()
        for file in self._removed:
            update.deleteFile(file)
        for file in self._added:
            update.addFile(file)
        return update

    def _delete_added(self) -> None:
        """Delete files that certainly belong to no snapshot."""
        for file in self._added:
            with suppress(Exception):  # They only take space.
                self._loaded.io().deleteFile(str(file.location()))
        self._added = []

    def _positions_in(self, metadata: Any) -> dict[TopicPartition, int]:
        return positions_in(metadata, self._table.owner.application)

    # ---- files

    def _written(self, rows: DataFrame) -> list[Any]:
        """Write the rows, and return the files as Iceberg's core needs them."""
        set_id = f"barnabas-{uuid4().hex}"
        schema_id = self._loaded.schema().schemaId()
        try:
            writer = rows.writeTo(self._table.full_name)
            writer.option("rewritten-file-scan-task-set-id", set_id).append()
        except Exception as error:
            present = self._table.load()
            if present is not None and present.schema().schemaId() != schema_id:
                raise TableConflict(f"another writer has changed the columns of {self._table.name}") from error
            raise
        coordinator = self._table.jvm.org.apache.iceberg.spark.FileRewriteCoordinator.get()
        files = list(coordinator.fetchNewFiles(self._loaded, set_id))
        coordinator.clearRewrite(self._loaded, set_id)
        return files

    # ---- evolution

    def _merge_schema(self, wanted: StructType) -> None:
        """Add columns and widen types, if the table's schema lacks them."""
        known = self.schema
        if _types(known, wanted.fieldNames()) == _types(wanted, wanted.fieldNames()):
            return
        util = self._table.jvm.org.apache.iceberg.spark.SparkSchemaUtil
        merged = util.convert(self._table.java_type(wanted))
        self._change(lambda: self._loaded.updateSchema().caseSensitive(True).unionByNameWith(merged).commit())

    def _evolve_spec(self, partition_by: Sequence[str]) -> None:
        specs = PartitionSpecs(self._table.jvm)
        wanted = _transforms(partition_by)
        if set(specs.of(self._loaded)) != set(wanted):
            self._change(lambda: specs.evolve(self._loaded, wanted))

    def _change(self, change: Any) -> None:
        try:
            with self._table.settings.commit_lock():
                change()
        except Exception as error:
            name = java_class(error)
            if name.endswith(".CommitFailedException"):
                raise TableConflict(f"another writer has changed {self._table.name}") from error
            if name.endswith((".ValidationException", ".IllegalArgumentException", ".IllegalStateException")):
                raise TerminalError(f"{self._table.name} can't be changed: {java_message(error)}") from error
            raise


def _transforms(partition_by: Sequence[str]) -> list[Any]:
    return parse_transforms(",".join(partition_by))


def _snapshot_id(loaded: Any) -> int | None:
    snapshot = None if loaded is None else loaded.currentSnapshot()
    return None if snapshot is None else int(snapshot.snapshotId())


def _types(schema: StructType, names: Sequence[str]) -> list[str | None]:
    known = {field.name: field.dataType.simpleString() for field in schema}
    return [_stored(known.get(name)) for name in names]


def _stored(kind: str | None) -> str | None:
    """Return the type as Iceberg stores it, which has no TINYINT and no SMALLINT."""
    return "int" if kind in ("tinyint", "smallint") else kind


def _shaped(rows: DataFrame, schema: StructType) -> DataFrame:
    """Return the rows with exactly the table's columns, null where they have none."""
    from pyspark.sql import functions as F

    given = {column.name: column.dataType for column in rows.schema}
    columns = []
    for column in schema:
        kind = given.get(column.name)
        value = F.lit(None) if kind is None else F.col(f"`{column.name}`")
        is_same = kind is not None and kind.simpleString() == column.dataType.simpleString()
        columns.append((value if is_same else value.cast(column.dataType)).alias(column.name))
    return rows.select(*columns)


def refusal(error: Exception) -> str | None:
    """Return why a table rejects records, by its types or constraints; None for other errors."""
    from pyspark.errors import AnalysisException

    if isinstance(error, AnalysisException):
        return " ".join(line.strip() for line in str(error).strip().splitlines()[:6])[:500]
    if java_class(error).endswith("iceberg.exceptions.ValidationException"):
        return java_message(error)[:500]
    if "NOT_NULL_ASSERT_VIOLATION" in str(error):
        return "a value is null, but its column is required"
    return None
