"""Separate Spark servers: a standalone cluster of one worker, and a Spark Connect server, from PySpark's own jars."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.peers.node_process import NodeProcess

__all__ = ["SparkConnectServer", "SparkMaster", "SparkWorker", "running_cluster"]

_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


class _SparkProcess(NodeProcess):
    """``port`` is the port that it listens on."""

    main_class: str
    memory = "256m"
    says_ready: str

    def arguments(self) -> list[str]:
        raise NotImplementedError

    def command(self) -> list[str]:
        import pyspark

        from barnabas.spark.java_runtime import find_java

        home = Path(pyspark.__file__).parent
        java = find_java(os.environ).home / "bin" / "java"
        log4j = self.folder / "log4j2.properties"
        log4j.write_text(
            "rootLogger.level = info\nrootLogger.appenderRef.out.ref = out\nappender.out.type = Console\n"
            "appender.out.name = out\nappender.out.layout.type = PatternLayout\n"
            "appender.out.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex\n"
        )
        options = [*_JVM, f"-Xmx{self.memory}", f"-Dlog4j2.configurationFile={log4j}", *_module_options()]
        environment = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(self.folder)}
        environment["PYSPARK_PYTHON"] = sys.executable
        environment["SPARK_SCALA_VERSION"] = "2.13"  # Spark's scripts set it; without it no executor starts.
        return [
            "env",
            *(f"{name}={value}" for name, value in environment.items()),
            *(str(java), *options, "-cp", self.class_path(home), self.main_class, *self.arguments()),
        ]

    def class_path(self, home: Path) -> str:
        return f"{home / 'jars'}/*"

    def is_ready(self, printed: str) -> bool:
        return self.says_ready in printed


class SparkMaster(_SparkProcess):
    main_class = "org.apache.spark.deploy.master.Master"
    says_ready = "I have been elected leader"

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def arguments(self) -> list[str]:
        return ["--host", "127.0.0.1", "--port", str(self.port), "--webui-port", str(self.controller_port)]


class SparkWorker(_SparkProcess):
    """Executors receive the rest of one core and 1 GB."""

    main_class = "org.apache.spark.deploy.worker.Worker"
    says_ready = "Successfully registered with master"

    def __init__(self, folder: Path, master: SparkMaster) -> None:
        super().__init__(folder)
        self._master = master

    def arguments(self) -> list[str]:
        own = ["--host", "127.0.0.1", "--port", str(self.port), "--webui-port", str(self.controller_port)]
        return [*own, "--cores", "1", "--memory", "1g", "--work-dir", str(self.folder / "work"), self._master.url]


class SparkConnectServer(_SparkProcess):
    """A Spark Connect server with the jars that our worker would add, and with Python for Python functions."""

    main_class = "org.apache.spark.deploy.SparkSubmit"
    memory = "1g"
    says_ready = "Spark Connect server started at"

    def __init__(self, folder: Path, jars: Sequence[Path]) -> None:
        super().__init__(folder)
        self._jars = jars

    @property
    def url(self) -> str:
        return f"sc://127.0.0.1:{self.port}"

    def arguments(self) -> list[str]:
        conf = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.ui.enabled": "false",
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
            "spark.jars": ",".join(str(jar) for jar in self._jars),
        }
        options = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
        service = "org.apache.spark.sql.connect.service.SparkConnectServer"
        return ["--master", "local[1]", *options, "--class", service, "spark-internal"]


@contextmanager
def running_cluster(folder: Path) -> Iterator[SparkMaster]:
    master = SparkMaster(folder / "master")
    worker = SparkWorker(folder / "worker", master)
    try:
        master.start(timeout_s=120)
        worker.start(timeout_s=120)
        yield master
    finally:
        worker.kill()
        master.kill()


def _module_options() -> list[str]:
    """Return the JVM options with which Spark's own scripts open packages."""
    opened: tuple[str, ...] = (
        "java.lang",
        "java.lang.invoke",
        "java.lang.reflect",
        "java.io",
        "java.net",
        "java.nio",
        "java.util",
    )
    opened += ("java.util.concurrent", "java.util.concurrent.atomic", "sun.nio.ch", "sun.nio.cs", "sun.util.calendar")
    opened += ("jdk.internal.ref", "sun.security.action")
    return [
        "--add-modules=jdk.incubator.vector",
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in opened),
    ]
