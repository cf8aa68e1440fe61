"""Read the lines of a part of a file with Spark itself, without copying them.

Spark's text reader takes whole files and splits them into such parts, by Hadoop's rule: a part that begins in the
middle of a file skips to the next line, and reads each line that begins no later than the part ends.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.connect_spark.sessions.scala_values import ScalaValues

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["lines_in_range"]

_BYTE_ORDER_MARK = "\ufeff".encode()


def lines_in_range(spark: SparkSession, path: Path, start: int, end: int) -> DataFrame | None:
    """Return the whole lines that begin from ``start`` on and before ``end``, in one partition, in order, as ``value``.

    ``end`` is the beginning of a line, or the end of the file.

    Bytes that are not UTF-8 stay unchanged. The file is opened later, and again for each evaluation. Return None where
    Spark would read something else: no line begins at ``start``, the file begins with a byte order mark (which Spark
    skips), or its name says that it is compressed. Only for a session whose JVM is ours and sees this file.
    """
    if not _begins_a_line(path, start):
        return None
    from pyspark.sql import DataFrame

    jvm: Any = spark.sparkContext._jvm
    gateway: Any = spark.sparkContext._gateway
    session = spark._jsparkSession
    hadoop = session.sessionState().newHadoopConf()
    place = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(path.absolute().as_uri()))
    if jvm.org.apache.hadoop.io.compress.CompressionCodecFactory(hadoop).getCodec(place) is not None:
        return None
    sources, scala = jvm.org.apache.spark.sql.execution.datasources, ScalaValues(jvm)
    types = jvm.org.apache.spark.sql.types
    nothing, rows = types.StructType(), types.StructType().add("value", "string")
    nil, none = scala.seq([]), scala.map({})
    read = sources.text.TextFileFormat().buildReader(session, rows, nothing, rows, nil, none, hadoop)
    begin = max(start - 1, 0)
    part = sources.PartitionedFile(
        jvm.org.apache.spark.sql.catalyst.InternalRow.empty(),
        jvm.org.apache.spark.paths.SparkPath.fromPath(place),
        begin,
        end - 1 - begin,
        gateway.new_array(jvm.java.lang.String, 0),
        0,
        end,
        none,
    )
    parts = gateway.new_array(sources.PartitionedFile, 1)
    parts[0] = part
    partitions = scala.seq([sources.FilePartition(0, parts)])
    options = jvm.org.apache.spark.sql.catalyst.FileSourceOptions(none)
    found = sources.FileScanRDD(session, read, partitions, rows, nil, none, options)
    return DataFrame(session.internalCreateDataFrame(found, rows, False), spark)


def _begins_a_line(path: Path, start: int) -> bool:
    """Return whether a line begins there, for Hadoop's reader, which recognizes the first line by its offset 0."""
    with path.open("rb") as file:
        if start == 0:
            return file.read(len(_BYTE_ORDER_MARK)) != _BYTE_ORDER_MARK
        if start == 1:
            return False
        file.seek(start - 1)
        before, here = file.read(1), file.read(1)
    return before == b"\n" or (before == b"\r" and here != b"\n")
