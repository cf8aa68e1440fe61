"""Make the data sources known to a Spark session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.pipelines.sources.access_audit import AccessAudit
from barnabas.pipelines.sources.kraft_metadata import KraftMetadata

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register_sources"]


def register_sources(spark: SparkSession) -> None:
    """Register ``kraft-metadata`` and ``kafka-access-audit``. Executors need barnabas installed."""
    spark.dataSource.register(KraftMetadata)
    spark.dataSource.register(AccessAudit)
