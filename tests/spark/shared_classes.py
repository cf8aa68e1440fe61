"""An archive of the classes that Spark loads when it starts: with it, a JVM starts with half the processor time. It is
created once for each installation of Java and PySpark, and stored in the folder of Spark's connectors.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["shared_classes"]

_LIMIT_S = 180
_WRITES_THE_ARCHIVE = """
import sys
from pyspark.sql import SparkSession

session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
session.range(100).selectExpr("id", "cast(id as string) as name").write.parquet(sys.argv[1])
session.read.parquet(sys.argv[1]).groupBy("name").count().collect()
process = session.sparkContext._gateway.proc
session.stop()
process.stdin.close()
process.wait()
"""


def shared_classes(java_home: Path, cache: Path) -> str | None:
    """Return the JVM options that use the archive, which is created if necessary, or None if this Java cannot create
    one."""
    import pyspark

    java = (java_home / "bin" / "java").resolve()
    spark = Path(pyspark.__file__).parent
    made_for = f"{java} {java.stat().st_mtime_ns} {spark} {pyspark.__version__}"
    archive = cache / f"spark-classes-{hashlib.sha256(made_for.encode()).hexdigest()[:16]}.jsa"
    cache.mkdir(parents=True, exist_ok=True)
    with archive.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            _make(archive, java_home)
    return f"-XX:SharedArchiveFile={archive} -Xshare:auto -Xlog:cds=off" if archive.stat().st_size else None


def _make(archive: Path, java_home: Path) -> None:
    """An empty file means that the archive can't be created."""
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        made = Path(folder, "classes.jsa")
        options = f"-XX:ArchiveClassesAtExit={made} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        subprocess.run(
            [sys.executable, "-c", _WRITES_THE_ARCHIVE, f"{folder}/table"],
            env={
                **os.environ,
                "JAVA_HOME": str(java_home),
                "SPARK_SUBMIT_OPTS": options,
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LIMIT_S,
            check=False,
        )
        if not made.exists():
            made.touch()
        made.replace(archive)
