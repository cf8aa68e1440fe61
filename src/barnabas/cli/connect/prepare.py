"""``barnabas connect prepare``: what a worker's Spark needs, fetched and written before the worker starts."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

from barnabas.cli.arguments.cluster_options import AnswerOptions
from barnabas.cli.output.answer import Answer, Problem
from barnabas.cli.output.table import Sheet

__all__ = ["prepare"]


def prepare(*, options: AnswerOptions | None = None) -> int:
    """Fetch the jars of Spark's Kafka connector, and write a file from which Java maps Spark's classes.

    Afterwards workers of this user on this machine start Spark without the network and in about half of the time.
    Both are in the cache: BARNABAS_CACHE, else the user's cache folder. The file is for the present Java and the
    present Spark: after an update of either, it is ignored until this command runs again. It takes about half a minute.

    For example:

        barnabas connect prepare
        BARNABAS_CACHE=/var/cache/barnabas barnabas connect prepare
    """
    return (options or AnswerOptions()).give(_prepared())


def _prepared() -> Answer:
    if find_spec("pyspark") is None:
        raise ModuleNotFoundError("no pyspark", name="pyspark")  # The message names the extra to install.
    from barnabas.spark.class_archive_writer import write_class_archive
    from barnabas.spark.connector_jars import cache_directory, connector_jars
    from barnabas.spark.errors import SparkUnavailable
    from barnabas.spark.java_runtime import find_java

    try:
        java = find_java(os.environ)
        jars = connector_jars(cache_directory(os.environ), java, _tell)
        _tell("Spark starts once, and Java writes the classes that it has loaded ...")
        archive = write_class_archive(java, os.environ)
    except SparkUnavailable as error:
        return Answer({}, problems=[Problem(str(error))])
    except OSError as error:
        advice = "choose another folder with BARNABAS_CACHE"
        return Answer({}, problems=[Problem(f"the cache can't be written: {error}", advice=advice)])
    sheet = Sheet(columns=("file", "MB"))
    files = [*jars, archive]
    for file in files:
        sheet.add(str(file), f"{file.stat().st_size / 1e6:.1f}")
    return Answer({"jars": [str(jar) for jar in jars], "classes": str(archive)}, [sheet])


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
