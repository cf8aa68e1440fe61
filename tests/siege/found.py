"""The inputs for which the search (``tests.siege.search``) measured the most processor time a byte."""

from __future__ import annotations

import json
from typing import Any

from tests.siege.batches import produced
from tests.siege.entry import Entry
from tests.siege.frames import framed
from tests.siege.genome import BatchGenome, RequestGenome
from tests.siege.rest_genome import RestGenome
from tests.siege.search import FOUND_FILE, PARTS
from tests.siege.stage import MALLORY, REST

__all__ = ["FOUND"]


def _entry(number: int, given: dict[str, Any]) -> Entry:
    values = {name: value for name, value in given.items() if name != "kind"}
    name = f"found by the search, {number}: {given['kind']} {values}"
    if given["kind"] == "RestGenome":
        http = RestGenome(**values)
        return Entry(name, REST, lambda scene, rng: [http.request()])
    if given["kind"] == "BatchGenome":
        batch = BatchGenome(**values)
        payloads = produced(lambda now_ms: [batch.batch(now_ms)])
    else:
        request = RequestGenome(**values)
        payloads = lambda scene, rng: [framed(request.body())]  # noqa: E731
    return Entry(name, "SASL_PLAINTEXT", payloads, user=MALLORY)


def _entries() -> tuple[Entry, ...]:
    if not FOUND_FILE.exists():
        return ()
    document = json.loads(FOUND_FILE.read_text())
    given = [entry for part in PARTS if part in document for entry in document[part]["entries"]]
    return tuple(_entry(number, values) for number, values in enumerate(given, 1))


FOUND = _entries()
