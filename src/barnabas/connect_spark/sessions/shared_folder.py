"""Check that Spark's executors and the worker share folders and modules, where they are not always on one machine.

A path that exists separately on each of them seems to work: Spark writes and reports success, but the worker finds no
files to commit, or a table names files that no reader finds. So the folder is tested once, when a task starts.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from barnabas.connect.plugins.api import TerminalError
from barnabas.connect_spark.sessions.session_kind import is_remote

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["place_of", "require_modules", "require_same_file", "require_shared", "require_shared_place"]


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


def require_shared_place(spark: SparkSession, place: str, setting: str) -> None:
    """Require a shared folder for a path that may not exist yet: its first folder that exists. URLs of other file
    systems are shared by nature. Raise TerminalError."""
    parts = urlsplit(place)
    if place_of(spark) is None or parts.scheme not in ("", "file"):
        return
    folder = Path(unquote(parts.path) if parts.scheme else place)
    while not folder.is_dir():
        folder = folder.parent
    require_shared(spark, folder, setting)


def require_same_file(spark: SparkSession, file: Path, size: int, setting: str) -> None:
    """Require that an executor sees a file of the worker, with its size in bytes. Raise TerminalError."""
    place = place_of(spark)
    if place is None:
        return
    try:
        found = spark.read.format("binaryFile").load(file.as_uri()).select("length").collect()
        sizes = [row["length"] for row in found]
        reason = f"it has {sum(sizes)} bytes there, and {size} here"
    except Exception as error:  # Of Spark: the file does not exist there, or may not be read.
        sizes, reason = [], (str(error).strip().splitlines() or [type(error).__name__])[0]
    if sizes != [size] and file.exists():
        raise TerminalError(
            f"{setting}: Spark runs on {place}, and does not see {file} as the worker does ({reason}). Set {setting} "
            "to a path on storage that both have mounted at the same path."
        )


def require_modules(spark: SparkSession, modules: Sequence[str], user: str) -> None:
    """Require Python modules where Spark's executors run the functions of ``user``. Raise TerminalError."""
    place = place_of(spark)
    if place is None:
        return
    wanted = list(modules)

    def imported(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for module in wanted:
            import_module(module)
        yield from batches

    try:
        spark.range(1).mapInArrow(imported, "id BIGINT").collect()
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if "Error: " in line]
        reason = lines[-1] if lines else type(error).__name__
        raise TerminalError(
            f"{user} runs Python functions in Spark's executors, and {place} can't import {', '.join(wanted)} "
            f"({reason}). Install barnabas with the same extras there, in the Python of its executors."
        ) from error
