"""ACL history and effective permissions, against the replay of the log and against the authorizer itself."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from barnabas.access.acl_text import parse_principal
from barnabas.common.acl import AclBinding, AclOperation, AclPermissionType
from barnabas.common.resource import PatternType, ResourceType
from barnabas.common.uuid import Uuid
from barnabas.pipelines.acl_history.job import HistoryTable, follow_history, write_history
from barnabas.pipelines.acl_history.schema import ACL_HISTORY, RECORD_TYPES, RULE_COLUMNS
from barnabas.pipelines.acl_history.transforms import acl_history, rules_at_offset, rules_at_time
from barnabas.pipelines.effective_permissions.schema import PERMISSIONS, RESOURCE_PERMISSIONS
from barnabas.pipelines.effective_permissions.transforms import effective_permissions, permissions_of_resources
from barnabas.pipelines.sources.kraft_metadata import KraftMetadata
from barnabas.pipelines.tables.replaced_table import ReplacedTable
from barnabas.protocol.record_batch import iter_batches
from barnabas.protocol.records.abort_transaction_record import AbortTransactionRecord
from barnabas.protocol.records.access_control_entry_record import AccessControlEntryRecord
from barnabas.protocol.records.begin_transaction_record import BeginTransactionRecord
from barnabas.protocol.records.end_transaction_record import EndTransactionRecord
from barnabas.protocol.records.no_op_record import NoOpRecord
from barnabas.protocol.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from barnabas.security.authorizer.authorized_operations import supported_operations
from barnabas.security.authorizer.standard_authorizer import StandardAuthorizer
from barnabas.storage.metadata_reader import Moment, read_metadata
from tests.unit.pipelines.sources.read_source import read_table
from tests.unit.written_log import Log

pytestmark = pytest.mark.spark

RULES = "cluster int, acl_id string, resource_type string, resource_name string, pattern_type string, " + (
    "principal string, host string, operation string, permission string"
)


def records(spark: SparkSession, path: Path | str) -> DataFrame:
    """Read the log in this process: only one test needs Spark's workers for that."""
    table = read_table(KraftMetadata, path=path, recordFormat="struct", types=",".join(RECORD_TYPES))
    return spark.createDataFrame(table)


# ---- history ------------------------------------------------------------------------------------


def entry(number: int, generator: random.Random) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=Uuid.from_int(1000 + number), resource_type=2, resource_name=f"t{generator.randrange(5)}", pattern_type=3,
        principal="User:alice", host="*", operation=generator.choice((3, 4, 99)), permission_type=3,
    )  # fmt: skip


def random_batches(generator: random.Random, count: int) -> Iterator[list[Any]]:
    """Yield batches: rules come, are replaced and go, some within a transaction, of which some are aborted."""
    present: set[int] = set()
    for _ in range(count):
        kept = set(present)
        changes: list[Any] = []
        for _ in range(generator.randrange(4)):
            number = generator.randrange(8)
            if number in present and generator.random() < 0.6:
                present.discard(number)
                changes.append(RemoveAccessControlEntryRecord(id=Uuid.from_int(1000 + number)))
            else:
                present.add(number)
                changes.append(entry(number, generator))
        kind = generator.randrange(6)
        if kind > 1:
            yield changes or [NoOpRecord()]
            continue
        yield [BeginTransactionRecord(name="t")]
        if changes:
            yield changes
        yield [EndTransactionRecord() if kind else AbortTransactionRecord(reason="no")]
        if not kind:
            present = kept


def in_force(history: Sequence[Any], offset: int) -> dict[str, tuple[str, ...]]:
    return {
        row.acl_id: (row.resource_name, row.operation)
        for row in history
        if row.began_offset <= offset and (row.ended_offset is None or row.ended_offset > offset)
    }


def replayed(path: Path, moment: Moment) -> dict[str, tuple[str, ...]]:
    names = {99: "UNKNOWN(99)", 3: "READ", 4: "WRITE"}
    image = read_metadata(str(path), moment).image
    return {str(acl_id): (rule.name, names[rule.operation]) for acl_id, rule in image.acls.by_id.items()}


@pytest.fixture(scope="module")
def random_log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    log = Log(tmp_path_factory.mktemp("random"))
    generator = random.Random(7)
    for number, batch in enumerate(random_batches(generator, 120)):
        log.append(*batch, time_ms=1_700_000_000_000 + 1000 * number)
    return log


def test_history_equals_the_replay_at_every_offset(spark: SparkSession, random_log: Log) -> None:
    folder = Path(random_log.log.directory)
    history = acl_history(records(spark, folder)).cache()
    assert history.schema.fieldNames() == ACL_HISTORY.fieldNames()
    rows = history.collect()
    assert len(rows) > 50
    assert {row.ended_by for row in rows} == {"removed", "replaced", None}
    for offset in range(random_log.log.end_offset):
        assert in_force(rows, offset) == replayed(folder, Moment(offset)), f"at offset {offset}"
    moments = {"offset": Moment(90), "time": Moment(None, 1_700_000_077_500)}
    time = F.timestamp_millis(F.lit(1_700_000_077_500))
    at_offset = rules_at_offset(history, 90).withColumn("moment", F.lit("offset"))
    found = at_offset.unionByName(rules_at_time(history, time).withColumn("moment", F.lit("time"))).collect()
    for name, moment in moments.items():
        at = {row.acl_id: (row.resource_name, row.operation) for row in found if row.moment == name}
        assert at == replayed(folder, moment)
    history.unpersist()


def test_a_history_that_begins_with_a_snapshot_says_so(spark: SparkSession, tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    generator = random.Random(1)
    log.append(entry(1, generator), entry(2, generator), time_ms=1_700_000_000_000)
    snapshot = log.snapshot([entry(1, generator), entry(2, generator)], time_ms=1_700_000_000_000)
    folder = tmp_path / "copy"
    folder.mkdir()
    (folder / snapshot.name).write_bytes(snapshot.read_bytes())
    data = log.path.read_bytes()
    log.append(RemoveAccessControlEntryRecord(id=Uuid.from_int(1001)), time_ms=1_700_000_009_000)
    (folder / f"{2:020d}.log").write_bytes(log.path.read_bytes()[len(data) :])
    rows = {row.acl_id: row for row in acl_history(records(spark, folder)).collect()}
    removed, kept = rows[str(Uuid.from_int(1001))], rows[str(Uuid.from_int(1002))]
    assert (removed.began_offset, removed.is_begin_known, removed.began_record_offset) == (1, False, None)
    assert removed.began_time.timestamp() == 1_700_000_000
    assert (removed.ended_offset, removed.ended_record_offset, removed.ended_by) == (2, 2, "removed")
    assert (kept.ended_offset, kept.ended_by) == (None, None)


def test_spark_reads_a_log_into_a_table(spark: SparkSession, random_log: Log, tmp_path: Path) -> None:
    """The others read logs in this process; here Spark's workers do, as for a user."""
    folder = Path(random_log.log.directory)
    write_history(spark, str(folder), str(tmp_path))
    written = HistoryTable(spark, str(tmp_path)).history.read()
    assert written is not None
    last = random_log.log.end_offset - 1
    assert in_force(written.collect(), last) == replayed(folder, Moment(last))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_stream_leads_to_the_table_of_a_batch_also_after_a_restart(
    spark: SparkSession, random_log: Log, tmp_path: Path
) -> None:
    data = random_log.path.read_bytes()
    ends = [batch.position + batch.size for batch in iter_batches(data)]
    folder = tmp_path / "log"
    folder.mkdir()
    arguments = str(folder), str(tmp_path / "stream"), str(tmp_path / "checkpoint")
    for size in (ends[30], ends[70] + 20, len(data)):  # The second ends inside a batch.
        (folder / random_log.path.name).write_bytes(data[:size])
        follow_history(spark, *arguments).awaitTermination()
    write_history(spark, str(folder), str(tmp_path / "batch"))
    streamed, written = (HistoryTable(spark, str(tmp_path / name)).history for name in ("stream", "batch"))
    assert streamed.version == written.version > 0
    assert sorted(map(str, streamed.read().collect())) == sorted(map(str, written.read().collect()))
    write_history(spark, str(folder), str(tmp_path / "batch"))
    assert len(list((tmp_path / "batch" / "acl_history_v1").glob("version=*"))) == 1
    assert len(list((tmp_path / "stream" / "acl_history_v1").glob("version=*"))) == 2


def test_records_that_are_added_again_by_a_new_stream_count_once(
    spark: SparkSession, random_log: Log, tmp_path: Path
) -> None:
    """A stream with a new checkpoint begins with the first record, and its table exists."""
    every_record = records(spark, random_log.log.directory).cache()
    table = HistoryTable(spark, str(tmp_path))
    table.add(every_record.where("offset < 100"))
    table.add(every_record)
    found = sorted(map(str, table.history.read().collect()))
    assert found == sorted(map(str, acl_history(every_record).collect()))
    every_record.unpersist()


def test_a_version_that_was_not_completed_does_not_exist(spark: SparkSession, tmp_path: Path) -> None:
    table = ReplacedTable(spark, str(tmp_path / "table"))
    assert (table.version, table.read()) == (-1, None)
    for number in (1, 5):
        assert table.write(spark.range(number), number)
    (tmp_path / "table" / f"version={5:020d}" / "_SUCCESS").unlink()
    assert table.version == 1
    assert table.read().count() == 1
    assert table.write(spark.range(7), 5)
    assert not table.write(spark.range(8), 5)
    assert table.read().count() == 7


# ---- effective permissions ----------------------------------------------------------------------

NAMES = ("a", "ab", "abc", "b", "*", "a*", "ä😀", "ä\uffff")
PRINCIPALS = ("User:alice", "User:bob", "Group:ops", "User:*", "User:root")
HOSTS = ("*", "10.0.0.1", "10.0.0.2")
TYPES = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.USER)
OTHER_HOST = "10.9.9.9"
SUPER_USER = "User:root"
ASKED = (*PRINCIPALS[:3], "User:nobody", SUPER_USER)
RESOURCES = (*NAMES, "abcd", "zz")


def random_rules(generator: random.Random) -> dict[Uuid, AclBinding]:
    names = generator.sample(NAMES, generator.randint(1, 5))
    found: set[AclBinding] = set()
    for _ in range(generator.randint(0, 14)):
        binding = AclBinding(
            int(generator.choice(TYPES)), generator.choice(names), int(generator.choice((3, 3, 4))),
            generator.choice(PRINCIPALS), generator.choice(HOSTS), generator.choice((2, 3, 4, 7, 8, 10, 11, 13)),
            int(generator.choice((2, 3, 3))),
        )  # fmt: skip
        found.add(binding)
    return {Uuid.from_int(generator.getrandbits(100) + 8): binding for binding in sorted(found)}


def rule_row(cluster: int, acl_id: Uuid, rule: AclBinding) -> tuple[Any, ...]:
    return (
        cluster, str(acl_id), ResourceType(rule.resource_type).name, rule.name, PatternType(rule.pattern_type).name,
        rule.principal, rule.host, AclOperation(rule.operation).name, AclPermissionType(rule.permission).name,
    )  # fmt: skip


def authorizer_of(rules: Mapping[Uuid, AclBinding], *, allow_everyone: bool) -> StandardAuthorizer:
    authorizer = StandardAuthorizer()
    default = "true" if allow_everyone else "false"
    authorizer.configure({"super.users": SUPER_USER, "allow.everyone.if.no.acl.found": default})
    authorizer.load_snapshot(rules)
    authorizer.complete_initial_load()
    return authorizer


class Lookup:
    """Looks a decision up in the sparse rows, as ``RESOURCE_PERMISSIONS`` says."""

    def __init__(self, rows: Sequence[Any]) -> None:
        self._hosts: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = defaultdict(lambda: defaultdict(dict))
        self.super_users = {row.principal for row in rows if row.rule == "SuperUser"}
        for row in rows:
            if row.rule != "SuperUser":
                key = row.cluster, row.principal, row.resource_type, row.resource_name
                assert row.operation not in self._hosts[key][row.host], f"two decisions: {row}"
                self._hosts[key][row.host][row.operation] = row

    def decide(self, cluster: int, principal: str, host: str, operation: str, type_: str, name: str) -> Any:
        hosts = self._hosts.get((cluster, principal, type_, name)) or self._hosts.get((cluster, "*", type_, name), {})
        operations = hosts.get(host) or hosts.get("*", {})
        return operations.get(operation) or operations.get("ALL")


def operations_of(resource_type: int, rules: Mapping[Uuid, AclBinding]) -> list[AclOperation]:
    """Return the operations that a result decides: those of the type, and others that its rules name."""
    named = {AclOperation(rule.operation) for rule in rules.values() if rule.resource_type == resource_type}
    if named & {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}:
        named.add(AclOperation.DESCRIBE)
    if AclOperation.ALTER_CONFIGS in named:
        named.add(AclOperation.DESCRIBE_CONFIGS)
    return sorted({*supported_operations(resource_type), *named} - {AclOperation.ALL})


def compare(spark: SparkSession, seeds: range) -> tuple[int, int]:
    """Compare every cell of random clusters, with each default; return the numbers of cells and of rows."""
    clusters = {seed: random_rules(random.Random(seed)) for seed in seeds}
    rules = spark.createDataFrame(
        [rule_row(seed, acl_id, rule) for seed, by_id in clusters.items() for acl_id, rule in by_id.items()], RULES
    )
    asked = [(seed, type_.name, name) for seed in seeds for type_ in TYPES for name in RESOURCES]
    resources = spark.createDataFrame(asked, "cluster int, resource_type string, resource_name string")
    permissions = effective_permissions(rules, super_users=(SUPER_USER,), allow_everyone=True, by=("cluster",)).cache()
    assert permissions.columns == ["cluster", *PERMISSIONS.fieldNames()]
    of_resources = permissions_of_resources(permissions, rules, resources, by=("cluster",))
    assert of_resources.columns == ["cluster", *RESOURCE_PERMISSIONS.fieldNames()]
    rows = of_resources.collect()
    permissions.unpersist()
    # The default adds rows, and changes none.
    decided = [row for row in rows if row.rule != "DefaultAllow"]
    cells = 0
    for allow_everyone, lookup in ((False, Lookup(decided)), (True, Lookup(rows))):
        for seed, by_id in clusters.items():
            cells += compare_cluster(lookup, seed, by_id, allow_everyone=allow_everyone) if by_id else 0
    return cells, len(rows)


def compare_cluster(lookup: Lookup, seed: int, rules: Mapping[Uuid, AclBinding], *, allow_everyone: bool) -> int:
    authorizer = authorizer_of(rules, allow_everyone=allow_everyone)
    cells = 0
    for principal, host, type_, name in product(ASKED, (*HOSTS[1:], OTHER_HOST), TYPES, RESOURCES):
        for operation in operations_of(type_, rules):
            decision = authorizer.explain(parse_principal(principal), host, operation, type_, name)
            row = lookup.decide(seed, principal, host, operation.name, type_.name, name)
            if principal in lookup.super_users:
                found: Any = (True, "SuperUser", None)
            elif row is None:
                found = (False, "DefaultDeny", None)
            else:
                found = (row.allowed, row.rule, row.acl_id)
            expected = (decision.allowed, decision.rule, decision.acl_id)
            assert found == expected, f"seed {seed}: {principal} {host} {operation.name} {type_.name}:{name}"
            cells += 1
    return cells


def test_permissions_equal_the_authorizer_in_every_cell(spark: SparkSession) -> None:
    cells, rows = compare(spark, range(10))
    assert cells > 40_000
    assert rows < cells / 5


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_permissions_equal_the_authorizer_in_many_clusters(spark: SparkSession) -> None:
    for first in range(1000, 2000, 100):
        compare(spark, range(first, first + 100))


def test_rules_have_the_columns_of_the_history() -> None:
    assert RULES.replace(" int", "").replace(" string", "").split(", ")[1:] == list(RULE_COLUMNS)
