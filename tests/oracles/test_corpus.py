"""The corpora themselves: all are read."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from tests.oracles import corpus

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize("name", corpus.CORPORA)
def test_the_corpora_have_lines_to_check(name: str) -> None:
    if "BARNABAS_ORACLES" not in os.environ:
        assert corpus.checked_lines(name)


def test_files_are_found_by_their_corpus_wherever_they_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARNABAS_ORACLES", str(tmp_path))
    for path in ("wire-hidden.jsonl.gz", "deep/er/wire-mutated-x-1.jsonl.gz", "wire.jsonl.gz", "wireless-1.jsonl.gz"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(tmp_path / path, "wt") as file:
            file.write(json.dumps({"api": path}) + "\n\n" + json.dumps({"api": "ShareFetch"}) + "\n")
    read = {name: [line.data["api"] for line in corpus.read_lines(name)] for name in ("wire", "wire-mutated")}
    assert read == {
        "wire": ["wire-hidden.jsonl.gz", "ShareFetch", "wire.jsonl.gz", "ShareFetch"],
        "wire-mutated": ["deep/er/wire-mutated-x-1.jsonl.gz", "ShareFetch"],
    }
