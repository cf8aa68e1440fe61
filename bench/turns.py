"""How long a node holds the event loop, for each kind of request and event, with 200,000 partitions.

The stage (``turns_stage``) times each piece that a node does in one turn of its loop: the decision, its append to the
log, each turn and step of a long decision, each step of what follows a commit on the broker and on a standby, and each
step of encoding the answer. Python's garbage collector is off, and measured apart.
"""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from barnabas.broker.apis import describe_topic_partitions as describing
from barnabas.broker.apis import metadata as metadata_api
from barnabas.common.acl import AclBinding
from barnabas.common.long_response import LongAnswer
from barnabas.controller.apis import (
    alter_client_quotas,
    alter_partition,
    alter_partition_reassignments,
    assign_replicas_to_dirs,
    create_acls,
    create_partitions,
    delete_acls,
    delete_topics,
    elect_leaders,
    incremental_alter_configs,
    list_partition_reassignments,
    unregister_broker,
    update_features,
)
from barnabas.metadata.image.acls import acl_record
from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage, MetadataProvenance
from barnabas.network.api_handler import Access
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest
from barnabas.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest
from barnabas.protocol.records.partition_record import PartitionRecord
from barnabas.protocol.records.topic_record import TopicRecord
from barnabas.protocol.stepped_writing import write_in_steps
from bench import turns_requests as requests
from bench.turns_requests import Shape
from bench.turns_stage import BROKERS, Stage, Turns
from tests.unit.controller.controller_harness import context, directory_of, topic

__all__ = ["SHAPES", "Shape", "Turns", "measure_turns"]

SHAPES = (Shape(200_000, 1, 1), Shape(2_000, 100, 3))
_RULES = 20_000
"""So many that a broad DeleteAcls searches in turns."""

Events = Iterator[tuple[str, Callable[[], Any]]]


def measure_turns(shape: Shape) -> dict[str, Turns]:
    gc.collect()
    gc.disable()
    try:
        with tempfile.TemporaryDirectory(prefix="barnabas-turns-") as folder:
            return _measured(shape, Path(folder))
    finally:
        gc.enable()


def _measured(shape: Shape, folder: Path) -> dict[str, Turns]:
    found: dict[str, Turns] = {}
    stage = Stage(folder)
    stage.activate()
    for broker_id in BROKERS:
        stage.start_broker(broker_id)
    for events in (_beginning, _requests, _reading, _brokers):
        for name, event in events(stage, shape):
            found[name] = stage.measured(event)
            print(f"turns: {shape.name}: {name}: {found[name]}", flush=True)
    gc.unfreeze()
    found["(all objects are looked at for garbage)"] = stage.measured(partial(stage.timed, "collection", gc.collect))
    return found


def _beginning(stage: Stage, shape: Shape) -> Events:
    stage.controller.deactivate()
    snapshot_id = stage.write_snapshot(_image_of(shape, stage.controller.committed_image))
    yield "a snapshot is loaded", partial(stage.load_snapshot, snapshot_id)
    stage.epoch += 1
    yield (
        "the controller becomes active",
        lambda: stage.timed("activation", partial(stage.controller.activate, stage.epoch, stage.end_offset)),
    )
    stage.take_turns()
    yield "a snapshot is written", stage.save_snapshot


def _brokers(stage: Stage, shape: Shape) -> Events:
    yield "a broker sends a heartbeat", partial(stage.heartbeat, 1)
    yield "the session of a broker ends", partial(stage.fall_silent, 1)
    yield "it comes back", partial(stage.comes_back, 1)
    yield "two of three brokers lose touch", partial(stage.fall_silent, 2, 3)
    yield "the first of two comes back", partial(stage.comes_back, 2)
    yield "the second of two comes back", partial(stage.comes_back, 3)
    elections = ElectLeadersRequest(election_type=0, topic_partitions=None)
    yield "leaders are elected, on request, for all partitions", partial(stage.call, elect_leaders.handle, elections, 2)
    yield "a new process of a broker registers", partial(stage.register, 3)
    yield "its broker is unfenced", partial(stage.comes_back, 3)
    yield "leaderships go back to preferred replicas", partial(_rebalance, stage)
    yield "a broker shuts down", partial(stage.shuts_down, 1)
    yield (
        "a broker that has shut down is unregistered",
        partial(stage.call, unregister_broker.handle, UnregisterBrokerRequest(broker_id=1), 0),
    )
    yield "a broker registers", partial(stage.register, 1)
    yield "this broker is unfenced", partial(stage.comes_back, 1)


def _requests(stage: Stage, shape: Shape) -> Events:
    yield "1 topic is created", partial(stage.create, topic("one", 1, 3))
    yield "200 topics are created by a request", partial(stage.create, *requests.topics("some", 200, 1))
    yield "4,000 topics are created by a request", partial(stage.create, *requests.topics("many", 4_000, 1))
    yield "a topic of 5,000 partitions is created", partial(stage.create, topic("large", 5_000, 3))
    growth = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="large", count=9_000, assignments=None)])
    yield "4,000 partitions are added", partial(stage.call, create_partitions.handle, growth, 3)
    yield (
        "1,000 partitions are reassigned",
        lambda: stage.call(alter_partition_reassignments.handle, requests.reassignment(shape, 1_000), 1),
    )
    ongoing = ListPartitionReassignmentsRequest(topics=None)
    yield "reassignments are listed", partial(stage.call, list_partition_reassignments.handle, ongoing, 0)
    yield (
        "the ISR of 1,000 partitions changes",
        lambda: stage.call(alter_partition.handle, requests.isr_changes(stage, 1_000), 3),
    )
    yield (
        "directories of 2,250 replicas are assigned",
        lambda: stage.call(assign_replicas_to_dirs.handle, requests.assignments(stage, 2_250), 0),
    )
    settings = requests.settings(1_000)
    yield "settings of 1,000 topics change", partial(stage.call, incremental_alter_configs.handle, settings, 1)
    yield "quotas of 1,000 users change", partial(stage.call, alter_client_quotas.handle, requests.quotas(1_000), 1)
    yield "1,000 ACLs are created", partial(stage.call, create_acls.handle, requests.acl_creation(_RULES, 1_000), 3)
    yield (
        "1,000 ACLs are deleted by a filter for each",
        partial(stage.call, delete_acls.handle, requests.acl_deletion(_RULES, 1_000), 3),
    )
    every_rule = requests.acl_deletion_of_all()
    yield "20,000 ACLs are searched, and too many found", partial(stage.call, delete_acls.handle, every_rule, 3)
    yield "a feature is turned off", partial(stage.call, update_features.handle, requests.feature(0, 2), 1)
    yield "a feature is turned on", partial(stage.call, update_features.handle, requests.feature(1, 1), 1)
    deletion = requests.deletion("many", 1_000)
    yield "1,000 topics are deleted by a request", partial(stage.call, delete_topics.handle, deletion, 6)
    named = MetadataRequest(topics=[MetadataRequestTopic(name="large")])
    yield (
        "Metadata of a topic of 9,000 partitions",
        partial(_ask_broker, stage, metadata_api.handle_metadata, named, 13),
    )
    page = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="large")], cursor=None)
    yield (
        "DescribeTopicPartitions of its first 2,000",
        partial(_ask_broker, stage, describing.handle_describe_topic_partitions, page, 0),
    )
    large = DeleteTopicsRequest(topics=[DeleteTopicState(name="large")])
    yield "a topic of 9,000 partitions is deleted", partial(stage.call, delete_topics.handle, large, 6)


def _reading(stage: Stage, shape: Shape) -> Events:
    """What a broker answers from its image, the first time after a change and again."""
    every_topic = MetadataRequest(topics=None)
    for name in ("Metadata of all topics", "Metadata of all topics, again"):
        yield name, partial(_ask_broker, stage, metadata_api.handle_metadata, every_topic, 13)
    first_page = DescribeTopicPartitionsRequest(topics=[], cursor=None)
    for name in ("DescribeTopicPartitions of the first 2,000", "DescribeTopicPartitions of the first 2,000, again"):
        yield name, partial(_ask_broker, stage, describing.handle_describe_topic_partitions, first_page, 0)


def _ask_broker(stage: Stage, handle: Callable[..., Any], request: Any, api_version: int) -> None:
    settings = SimpleNamespace(auto_create_topics_enable=False, max_request_partition_size_limit=2_000)
    broker = SimpleNamespace(metadata=stage.cache, settings=settings, cluster_id="cluster")
    for module in (metadata_api, describing):
        module.worked_out = lambda answer, **_: answer  # type: ignore[attr-defined]  # The stage takes the steps.
    asked = context(api_version)
    asked.listener_name = "PLAINTEXT"
    access = Access(stage.rules, asked, handle.api_handler.acl)  # type: ignore[attr-defined]
    response = stage.timed("handler", partial(handle, broker, request, access))
    if isinstance(response, LongAnswer):
        while stage.timed("handler", response.advance):
            pass
    stage.take_steps("answer", write_in_steps(response, api_version, []))


def _rebalance(stage: Stage) -> None:
    """Followers have caught up: they join the ISR first, which is not what is measured."""
    stage.clock.ms += 1
    stage.controller.replication.periodic_elections.activate(stage.clock.ms - 300_000)
    stage.pieces.clear()
    stage.take_turns()


def _image_of(shape: Shape, base: MetadataImage) -> MetadataImage:
    delta = MetadataDelta(base)
    number = 0
    for index in range(shape.topics):
        topic_id = requests.topic_id(index)
        delta.replay(TopicRecord(name=requests.topic_name(index), topic_id=topic_id))
        for partition_id in range(shape.partitions):
            number += 1
            replicas = [BROKERS[(number + place) % 3] for place in range(shape.replicas)]
            delta.replay(
                PartitionRecord(
                    partition_id=partition_id,
                    topic_id=topic_id,
                    replicas=replicas,
                    isr=replicas,
                    leader=replicas[0],
                    directories=[directory_of(replica) for replica in replicas],
                    leader_epoch=0,
                    partition_epoch=0,
                )
            )
    for number in range(_RULES):
        binding = AclBinding(2, f"acl-{number:06}", 3, "User:alice", "*", 3, 3)
        delta.replay(acl_record(requests.topic_id(1_000_000 + number), binding))
    return delta.apply(MetadataProvenance(base.offset + 1_000_000, 1))
