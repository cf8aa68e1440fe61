"""A REST catalog of Iceberg for tests: HTTP in Python, behind it Iceberg's own handlers of requests in Spark's JVM."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from barnabas.connect_spark.sessions.java_errors import java_class, java_message

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["running_rest_catalog"]

_SHADED = "org.apache.iceberg.shaded.com.fasterxml.jackson"
_STATUSES = {
    "NoSuchTableException": 404,
    "NoSuchNamespaceException": 404,
    "AlreadyExistsException": 409,
    "CommitFailedException": 409,
}


class _Catalog:
    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._jvm: Any = spark._jvm
        iceberg = self._jvm.org.apache.iceberg
        context: Any = spark._jsc
        self._catalog = iceberg.hadoop.HadoopCatalog(context.hadoopConfiguration(), str(folder))
        self._handlers = iceberg.rest.CatalogHandlers
        jackson = self._jvm
        for part in _SHADED.split("."):
            jackson = getattr(jackson, part)
        self._mapper = jackson.databind.ObjectMapper()
        self._mapper.setPropertyNamingStrategy(
            getattr(jackson.databind, "PropertyNamingStrategies$KebabCaseStrategy")()
        )
        visibility = getattr(jackson.annotation, "JsonAutoDetect$Visibility").ANY
        self._mapper.setVisibility(jackson.annotation.PropertyAccessor.FIELD, visibility)
        self._mapper.configure(jackson.databind.DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, False)
        iceberg.rest.RESTSerializers.registerAll(self._mapper)

    def answer(self, method: str, path: str, body: str) -> Any:
        """Return Iceberg's answer to a request, None if it has no body."""
        parts = [unquote(part) for part in path.strip("/").split("/")][1:]
        if parts == ["config"]:
            return {"defaults": {}, "overrides": {}}
        if parts == ["namespaces"]:
            return self._handlers.createNamespace(self._catalog, self._read(body, "CreateNamespaceRequest"))
        namespace = self._namespace(parts[1])
        if len(parts) == 2:
            return self._handlers.loadNamespace(self._catalog, namespace)
        if len(parts) == 3:
            return self._handlers.createTable(self._catalog, namespace, self._read(body, "CreateTableRequest"))
        if parts[-1] == "metrics":
            return None
        table = self._jvm.org.apache.iceberg.catalog.TableIdentifier.of(namespace, parts[3])
        if method == "GET":
            return self._handlers.loadTable(self._catalog, table)
        return self._handlers.updateTable(self._catalog, table, self._read(body, "UpdateTableRequest"))

    def text(self, answer: Any) -> str:
        return json.dumps(answer) if isinstance(answer, dict) else str(self._mapper.writeValueAsString(answer))

    def _read(self, body: str, name: str) -> Any:
        kind = self._jvm.java.lang.Class.forName(
            f"org.apache.iceberg.rest.requests.{name}",
            True,
            self._jvm.java.lang.Thread.currentThread().getContextClassLoader(),
        )
        return self._mapper.readValue(body, kind)

    def _namespace(self, text: str) -> Any:
        levels = text.split("\x1f")
        gateway: Any = self._spark.sparkContext._gateway
        array = gateway.new_array(self._jvm.java.lang.String, len(levels))
        for at, level in enumerate(levels):
            array[at] = level
        return self._jvm.org.apache.iceberg.catalog.Namespace.of(array)


@contextmanager
def running_rest_catalog(spark: SparkSession, folder: Path) -> Iterator[str]:
    """Run the server, and yield its URL. Tables are in the folder."""
    catalog = _Catalog(spark, folder)

    class Handler(BaseHTTPRequestHandler):
        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            try:
                answer = catalog.answer(self.command, urlsplit(self.path).path, body)
                status, text = (204, "") if answer is None else (200, catalog.text(answer))
            except Exception as error:
                name = java_class(error).rpartition(".")[2]
                status = _STATUSES.get(name, 500)
                text = json.dumps({"error": {"message": java_message(error), "type": name, "code": status}})
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = _handle

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
