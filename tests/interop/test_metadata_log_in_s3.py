"""A copy of a metadata log, and audits, in an object store: read without Spark's JVM."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow.fs as arrow_fs
import pytest

from barnabas.pipelines.sources.access_audit import AccessAudit
from barnabas.pipelines.sources.errors import InvalidOption, SourceUnavailable
from barnabas.pipelines.sources.kraft_metadata import KraftMetadata
from barnabas.protocol.records.no_op_record import NoOpRecord
from tests.peers.s3_server import running_s3
from tests.unit.pipelines.sources.read_source import read_rows
from tests.unit.written_log import Log

pytestmark = pytest.mark.interop


def test_logs_and_audits_are_read_from_a_bucket(tmp_path: Path) -> None:
    log = Log(tmp_path)
    for _ in range(5):
        log.append(NoOpRecord(), NoOpRecord())
    audit = (
        "[2026-01-31 12:30:00,000] INFO Principal = User:a is Denied operation = READ from host = 10.0.0.7 "
        "on resource = Topic:LITERAL:t for request = Fetch with resourceRefCount = 1 based on rule DefaultDeny\n"
    )
    with running_s3() as server:
        server.create_bucket("logs")
        objects = {
            f"node-1/__cluster_metadata-0/{log.path.name}": log.path.read_bytes(),
            "audit/a.log.gz": gzip.compress(audit.encode() * 3),
        }
        options = {
            "fs.endpoint_override": server.url.removeprefix("http://"), "fs.scheme": "http", "fs.region": "us-east-1",
            "fs.access_key": "a-name", "fs.secret_key": "a-secret",
        }  # fmt: skip
        store = arrow_fs.S3FileSystem(**{name.removeprefix("fs."): text for name, text in options.items()})
        for key, data in objects.items():
            with store.open_output_stream(f"logs/{key}", compression=None) as stream:
                stream.write(data)
        named = {name.replace(".", "__", 1): text for name, text in options.items()}
        rows = read_rows(KraftMetadata, path="s3a://logs/node-1", **named)
        assert [row["offset"] for row in rows] == list(range(10))
        assert rows[0]["file"] == f"logs/node-1/__cluster_metadata-0/{log.path.name}"
        source = KraftMetadata({"path": "s3://logs/node-1", **options})
        assert source.streamReader(source.schema()).latestOffset() == {"offset": 10}
        decided = read_rows(AccessAudit, path="s3a://logs/audit", **named)
        assert [(row["principal"], row["problem"]) for row in decided] == [("User:a", None)] * 3
        with pytest.raises(SourceUnavailable, match="does not exist"):
            read_rows(KraftMetadata, path="s3a://logs/node-2", **named)
        with pytest.raises(InvalidOption, match=r"fs\.zone is not an option of S3"):
            read_rows(KraftMetadata, path="s3a://logs/node-1", fs__zone="x")
