"""Dynamic settings of a broker may replace an invalid value in its file.

A stored value is in force as soon as the node has read its metadata, so an invalid value in the file must not prevent
the start. Stored values are read from the node's own directory. Secrets are skipped, because they may be encrypted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.broker_config import broker_config_key, is_dynamic
from barnabas.common.errors import InvariantViolated
from barnabas.protocol.errors import DecodeError
from barnabas.server.settings.problem import Given
from barnabas.storage.errors import StorageError
from barnabas.storage.metadata_reader import read_metadata

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barnabas.common.settings.problem import SettingProblem

__all__ = ["in_place_of"]


def in_place_of(problems: Sequence[SettingProblem], given: Mapping[str, Given]) -> dict[str, Given]:
    """Return the dynamic settings of this broker, or of all brokers, for the invalid names. Empty if unknown."""
    names = {problem.name for problem in problems if problem.name in given and _may_be_stored(problem.name)}
    node_id = _first_of(given, "node.id", "broker.id")
    directory = _first_of(given, "metadata.log.dir", "log.dirs", "log.dir").split(",")[0].strip()
    if not names or not node_id.isdecimal() or not directory:
        return {}
    try:
        configs = read_metadata(directory).image.configs
    except (StorageError, DecodeError, InvariantViolated, OSError):
        return {}
    stored = {**configs.of_all_brokers(), **configs.of_broker(int(node_id))}
    return {name: Given(stored[name], "set dynamically") for name in sorted(names & stored.keys())}


def _may_be_stored(name: str) -> bool:
    key = broker_config_key(name)
    return key is not None and is_dynamic(name) and not key.sensitive


def _first_of(given: Mapping[str, Given], *names: str) -> str:
    return next((given[name].text.strip() for name in names if name in given), "")
