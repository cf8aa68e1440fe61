"""The image that our loader builds from a real controller's log equals what Kafka's metadata shell printed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from barnabas.common.acl import AclOperation, AclPermissionType
from barnabas.common.resource import PatternType, ResourceType
from barnabas.metadata.image.cluster import Endpoint
from barnabas.metadata.image.configs import ConfigResourceType
from barnabas.metadata.image.metadata_image import MetadataImage, MetadataProvenance
from barnabas.metadata.image.partition_registration import LeaderRecoveryState, PartitionRegistration
from barnabas.metadata.image.topics import TopicImage
from barnabas.metadata.loader import CommittedBatch, MetadataLoader
from barnabas.metadata.snapshot import image_from_records, records_of
from barnabas.protocol.record_batch import iter_batches
from barnabas.protocol.record_serde import decode_metadata_record, encode_metadata_record
from tests.oracles.archives import unpack

pytestmark = pytest.mark.oracle

DATA = Path(__file__).parent / "data" / "kraft"
LOG = "__cluster_metadata-0/00000000000000000000.log"
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def committed_batches(log: bytes) -> Iterator[CommittedBatch]:
    for batch in iter_batches(log):
        records = [] if batch.is_control else [decode_metadata_record(r.value or b"")[0] for r in batch.records()]
        yield CommittedBatch(
            base_offset=batch.base_offset,
            last_offset=batch.last_offset,
            epoch=batch.leader_epoch,
            append_time_ms=batch.max_timestamp,
            records=records,
            byte_count=batch.size,
        )


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("kraft")
    for name in ("storage-a", "storage-c", "storage-d"):
        unpack(DATA / f"{name}.tar.xz", directory)
    return directory


@pytest.fixture(scope="module")
def batches(unpacked: Path) -> list[CommittedBatch]:
    return list(committed_batches((unpacked / "storage-a" / "controller-3000" / LOG).read_bytes()))


@pytest.fixture(scope="module")
def image(batches: list[CommittedBatch]) -> MetadataImage:
    loader = MetadataLoader()
    loader.handle_commit(batches)
    return loader.image


@pytest.fixture(scope="module")
def shell(unpacked: Path) -> dict[str, list[str]]:
    """Return what the shell printed for each command; the commands are comments at the head of the file."""
    lines = (unpacked / "storage-a" / "metadata-shell.txt").read_text().splitlines()
    commands = [line.removeprefix("#> ") for line in lines if line.startswith("#> ")]
    outputs = "\n".join(line for line in lines if not line.startswith("#")).split("\n>> ")[1:]
    return {command: output.splitlines() for command, output in zip(commands, outputs, strict=False)}


def tree(node: Mapping[str, Any], indent: int = 0) -> Iterator[str]:
    """Yield a directory as the shell prints it: names in its order, leaves as indented text."""
    for name in node:
        yield f"{'  ' * indent}{name}:"
        value = node[name]
        if isinstance(value, Mapping):
            yield from tree(value, indent + 1)
        else:
            yield f"{'  ' * (indent + 1)}{value}"


def ids(values: Iterable[object]) -> str:
    return "[" + ", ".join(str(value) for value in values) + "]"


def shown_partition(p: PartitionRegistration) -> str:
    return (
        f"PartitionRegistration(replicas={ids(p.replicas)}, directories={ids(p.directories)}, isr={ids(p.isr)}, "
        f"removingReplicas={ids(p.removing_replicas)}, addingReplicas={ids(p.adding_replicas)}, elr={ids(p.elr)}, "
        f"lastKnownElr={ids(p.last_known_elr)}, leader={p.leader}, "
        f"leaderRecoveryState={LeaderRecoveryState(p.leader_recovery_state).name}, leaderEpoch={p.leader_epoch}, "
        f"partitionEpoch={p.partition_epoch})"
    )


def shown_topic(topic: TopicImage) -> dict[str, Any]:
    partitions = {str(index): shown_partition(p) for index, p in sorted(topic.partitions.items())}
    return {**partitions, "id": str(topic.id), "name": topic.name}


def shown_endpoints(endpoints: Iterable[Endpoint]) -> str:
    return ids(
        f"Endpoint(listenerName='{e.listener_name}', securityProtocol={SECURITY_PROTOCOLS[e.security_protocol]}, "
        f"host='{e.host}', port={e.port})"
        for e in sorted(endpoints)
    )


def shown_features(features: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{name}: {levels.min}-{levels.max}" for name, levels in sorted(features.items())) + "}"


def test_features(image: MetadataImage, shell: dict[str, list[str]]) -> None:
    levels = {f"finalized_{name}": level for name, level in sorted(image.features.finalized_versions.items())}
    shown = {**levels, "metadataVersion": f"Optional[{image.features.metadata_version}]"}
    assert list(tree(shown)) == shell["tree image/features"]


def test_topics(image: MetadataImage, shell: dict[str, list[str]]) -> None:
    assert sorted(image.topics.by_name) == shell["ls image/topics/byName"]
    for name in ("t-one", "payments"):
        topic = image.topics.get(name)
        assert topic is not None
        assert list(tree(shown_topic(topic))) == shell[f"tree image/topics/byName/{name}"]


def test_acls(image: MetadataImage, shell: dict[str, list[str]]) -> None:
    shown = {
        str(acl_id): f"StandardAcl[resourceType={ResourceType(acl.resource_type).name}, "
        f"resourceName={acl.name}, patternType={PatternType(acl.pattern_type).name}, "
        f"principal={acl.principal}, host={acl.host}, operation={AclOperation(acl.operation).name}, "
        f"permissionType={AclPermissionType(acl.permission).name}]"
        for acl_id, acl in image.acls.by_id.items()
    }
    assert list(tree(dict(sorted(shown.items())))) == shell["tree image/acls/byId"]


def test_client_quotas(image: MetadataImage, shell: dict[str, list[str]]) -> None:
    words = {"client-id": "clientId", "user": "user", "ip": "ip"}
    shown: dict[str, dict[str, float]] = {}
    for entity, quotas in image.client_quotas.by_entity.items():
        if any(name is None for _, name in entity):
            shown[""] = {}  # The shell has no name for a default and shows nothing below it.
        else:
            shown["_".join(f"{words[kind]}({name})" for kind, name in entity)] = dict(sorted(quotas.items()))
    assert image.client_quotas.of((("user", None),)) == {"controller_mutation_rate": 10.0}
    assert list(tree(dict(sorted(shown.items())))) == shell["tree image/clientQuotas"]


def test_configs(image: MetadataImage, shell: dict[str, list[str]]) -> None:
    shown = {
        ConfigResourceType(resource.type).name + (f":{resource.name}" if resource.name else ""): dict(
            sorted(configs.items())
        )
        for resource, configs in image.configs.by_resource.items()
    }
    assert list(tree(dict(sorted(shown.items())))) == shell["tree image/configs"]


def test_cluster(image: MetadataImage, shell: dict[str, list[str]]) -> None:
    brokers = {
        str(b.id): f"BrokerRegistration(id={b.id}, epoch={b.epoch}, incarnationId={b.incarnation_id}, "
        f"listeners={shown_endpoints(b.listeners.values())}, supportedFeatures={shown_features(b.features)}, "
        f"rack=Optional[{b.rack}], fenced={str(b.fenced).lower()}, "
        f"inControlledShutdown={str(b.in_controlled_shutdown).lower()}, isMigratingZkBroker=false, "
        f"directories={ids(b.directories)}, cordonedDirectories={ids(b.cordoned_directories or ())})"
        for b in image.cluster.brokers.values()
    }
    controllers = {
        str(c.id): f"ControllerRegistration(id={c.id}, incarnationId={c.incarnation_id}, zkMigrationReady=false, "
        f"listeners={shown_endpoints(c.listeners.values())}, supportedFeatures={shown_features(c.features)})"
        for c in image.cluster.controllers.values()
    }
    assert list(tree({"brokers": brokers, "controllers": controllers})) == shell["tree image/cluster"]


def test_producer_ids(image: MetadataImage, shell: dict[str, list[str]]) -> None:
    assert list(tree({"nextProducerId": image.producer_ids.next_producer_id})) == shell["tree image/producerIds"]


def test_scram_credentials(image: MetadataImage, shell: dict[str, list[str]]) -> None:
    shown: dict[str, dict[str, str]] = {"SCRAM-SHA-256": {}, "SCRAM-SHA-512": {}}
    for (mechanism, user), c in image.scram.by_key.items():
        shown[f"SCRAM-SHA-{256 * mechanism}"][user] = (
            f"ScramCredentialData(salt={c.salt.hex()}, storedKey={c.stored_key.hex()}, "
            f"serverKey={c.server_key.hex()}, iterations={c.iterations})"
        )
    assert list(tree(shown)) == shell["tree image/scram"]


def test_delegation_tokens(image: MetadataImage, shell: dict[str, list[str]]) -> None:
    printed = "\n".join(shell["tree image/delegationToken"])
    assert len(image.delegation_tokens) == printed.count("DelegationTokenData")
    for token_id, token in image.delegation_tokens.by_key.items():
        assert f"{token_id}:\n" in printed
        assert f"issueTimestamp={token.issue_timestamp}, maxTimestamp={token.max_timestamp}" in printed
        assert f"expiryTimestamp={token.expiration_timestamp}" in printed


def test_provenance(image: MetadataImage, shell: dict[str, list[str]]) -> None:
    (line,) = shell["tree image/provenance"]
    provenance = image.provenance
    assert line.startswith(f"offset {provenance.last_contained_offset}, epoch {provenance.last_contained_epoch}, time ")


def test_the_image_survives_a_snapshot(image: MetadataImage) -> None:
    records = records_of(image)
    encoded = [encode_metadata_record(message, version) for message, version in records]
    again = image_from_records([decode_metadata_record(value)[0] for value in encoded], image.provenance)
    assert again == image


@pytest.mark.parametrize("group_size", [1, 2, 7, 100, 626])
def test_any_grouping_of_the_batches_yields_the_same_image(
    batches: list[CommittedBatch], image: MetadataImage, group_size: int
) -> None:
    loader = MetadataLoader()
    for start in range(0, len(batches), group_size):
        loader.handle_commit(batches[start : start + group_size])
    assert loader.image == image


@pytest.mark.parametrize("end", [13, 27, 150, 330, 514, 700, 800, 900])
def test_a_snapshot_in_the_middle_and_the_rest_of_the_log_yield_the_same_image(
    batches: list[CommittedBatch], image: MetadataImage, end: int
) -> None:
    first, second = MetadataLoader(), MetadataLoader()
    first.handle_commit([batch for batch in batches if batch.last_offset <= end])
    second.handle_commit([batch for batch in batches if batch.last_offset <= 20])  # The loader must discard this.
    second.load_snapshot([message for message, _ in records_of(first.image)], first.image.provenance)
    assert second.image == first.image
    second.handle_commit([batch for batch in batches if batch.base_offset > first.image.offset])
    assert second.image == image


@pytest.mark.parametrize("log", ["storage-c/controller-3002", "storage-d/controller-1"])
def test_other_logs_load_too(unpacked: Path, log: str) -> None:
    loader = MetadataLoader()
    loader.handle_commit(committed_batches((unpacked / log / LOG).read_bytes()))
    image = loader.image
    assert image.features.metadata_version is not None
    assert image_from_records([message for message, _ in records_of(image)], image.provenance) == image
    assert isinstance(image.provenance, MetadataProvenance)
