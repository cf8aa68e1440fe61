"""Replays the REST exchanges recorded from two real Kafka Connect 4.3.1 workers, in order, against other workers.

    python -m tests.peers.connect_captures http://127.0.0.1:8083 http://127.0.0.1:8084 --bootstrap 127.0.0.1:9092

The first URL is the leader's; the topics t1 to t5 must exist, and in.txt in the folder that ``--data`` names. The
comparison covers the status, the target of ``Location``, whether the body is JSON, and its shape: the names and types
of fields, not their values; of maps that users fill (configurations, loggers) the types of their values. Requests for
results that appear later (states, tasks) are repeated for a limited time.

A signature of the recorded group is replaced by one of the present session key, so that valid ones stay valid and wrong
ones wrong. ``connect_capture_differences`` lists the differences with reasons, and the recordings that need a special
group.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import gzip
import json
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx

from barnabas.connect.mac_algorithms import mac
from tests.peers.connect_capture_differences import DIFFERENCES, SPECIAL_GROUPS

__all__ = ["Capture", "Replayed", "captures", "replay"]

_FILE = Path(__file__).parents[1] / "vectors/connect/rest_captures.jsonl.gz"
_SIGNATURE = "X-Connect-Authorization"
# The beginnings of signatures that were valid in the recorded group: the algorithm, and whether the body is empty.
_VALID = {"CcNVU03p": ("HmacSHA256", False), "LZ3I1V3P": ("HmacSHA256", True), "6Ov7/XH+": ("HmacSHA512", False)}
_PATIENCE_S = 20.0
_PAUSE_S = 0.2
# Fields whose value varies between several forms.
_OPTIONAL = ("trace", "version")
# Maps whose keys users choose: the shapes of their values are compared.
_FREE_FIELDS = ("config", "partition", "offset")


@dataclass(frozen=True, slots=True)
class Capture:
    number: int
    name: str
    worker: str
    method: str
    path: str
    headers: Mapping[str, str]
    body: str | None
    status: int
    location: str | None
    content_type: str | None
    is_json: bool
    allow: frozenset[str]
    content: Any
    note: str = ""

    @property
    def is_free_map(self) -> bool:
        """Return whether users choose the keys of the answer itself."""
        parts = urlsplit(self.path)
        ends = ("/config", "/topics", "/loggers", "/connectors")
        return self.method == "GET" and self.status == 200 and parts.path.rstrip("/").endswith(ends)


@dataclass(frozen=True, slots=True)
class Replayed:
    """``differences`` in words; empty if the answer equals the recording."""

    capture: Capture
    differences: tuple[str, ...]

    @property
    def expected(self) -> str | None:
        """The reason for an allowed difference."""
        return DIFFERENCES.get(self.capture.name)


Send = Callable[[str, str, str, Mapping[str, str], bytes | None], Awaitable[httpx.Response]]
"""Its arguments are the worker (A or B), method, path, headers and body."""


def captures() -> Iterator[Capture]:
    with gzip.open(_FILE, "rt", encoding="utf-8") as lines:
        for line in lines:
            fields = json.loads(line)
            headers = fields["answer_headers"]
            yield Capture(
                number=fields["number"],
                name=fields["name"],
                worker=fields["worker"],
                method=fields["method"],
                path=fields["path"],
                headers=fields["headers"],
                body=fields["body"],
                status=fields["status"],
                location=headers.get("Location"),
                content_type=headers.get("Content-Type"),
                is_json="json" in fields,
                allow=frozenset(filter(None, headers.get("Allow", "").split(","))),
                content=fields.get("json"),
                note=fields.get("note", ""),
            )


async def replay(
    send: Send, *, session_key: bytes | None, data: str | None = None, patience_s: float = _PATIENCE_S
) -> list[Replayed]:
    """Replay all captures that need no special group, in order. Without a session key, captures with a signature are
    skipped."""
    results = []
    for capture in captures():
        if capture.name in SPECIAL_GROUPS or (session_key is None and _SIGNATURE in capture.headers):
            continue
        results.append(Replayed(capture, await _replay_one(send, capture, session_key, data, patience_s)))
    return results


async def _replay_one(
    send: Send, capture: Capture, session_key: bytes | None, data: str | None, patience_s: float
) -> tuple[str, ...]:
    headers = _signed_anew(capture, session_key)
    text = capture.body
    if text is not None and data is not None and _SIGNATURE not in capture.headers:
        text = text.replace("/data/", data.rstrip("/") + "/")
    loop = asyncio.get_running_loop()
    deadline = loop.time() + (patience_s if capture.method == "GET" and capture.name not in DIFFERENCES else 0)
    while True:
        answer = await send(
            capture.worker, capture.method, capture.path, headers, None if text is None else text.encode()
        )
        found = tuple(_differences(capture, answer))
        if not found or loop.time() >= deadline:
            return found
        await asyncio.sleep(_PAUSE_S)


def _signed_anew(capture: Capture, session_key: bytes | None) -> dict[str, str]:
    headers = dict(capture.headers)
    recorded = headers.get(_SIGNATURE, "")
    known = _VALID.get(recorded[:8])
    if session_key is not None and known is not None:
        algorithm, is_empty = known
        # The signed body lacks the blank that one recording adds.
        body = b"" if is_empty else (capture.body or "").rstrip().encode()
        signature = base64.b64encode(mac(algorithm).sign(session_key, body)).decode()
        headers[_SIGNATURE] = signature if recorded.endswith("=") else signature.rstrip("=")
    return headers


def _differences(capture: Capture, answer: httpx.Response) -> Iterator[str]:
    if answer.status_code != capture.status:
        yield f"status {answer.status_code} instead of {capture.status}: {answer.text[:200]}"
        return
    location = answer.headers.get("location")
    if _path(location) != _path(capture.location):
        yield f"Location {location} instead of {capture.location}"
    allow = frozenset(filter(None, answer.headers.get("allow", "").replace(" ", "").split(",")))
    if capture.allow and allow != capture.allow:
        yield f"Allow {sorted(allow)} instead of {sorted(capture.allow)}"
    if _is_json(answer.headers.get("content-type")) != _is_json(capture.content_type):
        yield f"Content-Type {answer.headers.get('content-type')} instead of {capture.content_type}"
    content = _json(answer)
    if capture.method == "HEAD" or not capture.is_json:
        if content is not None:
            yield "a body where there is none"
        return
    if content is None:
        yield f"no JSON but: {answer.text[:200]}"
        return
    yield from _shape_differences(capture, content)


def _shape_differences(capture: Capture, content: Any) -> Iterator[str]:
    recorded, found = _shape(capture.content, capture.is_free_map), _shape(content, capture.is_free_map)
    if isinstance(capture.content, dict) and "error_code" in capture.content:
        if content.get("error_code") != capture.content["error_code"]:
            yield f"error_code {content.get('error_code')} instead of {capture.content['error_code']}"
    if not _fits(found, recorded):
        yield f"shape {found} instead of {recorded}"


def _shape(value: Any, is_free: bool = False) -> Any:
    if isinstance(value, dict):
        shapes = {key: _shape(member, key in _FREE_FIELDS) for key, member in value.items() if key not in _OPTIONAL}
        kinds = {repr(shape): shape for shape in shapes.values()}
        return {"*": [kinds[kind] for kind in sorted(kinds)]} if is_free else shapes
    if isinstance(value, list):
        return sorted({repr(_shape(item)) for item in value})
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "text or null"


def _fits(found: Any, recorded: Any) -> bool:
    """Return whether the shapes agree. An empty list or map matches any."""
    if isinstance(recorded, dict) and isinstance(found, dict):
        if "*" in recorded or "*" in found:
            of_found, of_recorded = found.get("*", []), recorded.get("*", [])
            return (
                not of_found
                or not of_recorded
                or any(_fits(shape, other) for shape in of_found for other in of_recorded)
            )
        return recorded.keys() == found.keys() and all(_fits(found[key], recorded[key]) for key in recorded)
    if isinstance(recorded, list) and isinstance(found, list):
        # Elements of a list or map may have several kinds: a definition may be null or not.
        return not recorded or not found or bool(set(recorded) & set(found))
    return bool(found == recorded)


def _path(location: str | None) -> str | None:
    return None if location is None else unquote(urlsplit(location).path)


def _is_json(content_type: str | None) -> bool | None:
    """Return None without a Content-Type."""
    return None if content_type is None else content_type.partition(";")[0].strip() == "application/json"


def _json(answer: httpx.Response) -> Any:
    try:
        return json.loads(answer.content) if answer.content else None
    except ValueError:
        return None


def session_key_of(bootstrap: str, config_topic: str) -> bytes:
    """Return the present session key of a group, as its workers read it."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=5000)
    try:
        partition = TopicPartition(config_topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        found = [json.loads(record.value) for record in consumer if record.key == b"session-key" and record.value]
    finally:
        consumer.close()
    return base64.b64decode(found[-1]["key"])


def report(results: Sequence[Replayed], print_line: Callable[[str], None]) -> int:
    """Return the number of wrong results: those that differ without a reason, or have a reason and don't differ."""
    wrong = 0
    for result in results:
        if result.differences and result.expected is None:
            wrong += 1
            print_line(f"{result.capture.number:03} {result.capture.name}: {'; '.join(result.differences)}")
        elif not result.differences and result.expected is not None:
            wrong += 1
            print_line(f"{result.capture.number:03} {result.capture.name}: no longer differs ({result.expected})")
    print_line(f"{len(results)} replayed, {wrong} not as they should be")
    return wrong


def main() -> int:
    arguments = argparse.ArgumentParser(description="Replay the REST captures against two workers of one group.")
    arguments.add_argument("leader", help="URL of worker A, which must be the leader")
    arguments.add_argument("follower", help="URL of worker B")
    arguments.add_argument("--session-key", help="the group's present key in base64")
    arguments.add_argument("--bootstrap", help="the group's Kafka, to read the present key from --config-topic")
    arguments.add_argument("--config-topic", default="connect-configs")
    arguments.add_argument("--data", help="the folder that replaces /data in connectors' configurations")
    arguments.add_argument("--user", help="name:password for workers that require a login")
    given = arguments.parse_args()
    return asyncio.run(_replay_over_http(given))


async def _replay_over_http(given: argparse.Namespace) -> int:
    urls = {"A": given.leader.rstrip("/"), "B": given.follower.rstrip("/")}
    auth = tuple(given.user.split(":", 1)) if given.user else None
    key = base64.b64decode(given.session_key) if given.session_key else None
    if given.bootstrap:
        key = await asyncio.to_thread(session_key_of, given.bootstrap, given.config_topic)
    async with httpx.AsyncClient(timeout=120, trust_env=False, auth=auth) as client:

        async def send(
            worker: str, method: str, path: str, headers: Mapping[str, str], body: bytes | None
        ) -> httpx.Response:
            return await client.request(method, urls[worker] + path, headers=dict(headers), content=body)

        results = await replay(send, session_key=key, data=given.data)
    return 1 if report(results, print) else 0


if __name__ == "__main__":
    sys.exit(main())
