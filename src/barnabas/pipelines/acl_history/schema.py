"""Rows of the ACL history. Version 1: columns may be added, never renamed or removed."""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType, TimestampType

__all__ = ["ACL_HISTORY", "RECORD_TYPES", "RULE_COLUMNS"]

RECORD_TYPES: Final = (
    "AccessControlEntryRecord",
    "RemoveAccessControlEntryRecord",
    "BeginTransactionRecord",
    "EndTransactionRecord",
    "AbortTransactionRecord",
    "SnapshotHeaderRecord",
)
"""The records that decide the life of an ACL: read ``kraft-metadata`` with these ``types``, as structs."""

RULE_COLUMNS: Final = (
    "acl_id",
    "resource_type",
    "resource_name",
    "pattern_type",
    "principal",
    "host",
    "operation",
    "permission",
)
"""One rule. Enumerations have Kafka's names: ``TOPIC``, ``PREFIXED``, ``READ``, ``DENY``."""

ACL_HISTORY = StructType(
    [
        *(StructField(name, StringType()) for name in RULE_COLUMNS),
        StructField("began_offset", LongType()),
        StructField("began_time", TimestampType()),
        StructField("began_record_offset", LongType()),
        StructField("is_begin_known", BooleanType()),
        StructField("ended_offset", LongType()),
        StructField("ended_time", TimestampType()),
        StructField("ended_record_offset", LongType()),
        StructField("ended_by", StringType()),
    ]
)
"""A rule is in force at each offset from ``began_offset`` on and before ``ended_offset`` (null: it is still in force).

These are the offsets at which the records took effect: inside a metadata transaction that is its end. The records
themselves are at ``..._record_offset``. ``ended_by`` is ``removed`` or ``replaced``. Without ``is_begin_known`` the
rule is from the snapshot with which the log begins, so it is older than ``began_offset``.
"""
