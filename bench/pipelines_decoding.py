"""Decoding a million records with a registry's converters, beside plain ``from_avro``.

Each way reads the same records from memory and writes them nowhere, with the settings of a worker. CPU time is that of
the JVM (for Protobuf also of its Python workers), so another load of the machine changes it little.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.connect_spark.converters.record_converter import RecordConverter
from barnabas.connect_spark.queries.record_path import strict
from barnabas.connect_spark.sessions.spark_settings import SparkSettings
from barnabas.connect_spark.sessions.worker_session import embedded_conf
from barnabas.spark.connector_jars import avro_jars, cache_directory, connector_jars
from barnabas.spark.java_runtime import find_java
from barnabas.spark.spark_session import spark_session
from bench.connect_sides import cpu_of_tree

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Cost", "measure_decoding"]

AVRO = {
    "type": "record", "name": "Order", "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "price", "type": "double"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "quantity", "type": "int"}, {"name": "customer", "type": "string"},
    ],
}  # fmt: skip
JSON = {
    "title": "Order", "type": "object", "required": ["id"],
    "properties": {
        "id": {"type": "integer"}, "note": {"type": ["null", "string"]}, "price": {"type": "number"},
        "at": {"type": "integer"}, "quantity": {"type": "integer"}, "customer": {"type": "string"},
    },
}  # fmt: skip
_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value")
_CLASSES = {
    "AVRO": "io.confluent.connect.avro.AvroConverter",
    "JSON": "io.confluent.connect.json.JsonSchemaConverter",
    "PROTOBUF": "io.confluent.connect.protobuf.ProtobufConverter",
}


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds for a million records: of CPU, and of the clock."""

    cpu_s: float
    wall_s: float


def measure_decoding(rounds: int, records: int) -> dict[str, Cost]:
    """Return the median cost of each way. The first round only warms up."""
    java = find_java(os.environ)
    cache = cache_directory(os.environ)
    jars = connector_jars(cache, java, print) + avro_jars(cache, java, print)
    settings = embedded_conf(SparkSettings.of({}, worker_id="bench"))
    with (
        tempfile.TemporaryDirectory() as folder,
        spark_session("bench", master="local[1]", jars=jars, java=java, work=Path(folder), settings=settings) as spark,
        _registry() as url,
    ):
        ways = _ways(spark, url, records)
        found: dict[str, list[Cost]] = {name: [] for name in ways}
        for number in range(rounds + 1):
            for name, way in ways.items():
                cost = _cost(spark, way, records)
                if number:
                    found[name].append(cost)
    return {
        name: Cost(
            *(statistics.median(values) for values in zip(*((cost.cpu_s, cost.wall_s) for cost in costs), strict=True))
        )
        for name, costs in found.items()
    }


def _ways(spark: SparkSession, url: str, records: int) -> dict[str, Callable[[], None]]:
    from pyspark.sql import functions as F
    from pyspark.sql.avro.functions import from_avro, to_avro

    order = F.struct(
        "id",
        F.concat(F.lit("note "), F.col("id").cast("string")).alias("note"),
        (F.col("id") / 7).alias("price"),
        F.timestamp_millis(F.col("id")).alias("at"),
        (F.col("id") % 1000).cast("int").alias("quantity"),
        F.lit("a customer").alias("customer"),
    )
    text = json.dumps(AVRO)
    rows = spark.range(records).coalesce(1)
    avro = _kept(rows, F.concat(F.lit(b"\0\0\0\0\1"), to_avro(order, text)))
    as_json = F.to_json(order.withField("at", F.unix_millis(order["at"])))
    in_json = _kept(rows, F.concat(F.lit(b"\0\0\0\0\2"), as_json.cast("binary")))
    converters = {kind: _converter(kind, url) for kind in _CLASSES}
    written = converters["PROTOBUF"]
    made = written.from_connect(
        [written.from_source(rows.select(F.lit("orders").alias("topic"), order.alias("value")))]
    )
    protobuf = _kept(made.select("value").withColumn("id", F.monotonically_increasing_id()), F.col("value"))
    payload = F.substring("value", 6, 2**31 - 1)
    return {
        "the records alone": lambda: _write(avro),
        "Avro: plain from_avro": lambda: _write(
            avro.select(*_COLUMNS[:-1], from_avro(payload, text, {"mode": "PERMISSIVE"}).alias("value"))
        ),
        "Avro: AvroConverter": lambda: _decode(converters["AVRO"], avro),
        "JSON: plain from_json": lambda: _write(
            in_json.select(*_COLUMNS[:-1], F.from_json(payload.cast("string"), _DDL).alias("value"))
        ),
        "JSON: JsonSchemaConverter": lambda: _decode(converters["JSON"], in_json),
        "Protobuf: ProtobufConverter": lambda: _decode(converters["PROTOBUF"], protobuf),
    }


_DDL = "id BIGINT, note STRING, price DOUBLE, at BIGINT, quantity BIGINT, customer STRING"


def _kept(rows: DataFrame, value: Any) -> DataFrame:
    from pyspark.sql import functions as F

    kept = rows.select(
        F.lit("orders").alias("topic"),
        F.lit(0).alias("partition"),
        F.col("id").alias("offset"),
        F.lit(0).cast("timestamp").alias("timestamp"),
        F.lit(None).cast("binary").alias("key"),
        value.alias("value"),
        F.lit(None).cast("array<struct<key: string, value: binary>>").alias("headers"),
    ).cache()
    kept.count()
    return kept


def _converter(kind: str, url: str) -> RecordConverter:
    config = {
        "key.converter": "ByteArrayConverter",
        "value.converter": _CLASSES[kind],
        "value.converter.schema.registry.url": url,
    }
    return RecordConverter.of(config, {})


def _decode(converter: RecordConverter, rows: DataFrame) -> None:
    _write(converter.to_frame([strict(batch) for batch in converter.to_connect(rows)], _COLUMNS))


def _write(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _cost(spark: SparkSession, way: Callable[[], None], records: int) -> Cost:
    process = spark.sparkContext._gateway.proc.pid
    cpu_s, began_s = cpu_of_tree(process), time.monotonic()
    way()
    scale = 1_000_000 / records
    return Cost((cpu_of_tree(process) - cpu_s) * scale, (time.monotonic() - began_s) * scale)


@contextmanager
def _registry() -> Iterator[str]:
    """Serve the schemas of the records, and what is registered."""
    schemas = [{"schema": json.dumps(AVRO)}, {"schema": json.dumps(JSON), "schemaType": "JSON"}]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(schemas[int(self.path.partition("?")[0].rpartition("/")[2]) - 1])

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            schemas.append(body)
            self._answer({"id": len(schemas)})

        def _answer(self, body: object) -> None:
            data = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
