from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.common.uuid import Uuid
from barnabas.protocol.record_batch_builder import RecordBatchBuilder
from barnabas.protocol.record_serde import encode_metadata_record
from barnabas.protocol.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.protocol.records.config_record import ConfigRecord
from barnabas.raft.ready import AppendedBatch
from barnabas.raft.voter_recovery import LostPromises
from barnabas.server.settings.node_config import NodeConfig, load_node_config
from barnabas.server.storage_tool.formatter import FormatError
from barnabas.server.storage_tool.repair import repair_storage
from barnabas.storage.log_directory import LogDirectory
from barnabas.storage.lost_promises_file import LostPromisesFile
from barnabas.storage.metadata_log import METADATA_LOG_DIRECTORY, MetadataLog
from tests.unit.storage.test_damaged_metadata_log import files, flip
from tests.unit.storage.test_metadata_log import LOG, control_batch

SECRET = ConfigRecord(resource_type=4, resource_name="", name="ssl.key.password", value="very secret")


def rule(number: int, permission: int) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=Uuid.from_int(1000 + number),
        resource_type=2,
        resource_name=f"topic-{number}",
        pattern_type=3,
        principal="User:alice",
        host="*",
        operation=3,
        permission_type=permission,
    )


def config(folder: Path) -> NodeConfig:
    properties = folder / "server.properties"
    properties.write_text(
        "process.roles=broker,controller\nnode.id=1\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093\n"
        "controller.listener.names=CONTROLLER\ncontroller.quorum.voters=1@localhost:9093\n"
        f"log.dirs={folder}/data\n"
    )
    return load_node_config(str(properties))


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Four batches after a control batch: ALLOW, ALLOW (damaged), DENY, a secret config."""
    (tmp_path / "data").mkdir()
    log = MetadataLog(str(tmp_path / "data"))
    log.append(control_batch(0, 1))
    records = [rule(1, 3), rule(2, 3), rule(3, 2), SECRET]
    position = log.size_bytes
    for offset, record in enumerate(records, 1):
        builder = RecordBatchBuilder(base_offset=offset, leader_epoch=1)
        builder.append(offset, 1000, None, encode_metadata_record(record, 0))
        data = builder.build()
        log.append(
            AppendedBatch(
                base_offset=offset, last_offset=offset, epoch=1, timestamp_ms=1000, data=data, is_control=False
            )
        )
        if offset == 1:
            position = log.size_bytes
    log.close()
    flip(tmp_path / "data" / METADATA_LOG_DIRECTORY / LOG, position + 80)
    return tmp_path


def run(folder: Path, *, accepts_loss: bool = False, answer: bool = False) -> tuple[bool, list[str]]:
    lines: list[str] = []
    done = repair_storage(config(folder), accepts_loss=accepts_loss, ask=lambda: answer, write_line=lines.append)
    return done, lines


def test_without_consent_the_loss_is_listed_record_by_record_and_nothing_changes(damaged: Path) -> None:
    before = files(damaged / "data")
    done, lines = run(damaged)
    assert not done
    assert files(damaged / "data") == before
    path = damaged / "data" / METADATA_LOG_DIRECTORY / LOG
    assert lines[0].startswith(f"{path}: at position ")
    assert lines[2].startswith("  2  cannot be read (")
    assert lines[3].startswith("  3  AccessControlEntryRecord ")
    assert '"resourceName":"topic-3"' in lines[3]
    assert '"permissionType":2' in lines[3]
    assert lines[4].startswith("  4  ConfigRecord ")
    assert "very secret" not in "\n".join(lines)
    assert "ssl.key.password" in lines[4]
    assert lines[-1].startswith("Nothing was changed.")


@pytest.mark.parametrize(("accepts_loss", "answer"), [(True, False), (False, True)])
def test_with_consent_the_log_is_truncated_and_the_removed_bytes_are_kept(
    damaged: Path, accepts_loss: bool, answer: bool
) -> None:
    path = damaged / "data" / METADATA_LOG_DIRECTORY / LOG
    size = path.stat().st_size
    done, lines = run(damaged, accepts_loss=accepts_loss, answer=answer)
    assert done
    assert path.stat().st_size + Path(f"{path}.damaged").stat().st_size == size
    assert any(line.startswith(f"{path}: truncated at position ") and "offset 2" in line for line in lines)
    assert MetadataLog(str(damaged / "data")).end_offset == 2


def test_an_intact_log_stays_unchanged(damaged: Path) -> None:
    run(damaged, accepts_loss=True)
    done, lines = run(damaged)
    assert done
    assert lines == [f"The metadata log in {damaged / 'data'} is sound. Nothing was changed."]


def test_a_voter_that_waits_for_lost_records_may_be_allowed_to_continue(damaged: Path) -> None:
    run(damaged, accepts_loss=True)
    promises = LostPromisesFile(str(damaged / "data" / METADATA_LOG_DIRECTORY))
    promises.add(LostPromises(99, reason="a disk"))
    assert not run(damaged)[0]
    assert promises.read() is not None
    assert run(damaged, accepts_loss=True)[0]
    assert promises.read() is None


def test_the_node_must_be_stopped(damaged: Path) -> None:
    directory = LogDirectory(str(damaged / "data"))
    directory.lock()
    with pytest.raises(FormatError, match="another process may be using"):
        run(damaged)
    directory.unlock()
