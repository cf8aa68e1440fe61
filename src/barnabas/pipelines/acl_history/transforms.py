"""Pure steps from records of the metadata log to the history of ACLs.

Replay follows the controller: a record with an existing id replaces the rule. Records of a metadata transaction take
effect at its end, in their order; those of an aborted or unfinished one never do (not yet).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from barnabas.common.acl import AclOperation, AclPermissionType
from barnabas.common.resource import PatternType, ResourceType
from barnabas.pipelines.acl_history.schema import ACL_HISTORY, RULE_COLUMNS

__all__ = ["acl_changes", "acl_history", "rules_at_offset", "rules_at_time"]

_CHANGE = ("acl_id", "is_put", "offset", "record_offset", "time", "is_known", *RULE_COLUMNS[1:])


def acl_changes(records: DataFrame) -> DataFrame:
    """Return each addition and removal of a rule that took effect, at the offset where it did.

    ``records`` are rows of ``kraft-metadata`` with ``recordFormat`` ``struct`` and the types of ``schema``, in any
    order. Of several snapshots the oldest counts, and what the log has before its end is ignored.
    """
    entry = F.col("record.AccessControlEntryRecord")
    removal = F.col("record.RemoveAccessControlEntryRecord")
    changes = _effective(records).where(entry.isNotNull() | removal.isNotNull())
    return changes.select(
        F.coalesce(entry["id"], removal["id"]).alias("acl_id"),
        entry.isNotNull().alias("is_put"),
        F.col("effective_offset").alias("offset"),
        F.col("record_offset"),
        F.col("effective_time").alias("time"),
        F.col("is_known"),
        _name_of(ResourceType, entry["resourceType"]).alias("resource_type"),
        entry["resourceName"].alias("resource_name"),
        _name_of(PatternType, entry["patternType"]).alias("pattern_type"),
        entry["principal"].alias("principal"),
        entry["host"].alias("host"),
        _name_of(AclOperation, entry["operation"]).alias("operation"),
        _name_of(AclPermissionType, entry["permissionType"]).alias("permission"),
    ).select(*_CHANGE)


def acl_history(records: DataFrame) -> DataFrame:
    """Return the life of each rule, as ``ACL_HISTORY``. A removal of an id that no rule has is ignored."""
    changes = acl_changes(records)
    life = Window.partitionBy("acl_id").orderBy("offset", "record_offset")
    following = {name: F.lead(name).over(life) for name in ("offset", "time", "record_offset", "is_put")}
    return (
        changes.select(*_CHANGE, *(column.alias(f"next_{name}") for name, column in following.items()))
        .where("is_put")
        .select(
            *RULE_COLUMNS,
            F.col("offset").alias("began_offset"),
            F.col("time").alias("began_time"),
            F.col("record_offset").alias("began_record_offset"),
            F.col("is_known").alias("is_begin_known"),
            F.col("next_offset").alias("ended_offset"),
            F.col("next_time").alias("ended_time"),
            F.col("next_record_offset").alias("ended_record_offset"),
            F.when(F.col("next_is_put"), "replaced").when(~F.col("next_is_put"), "removed").alias("ended_by"),
        )
        .select(ACL_HISTORY.fieldNames())
    )


def rules_at_offset(history: DataFrame, offset: int) -> DataFrame:
    """Return the rules in force after the record at ``offset``."""
    has_begun = F.col("began_offset") <= offset
    has_ended = F.col("ended_offset") <= offset
    return history.where(has_begun & (has_ended.isNull() | ~has_ended)).select(*RULE_COLUMNS)


def rules_at_time(history: DataFrame, time: Column) -> DataFrame:
    """Return the rules in force after everything that was written until ``time``.

    If clocks of controllers differ, a record's time may be before that of an earlier record. Nothing after the first
    record that is later than ``time`` counts.
    """
    later = history.select(
        F.explode(
            F.array(
                F.when(F.col("began_time") > time, F.col("began_offset")),
                F.when(F.col("ended_time") > time, F.col("ended_offset")),
            )
        ).alias("offset")
    ).agg(F.coalesce(F.min("offset"), F.lit(2**63 - 1)).alias("first_later"))
    has_begun = F.col("began_offset") < F.col("first_later")
    has_ended = F.coalesce(F.col("ended_offset") < F.col("first_later"), F.lit(False))
    return history.crossJoin(F.broadcast(later)).where(has_begun & ~has_ended).select(*RULE_COLUMNS)


def _effective(records: DataFrame) -> DataFrame:
    """Add to each record where and when it took effect; drop those that didn't."""
    in_log = records.where(F.col("snapshot_offset").isNull() & F.col("type").isNotNull())
    base = _snapshot(records)
    # A log without a snapshot has a base of one row with nulls.
    logged = in_log.crossJoin(F.broadcast(base)).where(F.col("offset") >= F.coalesce(F.col("base_offset"), F.lit(0)))
    transactions = F.broadcast(_transactions(logged))
    is_inside = (F.col("offset") > F.col("begins")) & (F.col("offset") < F.coalesce("ends", F.lit(2**63 - 1)))
    effective = (
        logged.join(transactions, is_inside, how="left")
        .where(F.col("begins").isNull() | F.coalesce("is_committed", F.lit(False)))
        .select(
            F.coalesce("ends", "offset").alias("effective_offset"),
            F.coalesce("ended_at", "timestamp").alias("effective_time"),
            F.col("offset").alias("record_offset"),
            F.lit(True).alias("is_known"),
            "record",
        )
    )
    in_snapshot = (
        records.where(F.col("snapshot_offset").isNotNull())
        .crossJoin(F.broadcast(base))
        .where(F.col("snapshot_offset") == F.col("base_offset"))
        .select(
            (F.col("base_offset") - 1).alias("effective_offset"),
            F.col("base_time").alias("effective_time"),
            F.lit(None).cast("long").alias("record_offset"),
            F.lit(False).alias("is_known"),
            "record",
        )
    )
    return effective.unionByName(in_snapshot)


def _snapshot(records: DataFrame) -> DataFrame:
    """Return one row: the end of the oldest snapshot, and the time of the last record in it."""
    header_ms = F.col("record.SnapshotHeaderRecord.lastContainedLogTimestamp")
    return records.where(F.col("snapshot_offset").isNotNull()).agg(
        F.min("snapshot_offset").alias("base_offset"),
        F.timestamp_millis(F.min_by(header_ms, F.when(header_ms.isNotNull(), F.col("snapshot_offset")))).alias(
            "base_time"
        ),
    )


def _transactions(logged: DataFrame) -> DataFrame:
    """Return each transaction of the log: its first and last offset, its end's time, and whether it took effect."""
    markers = ("BeginTransactionRecord", "EndTransactionRecord", "AbortTransactionRecord")
    in_order = Window.orderBy("offset")  # A log has one or two of them.
    return (
        logged.where(F.col("type").isin(*markers))
        .select(
            "type",
            F.col("offset").alias("begins"),
            F.lead("offset").over(in_order).alias("ends"),
            F.lead("timestamp").over(in_order).alias("ended_at"),
            (F.lead("type").over(in_order) == "EndTransactionRecord").alias("is_committed"),
        )
        .where(F.col("type") == "BeginTransactionRecord")
        .select("begins", "ends", "ended_at", "is_committed")
    )


def _name_of(known: Iterable[IntEnum], code: Column) -> Column:
    names: Mapping[int, str] = {int(member): member.name for member in known}
    pairs = [F.lit(part) for item in names.items() for part in item]
    text = F.create_map(*pairs)[code]
    return F.when(code.isNotNull(), F.coalesce(text, F.concat(F.lit("UNKNOWN("), code.cast("string"), F.lit(")"))))
