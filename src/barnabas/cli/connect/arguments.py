"""Parse configurations and offsets of connectors from the command line and from files."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from barnabas.cli.arguments.cluster_options import UsageError
from barnabas.cli.arguments.config_options import parse_settings
from barnabas.cli.arguments.standard_input import read_file

__all__ = ["parse_offsets", "read_config", "read_offsets_file"]

_SINK_OFFSET = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)-(?P<partition>\d+)=(?P<offset>\d+|none)")


def read_config(name: str | None, file: str | None, config: Sequence[str] | None) -> tuple[str, dict[str, str]]:
    """Return a connector's name and settings. The command line overrides the file. Raise UsageError."""
    of_file: dict[str, str] = {}
    given = parse_settings(config)
    named = None
    if file is not None:
        named, of_file = _of_file(file)
    settings = of_file | given
    names = {text for text in (name, named, settings.get("name")) if text}
    if len(names) > 1:
        raise UsageError(f"{' and '.join(sorted(names))}: a connector has only one name; write it once")
    if not names:
        raise UsageError("no connector given: name it, or use a file that contains its name")
    if not settings:
        is_file = name is not None and name.endswith((".json", ".properties"))
        meant = f". If {name} is a file, write --file {name}" if is_file else ""
        raise UsageError(f"no settings given: use --file, or --config key=value{meant}")
    (chosen,) = names
    settings.pop("name", None)
    return chosen, settings


def _of_file(path: str) -> tuple[str | None, dict[str, str]]:
    """Read a request as JSON (name and config), settings alone as JSON, or Kafka properties."""
    text = _read("--file", path)
    if not text.lstrip().startswith("{"):
        return None, _properties(path, text)
    document = _json("--file", path, text)
    named = None
    if isinstance(document.get("config"), dict):
        unknown = sorted(document.keys() - {"name", "config", "initial_state"})
        if unknown:
            raise UsageError(f"--file: {path}: keys other than name and config: {', '.join(unknown)}")
        if "initial_state" in document:
            raise UsageError(f"--file: {path}: use --initial-state instead of initial_state")
        named, document = document.get("name"), document["config"]
    wrong = [key for key, value in document.items() if not isinstance(value, str | int | float | bool)]
    if wrong:
        raise UsageError(f"--file: {path}: {', '.join(wrong)}: a setting must be a string, a number, true or false")
    return named, {key: _text(value) for key, value in document.items()}


def _properties(path: str, text: str) -> dict[str, str]:
    from barnabas.common.properties_file import MalformedProperties, parse_properties

    try:
        return dict(parse_properties(text).values)
    except MalformedProperties as error:
        raise UsageError(f"--file: {path}: {error}") from error


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value)


def parse_offsets(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Parse offsets of a sink: ``orders-0=1041``, or ``orders-0=none`` to delete it. Raise UsageError."""
    found = []
    for text in texts:
        match = _SINK_OFFSET.fullmatch(text)
        if match is None:
            raise UsageError(
                f"--offset {text}: write topic-partition=offset, for example orders-0=1041, or =none to delete it"
            )
        offset = None if match["offset"] == "none" else {"kafka_offset": int(match["offset"])}
        partition = {"kafka_topic": match["topic"], "kafka_partition": int(match["partition"])}
        found.append({"partition": partition, "offset": offset})
    return found


def read_offsets_file(path: str) -> list[dict[str, Any]]:
    """Read the output of ``offsets --output json``, or a list of such objects. Raise UsageError."""
    text = _read("--file", path)
    document = _json("--file", path, text) if text.lstrip().startswith("{") else _json_value("--file", path, text)
    offsets = document.get("offsets") if isinstance(document, dict) else document
    if not isinstance(offsets, list) or not offsets:
        raise UsageError(f'--file: {path}: the file must contain {{"offsets": [{{"partition": ..., "offset": ...}}]}}')
    for entry in offsets:
        if not isinstance(entry, dict) or entry.keys() != {"partition", "offset"}:
            raise UsageError(f"--file: {path}: {json.dumps(entry)}: an entry needs a partition and an offset")
    return offsets


def _read(option: str, path: str) -> str:
    try:
        return read_file(path)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{option}: can't read {path}: {getattr(error, 'strerror', None) or error}") from error


def _json(option: str, path: str, text: str) -> dict[str, Any]:
    document = _json_value(option, path, text)
    if not isinstance(document, dict):
        raise UsageError(f"{option}: {path}: the file must contain a JSON object")
    return document


def _json_value(option: str, path: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(f"{option}: {path} is not valid JSON: {error}") from error
