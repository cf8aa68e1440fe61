"""Lines of a part of a file, read by Spark itself where they are.

Spark's reader of text takes whole files, of which it makes such parts to share them out, with Hadoop's rule: who begins
in the middle passes over all up to the next line, and reads each line that begins no later than the part ends.
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
    """The whole lines that begin at ``start`` or behind it, before ``end``, as one partition and in their order, in the
    column ``value``. ``end`` is where a line begins, or the file ends.

    Bytes that are no UTF-8 are as they were. The file is opened later, and each time that rows are asked for. None
    where Spark would read something else: no line begins at ``start``, the file begins with a byte order mark, which it
    leaves out, or its name says that it is compressed. Only for a session whose JVM is ours and sees this file.
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
    """In the eyes of Hadoop's reader, which knows a first line by its being at 0."""
    with path.open("rb") as file:
        if start == 0:
            return file.read(len(_BYTE_ORDER_MARK)) != _BYTE_ORDER_MARK
        if start == 1:
            return False
        file.seek(start - 1)
        before, here = file.read(1), file.read(1)
    return before == b"\n" or (before == b"\r" and here != b"\n")
