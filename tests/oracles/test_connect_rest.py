"""The REST API against recordings of real workers: every exchange, and the signatures of Kafka's own classes."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from starlette.datastructures import Headers

from barnabas.connect.errors import BadRequest
from barnabas.connect.rest.request_signature import ALGORITHM_HEADER, SIGNATURE_HEADER, RequestSignature
from tests.peers.connect_capture_differences import SPECIAL_GROUPS
from tests.peers.connect_captures import captures, replay
from tests.peers.rest_workers import RestWorkers

pytestmark = pytest.mark.oracle

_FOLDER = Path(__file__).parent
# The scripted herder, unlike a real worker, does not let connectors validate offsets.
_NOT_SCRIPTED = {
    "offsets-patch-badpartition",
    "offsets-patch-badoffset",
    "offsets-patch-sink-badkey",
    "offsets-patch-sink-badoff",
    "offsets-patch-sink-neg",
    "offsets-patch-sink-unknowntopic",
}


def _signatures(family: str) -> list[dict[str, Any]]:
    with gzip.open(_FOLDER / "data/connect/connect-public.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [fields for fields in map(json.loads, lines) if fields["family"] == family]


def test_signs_as_kafka_signs() -> None:
    rows = _signatures("request-signature")
    assert len(rows) > 50
    for row in rows:
        signed = RequestSignature.sign(row["algorithm"], bytes.fromhex(row["key"]), bytes.fromhex(row["body"]))
        assert signed.headers() == {row["signatureHeader"]: row["signature"], row["algorithmHeader"]: row["algorithm"]}


def test_reads_and_judges_signatures_as_kafka_does() -> None:
    rows = _signatures("request-signature-check")
    assert {row["result"] for row in rows} == {"present", "absent", "exception"}
    for row in rows:
        given = {SIGNATURE_HEADER: row["signature"], ALGORITHM_HEADER: row["algorithm"]}
        headers = Headers({name: value for name, value in given.items() if value is not None})
        if row["result"] == "exception":
            with pytest.raises(BadRequest) as caught:
                RequestSignature.from_headers(headers)
            assert str(caught.value) == row["message"]
            continue
        signature = RequestSignature.from_headers(headers)
        assert (signature is None) == (row["result"] == "absent")
        if signature is not None:
            assert signature.algorithm == row["keyAlgorithmSeen"]
            assert signature.is_valid(bytes.fromhex(row["key"]), bytes.fromhex(row["body"])) == row["valid"]


def test_signatures_sent_between_real_workers_are_valid() -> None:
    rows = json.loads((_FOLDER.parent / "vectors/connect/signatures.json").read_text(encoding="utf-8"))
    assert rows
    for row in rows:
        headers = Headers({SIGNATURE_HEADER: row["signature"], ALGORITHM_HEADER: row["algorithm"]})
        signature = RequestSignature.from_headers(headers)
        assert signature is not None
        assert signature.is_valid(base64.b64decode(row["key"]), bytes.fromhex(row["body_hex"]))


def test_every_special_group_belongs_to_a_capture() -> None:
    assert set(SPECIAL_GROUPS) <= {capture.name for capture in captures()}
    assert len(list(captures())) > 220


@pytest.mark.anyio
async def test_two_workers_answer_as_the_recorded_workers() -> None:
    workers = RestWorkers()
    results = await replay(workers.send, session_key=workers.cluster.session.key, patience_s=0)
    await workers.close()
    wrong = {
        result.capture.name: result.differences
        for result in results
        if bool(result.differences) != (result.expected is not None)
    }
    assert wrong.keys() == _NOT_SCRIPTED
    assert len(results) > 195
