"""Check that Spark's executors and the worker share a folder, where they are not always on one machine.

A path that exists separately on each of them seems to work: Spark writes and reports success, but the worker finds no
files to commit. So the folder is tested once, when a task starts.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from barnabas.connect.plugins.api import TerminalError
from barnabas.connect_spark.sessions.session_kind import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["place_of", "require_shared"]


def place_of(spark: SparkSession) -> str | None:
    """Return where a session works; None for this machine."""
    if is_remote(spark):
        return "a Spark Connect server"
    master = str(spark.sparkContext.master)
    return None if master.startswith("local") else master


def require_shared(spark: SparkSession, folder: Path, setting: str) -> None:
    """Require a shared folder, which the worker can write. Raise TerminalError."""
    place = place_of(spark)
    if place is None:
        return
    probe = folder / f"probe-{uuid4().hex}"
    try:
        spark.range(1).selectExpr("CAST(id AS STRING) AS value").coalesce(1).write.text(str(probe))
        if any(probe.glob("part-*")):
            return
        reason = "the worker does not see Spark's files in it"
    except OSError as error:
        reason = str(error.strerror)
    finally:
        shutil.rmtree(probe, ignore_errors=True)
    raise TerminalError(
        f"{setting}: Spark runs on {place}, and {folder} is not a folder that it shares with the worker ({reason}). "
        f"Set {setting} to a path on storage that both have mounted at the same path."
    )
