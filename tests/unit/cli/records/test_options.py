"""Mistakes on the command lines of produce and consume are named before anything is sent."""

from __future__ import annotations

import builtins
import gc
from typing import Any

import pytest

from barnabas.cli.main import main

NOWHERE = ("--bootstrap-server", "127.0.0.1:1")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("produce", "no topic given: name it as an argument or with --topic"),
        ("produce a/b", "--topic a/b:"),
        ("produce orders --acks 2", "--acks"),
        ("produce orders --key k --parse-key", "--key and --parse-key can't be used together"),
        ("produce orders --input json --parse-key", "--parse-key can't be used with --input json"),
        ("produce orders --keep-partitions", "--keep-partitions needs --input json"),
        ("produce orders --whole --parse-key", "--whole can't be used with --parse-key"),
        ("produce orders --header abc", "--header abc: write a header as name=value"),
        ("produce orders --line-separator=", "--line-separator"),
        ("produce orders --timestamp tomorrow", "--timestamp tomorrow: write a time ago"),
        ("produce orders --value-schema 5", "--value-schema needs --schema-registry"),
        ("produce orders --schema-registry here:1 --key-message M", "--schema-registry here:1: write a URL"),
        ("produce orders --schema-registry http://h --key-message M", "--key-message needs --key-schema"),
        ("produce orders --command-property linger.sm=5", "did you mean linger.ms?"),
        ("produce orders --command-property acks=1 --acks 0", "another option sets it to 0"),
        ("produce orders --transaction-size 5", "need --transactional-id"),
        ("produce orders --transaction-duration-ms 5", "need --transactional-id"),
        ("produce orders --transactional-id x --transaction-size 0", "--transaction-size"),
        ("produce orders --transactional-id x --acks 1", "transactional.id needs acks=all"),
        ("produce orders --transactional-id x --command-property transactional.id=y", "another option sets it to x"),
        ("consume", "no topic given"),
        ("consume orders --from-beginning --offset 5", "--from-beginning and --offset can't be used together"),
        ("consume orders --offset 5", "--offset 5 needs --partition"),
        ("consume orders --partition x", "write partitions as numbers"),
        ("consume orders --group g --partition 0", "--partition can't be used with --group"),
        ("consume orders --group g --offset 5", "--offset can't be used with --group"),
        ("consume orders --no-commit", "--no-commit needs --group"),
        ("consume orders --until soon", "--until soon: write a time ago"),
        ("consume orders --max-messages 0", "--max-messages"),
        ("consume orders --schema-keys", "--schema-keys needs --schema-registry"),
        ("consume orders --bootstrap-controller localhost:1", "controllers don't serve records"),
        ("consume orders --command-property isolation.level=x", "isolation.level"),
        ("consume orders --command-property group.id=g", "--command-property group.id=g: use --group"),
        ("consume orders --command-property auto.offset.reset=earliest", "use --from-beginning or --from"),
        ("topics tail", "no topic given"),
        ("topics tail orders --lines 0", "--lines"),
    ],
)
def test_a_mistake_is_named_and_nothing_is_sent(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = () if "--bootstrap" in line or line in ("produce", "consume") else NOWHERE
    assert main([*line.split(), *options, *(["-q"] if line in ("produce", "consume") else [])]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


@pytest.mark.parametrize("line", ["produce orders", "consume orders -e", "topics tail orders -e"])
def test_an_unreachable_cluster_is_a_failure_with_advice(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    threshold = gc.get_threshold()
    assert main([*line.split(), *NOWHERE]) == 1
    assert gc.get_threshold() == threshold
    error = capsys.readouterr().err
    assert "nothing listens at 127.0.0.1:1" in error
    assert "next: check that a node runs at this address" in error


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    whole = builtins.__import__

    def without_httpx(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "barnabas.clients.schema_registry.registry_client":
            raise ModuleNotFoundError("No module named 'httpx'", name="httpx")
        return whole(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without_httpx)
    assert main(["consume", "orders", "--schema-registry", "http://localhost:1", *NOWHERE]) == 2
    assert "--schema-registry needs pip install 'barnabas[schemas]' (httpx)" in capsys.readouterr().err
