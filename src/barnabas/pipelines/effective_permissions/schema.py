"""Rows of effective permissions. Version 1: columns may be added, never renamed or removed."""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import BooleanType, StringType, StructField, StructType

__all__ = ["ANY", "NO_ACL", "OTHERS", "PERMISSIONS", "RESOURCE_PERMISSIONS"]

OTHERS: Final = "*"
"""As a principal: every principal without rows of its own for the names. As a host: every host without rows."""

ANY: Final = "ANY"
NO_ACL: Final = "NO_ACL"
"""The pattern type of all names that no rule matches, whoever it is for."""

PERMISSIONS = StructType(
    [
        StructField("principal", StringType()),
        StructField("resource_type", StringType()),
        StructField("name", StringType()),
        StructField("pattern_type", StringType()),
        StructField("host", StringType()),
        StructField("operation", StringType()),
        StructField("allowed", BooleanType()),
        StructField("rule", StringType()),
        StructField("acl_id", StringType()),
    ]
)
"""A decision about all names of a pattern, except those of a narrower pattern with rows for the same principal.

Patterns are narrower in this order: ``LITERAL``, ``PREFIXED`` from the longest, ``LITERAL`` ``*`` (all names). An
operation without a row is denied, because no rule allows it. ``rule`` is ``MatchingAcl``, ``SuperUser`` (one row, for
everything) or ``DefaultAllow`` (one row, for names of ``NO_ACL``).
"""

RESOURCE_PERMISSIONS = StructType(
    [
        StructField("principal", StringType()),
        StructField("resource_type", StringType()),
        StructField("resource_name", StringType()),
        StructField("host", StringType()),
        StructField("operation", StringType()),
        StructField("allowed", BooleanType()),
        StructField("rule", StringType()),
        StructField("acl_id", StringType()),
    ]
)
"""A decision about one resource. A principal without a row for the resource has the access of ``*``."""
