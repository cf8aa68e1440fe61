"""Start the embedded Spark session that a pipeline runs on.

Spark logs to a file, so that the terminal shows only the output of the pipeline. The JVM is a child process and ends
when its standard input closes, so it ends with this process even after kill -9.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.spark.class_archive import archive_options
from barnabas.spark.errors import SparkUnavailable
from barnabas.spark.java_runtime import JavaRuntime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["spark_session"]

_ARCHIVE_OPTIONS = ("ArchiveClassesAtExit", "SharedArchiveFile")

_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log_file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""


@contextmanager
def spark_session(
    name: str,
    *,
    master: str,
    jars: Sequence[Path],
    java: JavaRuntime,
    work: Path,
    settings: Mapping[str, str],
    host: str | None = "127.0.0.1",
    end_timeout_s: float = 15,
) -> Iterator[SparkSession]:
    """Start a session with its scratch files and log under ``work``. Stop it and its JVM when the block ends.

    Spark listens on ``host``. With None Spark chooses an address of this machine, which executors elsewhere need. A JVM
    that has not ended after ``end_timeout_s`` is killed.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    _prepare_environment(java, work, host)
    log4j, log_file = work / "log4j2.properties", work / "spark.log"
    log4j.write_text(_LOG4J.format(log_file=log_file))
    logged = log_file.stat().st_size if log_file.exists() else 0
    conf = SparkConf().setMaster(master).setAppName(name)
    conf.setAll(list(settings.items()))
    conf.set("spark.jars", ",".join(str(jar) for jar in jars))
    java_options = settings.get("spark.driver.extraJavaOptions", "")
    if not any(option in java_options for option in _ARCHIVE_OPTIONS):
        java_options = f"{archive_options(java, os.environ)} {java_options}".strip()
    conf.set("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={log4j} {java_options}".strip())
    conf.set("spark.sql.warehouse.dir", str(work / "warehouse"))
    with (work / "spark-jvm.log").open("ab") as jvm_log:
        printed_before = jvm_log.tell()
        try:
            gateway = launch_gateway(conf, popen_kwargs={"stdout": jvm_log, "stderr": jvm_log})  # type: ignore[no-untyped-call]
        except Exception as error:
            printed = _lines(Path(jvm_log.name), printed_before)[-1:]
            reason = printed[0].strip() if printed else str(error).rstrip(".")
            raise SparkUnavailable(f"Spark did not start: {reason}. Its output is in {jvm_log.name}") from error
    process = gateway.proc
    try:
        on_interrupt = signal.getsignal(signal.SIGINT)
        try:
            context = SparkContext(conf=conf, gateway=gateway)
            session = SparkSession(context)
        except Exception as error:
            _forget_context()
            reason = _start_failure(error, log_file, logged)
            # Without the cause: reading its text would need its JVM.
            raise SparkUnavailable(f"Spark did not start on {master}: {reason}. Its log is {log_file}") from None
        except BaseException:  # Ctrl-C.
            _forget_context()
            raise
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, on_interrupt)  # SparkContext installs a handler that only cancels jobs.
        try:
            yield session
        finally:
            with suppress(Exception):  # The JVM may have ended. The block's own error says why.
                context.stop()
            context.stop()  # A failed stop leaves Python's part, which refuses a new session.
    finally:
        gateway.shutdown()
        SparkContext._gateway = None
        SparkContext._jvm = None
        process.stdin.close()
        try:
            process.wait(timeout=end_timeout_s)
        except Exception:
            process.kill()
            process.wait()


def _forget_context() -> None:
    """Forget a context whose JVM ended while it was created. Otherwise it would prevent another one."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is not None:
        with suppress(Exception):
            context.stop()
        with suppress(Exception):  # The first call failed at the JVM, after removing Python's reference to it.
            context.stop()
    SparkContext._active_spark_context = None


def _start_failure(error: Exception, log_file: Path, since: int) -> str:
    """Return Spark's last logged error, the best reason. A cluster that can't be used ends the JVM without a report."""
    errors = [line for line in _lines(log_file, since) if " ERROR " in line]
    if errors:
        return errors[-1].partition(" ERROR ")[2].strip().rstrip(".")
    try:
        return str(error).strip().partition("\n")[0] or type(error).__name__
    except Exception:
        return "its JVM ended"


def _lines(file: Path, since: int) -> list[str]:
    try:
        return file.read_bytes()[since:].decode(errors="replace").splitlines()
    except OSError:
        return []


def _prepare_environment(java: JavaRuntime, work: Path, host: str | None) -> None:
    import pyspark

    for name in ("SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "SPARK_REMOTE", "SPARK_API_MODE"):
        os.environ.pop(name, None)  # Settings of another Spark on this machine are not for this one.
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if host is not None:
        os.environ["SPARK_LOCAL_IP"] = host  # The machine's host name need not resolve.
    os.environ["SPARK_LOCAL_DIRS"] = str(work / "scratch")
