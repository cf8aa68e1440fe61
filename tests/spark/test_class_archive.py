"""Java writes the archive of Spark's classes, and a later session starts from it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.spark.class_archive import class_archive
from barnabas.spark.java_runtime import find_java

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900), pytest.mark.usefixtures("java")]

SESSION = """
import os
from pathlib import Path
from barnabas.spark.java_runtime import find_java
from barnabas.spark.spark_session import spark_session

options = "-Xshare:on -Xlog:class+load:file={log}"
settings = {{"spark.ui.enabled": "false", "spark.driver.extraJavaOptions": options}}
java, work = find_java(os.environ), Path("{work}")
with spark_session("a", master="local[1]", jars=[], java=java, work=work, settings=settings) as spark:
    assert spark.range(3).count() == 3
"""


def test_a_session_maps_the_classes_that_prepare_has_written(tmp_path: Path) -> None:
    environment = {**os.environ, "BARNABAS_CACHE": str(tmp_path / "cache")}
    environment.pop("SPARK_SUBMIT_OPTS", None)  # The tests' own archive.
    prepare = [sys.executable, "-m", "barnabas", "connect", "prepare"]
    answer = subprocess.run(prepare, env=environment, capture_output=True, text=True, check=False, timeout=700)
    assert answer.returncode == 0, answer.stderr
    archive = class_archive(find_java(environment), environment)
    assert str(archive) in answer.stdout

    log, work = tmp_path / "classes.log", tmp_path / "work"
    work.mkdir()
    code = SESSION.format(log=log, work=work)
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=120)
    of_spark = [line for line in log.read_text().splitlines() if " org.apache.spark." in line]
    mapped = [line for line in of_spark if "shared objects file (top)" in line]
    assert len(mapped) > len(of_spark) / 2 > 1000
