"""An invalid value in the file does not prevent a start while a dynamic value replaces it."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.common.settings.problem import InvalidSettings
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.protocol.records.config_record import ConfigRecord
from barnabas.protocol.records.feature_level_record import FeatureLevelRecord
from barnabas.raft.replica_key import OffsetAndEpoch
from barnabas.server.metadata_log.record_serde import MetadataRecordSerde
from barnabas.server.settings.node_config import load_node_config
from barnabas.storage.snapshot_file import RawSnapshotWriter, SnapshotWriter

BROKER = 4
BAD = "log.cleaner.backoff.ms=-5"


def stored(folder: Path, *configs: tuple[str, str, str]) -> Path:
    """Create a log directory with a snapshot of configs: broker id or empty, name, value."""
    directory = folder / "data" / "__cluster_metadata-0"
    directory.mkdir(parents=True)
    raw = RawSnapshotWriter(str(directory), OffsetAndEpoch(9, 1), token="x")
    writer = SnapshotWriter(raw, last_contained_log_timestamp=5, now_ms=9, serde=MetadataRecordSerde())
    records: list[FeatureLevelRecord | ConfigRecord] = [FeatureLevelRecord(name="metadata.version", feature_level=30)]
    records += [
        ConfigRecord(resource_type=BROKER, resource_name=who, name=name, value=value) for who, name, value in configs
    ]
    writer.append([ApiMessageAndVersion(record, 0) for record in records])
    writer.freeze()
    return folder / "data"


def settings_file(folder: Path, log_dir: Path, *lines: str) -> str:
    path = folder / "server.properties"
    own = [
        "process.roles=broker,controller",
        "node.id=1",
        f"log.dirs={log_dir}",
        "controller.listener.names=CONTROLLER",
    ]
    own += [
        "listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        "controller.quorum.voters=1@localhost:9093",
    ]
    path.write_text("\n".join([*own, *lines, ""]))
    return str(path)


@pytest.mark.parametrize("who", ["1", ""])
def test_a_dynamic_value_replaces_an_invalid_one(tmp_path: Path, who: str) -> None:
    data = stored(tmp_path, (who, "log.cleaner.backoff.ms", "250"), ("2", "log.cleaner.backoff.ms", "7"))
    config = load_node_config(settings_file(tmp_path, data, BAD))
    assert config.value("log.cleaner.backoff.ms") == 250
    (warning,) = [warning for warning in config.warnings if "log.cleaner.backoff.ms" in warning]
    assert "log.cleaner.backoff.ms=-5" in warning
    assert "The dynamic value is used instead" in warning


@pytest.mark.parametrize(
    "configs",
    [
        [],
        [("2", "log.cleaner.backoff.ms", "250")],
        [("1", "log.cleaner.io.buffer.size", "1000000")],
    ],
)
def test_an_invalid_value_without_a_replacement_is_refused(tmp_path: Path, configs: list[tuple[str, str, str]]) -> None:
    data = stored(tmp_path, *configs)
    with pytest.raises(InvalidSettings, match="backoff") as refused:
        load_node_config(settings_file(tmp_path, data, BAD))
    assert "line" in str(refused.value)


def test_an_invalid_stored_value_is_named(tmp_path: Path) -> None:
    data = stored(tmp_path, ("1", "log.cleaner.backoff.ms", "-6"))
    with pytest.raises(InvalidSettings, match=r"backoff.ms=-6 \(set dynamically\)"):
        load_node_config(settings_file(tmp_path, data, BAD))


def test_other_mistakes_are_still_refused(tmp_path: Path) -> None:
    data = stored(tmp_path, ("1", "log.cleaner.backoff.ms", "250"), ("1", "num.partitions", "3"))
    with pytest.raises(InvalidSettings, match=r"num.partitions=0"):
        load_node_config(settings_file(tmp_path, data, BAD, "num.partitions=0"))


def test_a_directory_without_metadata_changes_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match=r"backoff.ms=-5"):
        load_node_config(settings_file(tmp_path, tmp_path / "nothing", BAD))
