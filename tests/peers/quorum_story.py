"""Requests of the metadata quorum, good and bad, for a controller that leads, follows, or knows no leader.

The other replicas of these stories do not exist: they are voters 3001 and 3002, and strangers.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, NamedTuple, TypeAlias

from barnabas.common.uuid import Uuid
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.messages import add_raft_voter as add
from barnabas.protocol.messages import begin_quorum_epoch as begin
from barnabas.protocol.messages import describe_quorum as describe
from barnabas.protocol.messages import end_quorum_epoch as end
from barnabas.protocol.messages import fetch, fetch_snapshot, vote
from barnabas.protocol.messages import update_raft_voter as update
from barnabas.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from tests.peers.node_requests import NODE_REQUESTS
from tests.peers.quorum_requests import outdated_quorum_request

__all__ = [
    "Place",
    "Step",
    "Story",
    "denied_story",
    "following_story",
    "leading_story",
    "snapshot_story",
    "static_story",
]

TOPIC = "__cluster_metadata"
OTHER_DIRECTORY = Uuid.from_int(0xABCDEF)


class Step(NamedTuple):
    name: str
    request: Any
    version: int


Story: TypeAlias = Generator[Step, Any, None]


class Place(NamedTuple):
    """The controller under test."""

    cluster_id: str
    node_id: int
    directory_id: Uuid
    ports: tuple[int, ...]
    """The directories of all voters; its own is the first."""
    user: str | None = None
    """The user of the requests, if a login is required."""

    @property
    def port(self) -> int:
        return self.ports[0]


# --- requests


def a_vote(place: Place, **changes: Any) -> vote.VoteRequest:
    """``topics`` replaces all fields about partitions."""
    fields: dict[str, Any] = {
        "partition_index": 0,
        "replica_epoch": 1,
        "replica_id": 3001,
        "replica_directory_id": Uuid.from_int(0x3001),
        "voter_directory_id": place.directory_id,
        "last_offset_epoch": 0,
        "last_offset": 0,
    }
    cluster_id = changes.pop("cluster_id", place.cluster_id)
    voter_id = changes.pop("voter_id", place.node_id)
    topic = changes.pop("topic", TOPIC)
    partition = vote.VoteRequestPartitionData(**{**fields, **{k: v for k, v in changes.items() if k != "copies"}})
    topics = [vote.VoteRequestTopicData(topic_name=topic, partitions=[partition] * changes.get("copies", 1))]
    return vote.VoteRequest(cluster_id=cluster_id, voter_id=voter_id, topics=topics)


def a_begin(place: Place, leader_id: int, epoch: int, **changes: Any) -> begin.BeginQuorumEpochRequest:
    partition = begin.BeginQuorumEpochRequestPartitionData(
        partition_index=changes.get("partition", 0),
        voter_directory_id=changes.get("directory", place.directory_id),
        leader_id=leader_id,
        leader_epoch=epoch,
    )
    topic = begin.BeginQuorumEpochRequestTopicData(
        topic_name=changes.get("topic", TOPIC), partitions=[partition] * changes.get("copies", 1)
    )
    return begin.BeginQuorumEpochRequest(
        cluster_id=changes.get("cluster_id", place.cluster_id),
        voter_id=changes.get("voter_id", place.node_id),
        topics=[topic],
        leader_endpoints=[
            begin.LeaderEndpoint(name=name, host="localhost", port=port)
            for name, port in changes.get("endpoints", {}).items()
        ],
    )


def an_end(place: Place, leader_id: int, epoch: int, **changes: Any) -> end.EndQuorumEpochRequest:
    partition = end.EndQuorumEpochRequestPartitionData(
        partition_index=changes.get("partition", 0),
        leader_id=leader_id,
        leader_epoch=epoch,
        preferred_successors=changes.get("successors", []),
        preferred_candidates=[
            end.ReplicaInfo(candidate_id=id_, candidate_directory_id=directory)
            for id_, directory in changes.get("candidates", [])
        ],
    )
    topic = end.EndQuorumEpochRequestTopicData(
        topic_name=changes.get("topic", TOPIC), partitions=[partition] * changes.get("copies", 1)
    )
    return end.EndQuorumEpochRequest(cluster_id=changes.get("cluster_id", place.cluster_id), topics=[topic])


def a_fetch(place: Place, version: int, epoch: int, offset: int, **changes: Any) -> fetch.FetchRequest:
    partition = fetch.FetchPartition(
        partition=changes.get("partition", 0),
        current_leader_epoch=epoch if version >= 9 else -1,
        fetch_offset=offset,
        last_fetched_epoch=changes.get("last_epoch", 0) if version >= 12 else -1,
        partition_max_bytes=changes.get("partition_max_bytes", 0),
        replica_directory_id=changes.get("directory", Uuid.ZERO),
        high_watermark=changes.get("high_watermark", -1),
    )
    topic = fetch.FetchTopic(partitions=[partition] * changes.get("copies", 1))
    if version < 13:
        topic.topic = changes.get("topic", TOPIC)
    else:
        topic.topic_id = changes.get("topic_id", Uuid.METADATA_TOPIC_ID)
    request = fetch.FetchRequest(
        cluster_id=changes.get("cluster_id", place.cluster_id),
        max_wait_ms=changes.get("max_wait_ms", 0),
        min_bytes=0,
        max_bytes=changes.get("max_bytes", 1024 * 1024),
        topics=[topic] * changes.get("topics", 1),
    )
    replica_id = changes.get("replica_id", 4000)
    if version >= 15:
        request.replica_state = fetch.ReplicaState(replica_id=replica_id)
    else:
        request.replica_id = replica_id
    if version >= 7:
        request.session_id = changes.get("session_id", 0)
        request.session_epoch = changes.get("session_epoch", -1)
    return request


def a_snapshot_fetch(place: Place, epoch: int, snapshot: tuple[int, int], position: int, **changes: Any) -> Any:
    partition = fetch_snapshot.FetchSnapshotRequestPartitionSnapshot(
        partition=changes.get("partition", 0),
        current_leader_epoch=epoch,
        snapshot_id=fetch_snapshot.SnapshotId(end_offset=snapshot[0], epoch=snapshot[1]),
        position=position,
    )
    topic = fetch_snapshot.FetchSnapshotRequestTopicSnapshot(
        name=changes.get("topic", TOPIC), partitions=[partition] * changes.get("copies", 1)
    )
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=changes.get("cluster_id", place.cluster_id),
        replica_id=changes.get("replica_id", 4000),
        max_bytes=changes.get("max_bytes", 100),
        topics=[topic] * changes.get("topics", 1),
    )


def a_description(*partitions: tuple[str, int]) -> describe.DescribeQuorumRequest:
    topics: dict[str, list[Any]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(describe.DescribeQuorumRequestPartitionData(partition_index=index))
    return describe.DescribeQuorumRequest(
        topics=[describe.DescribeQuorumRequestTopicData(topic_name=name, partitions=p) for name, p in topics.items()]
    )


def an_add(place: Place, voter_id: int, directory: Uuid, **changes: Any) -> add.AddRaftVoterRequest:
    listeners = changes.get("listeners", {"CONTROLLER": place.port})
    return add.AddRaftVoterRequest(
        cluster_id=changes.get("cluster_id", place.cluster_id),
        timeout_ms=changes.get("timeout_ms", 3000),
        voter_id=voter_id,
        voter_directory_id=directory,
        listeners=[add.Listener(name=name, host="127.0.0.1", port=port) for name, port in listeners.items()],
        ack_when_committed=changes.get("ack_when_committed", True),
    )


def a_removal(place: Place, voter_id: int, directory: Uuid, **changes: Any) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(
        cluster_id=changes.get("cluster_id", place.cluster_id), voter_id=voter_id, voter_directory_id=directory
    )


def an_update(
    place: Place, epoch: int, voter_id: int, directory: Uuid, **changes: Any
) -> update.UpdateRaftVoterRequest:
    listeners = changes.get("listeners", {"CONTROLLER": place.port})
    low, high = changes.get("levels", (0, 1))
    return update.UpdateRaftVoterRequest(
        cluster_id=changes.get("cluster_id", place.cluster_id),
        current_leader_epoch=epoch,
        voter_id=voter_id,
        voter_directory_id=directory,
        listeners=[update.Listener(name=name, host="127.0.0.1", port=port) for name, port in listeners.items()],
        kraft_version_feature=update.KRaftVersionFeature(min_supported_version=low, max_supported_version=high),
    )


# --- the only voter, which leads epoch 1


def leading_story(place: Place) -> Story:
    """The story of the only voter, kraft.version 1. Its log has no snapshot and receives only the records requested
    here."""
    yield from _votes_for_a_leader(place)
    yield from _epochs_of_others(place)
    end_offset = yield from _fetches(place)
    yield from _snapshot_fetches(place, end_offset)
    yield from _descriptions()
    yield from _changes_of_voters(place)
    yield from _the_next_epoch(place)


def _votes_for_a_leader(place: Place) -> Iterator[Step]:
    for version in (0, 1, 2):

        def vote_step(name: str, version: int = version, **changes: Any) -> Step:
            return Step(f"vote v{version}, {name}", a_vote(place, **changes), version)

        yield vote_step("another cluster", cluster_id="another")
        yield vote_step("no cluster", cluster_id=None)
        yield vote_step("another topic", topic="other")
        yield vote_step("another partition", partition_index=1)
        yield vote_step("a partition twice", copies=2)
        yield vote_step("no partition", copies=0)
        yield vote_step("no replica id", replica_id=-1)
        yield vote_step("an earlier epoch", replica_epoch=0, last_offset_epoch=-1)
        yield vote_step("an earlier epoch, sound", replica_epoch=0, last_offset_epoch=0)
        yield vote_step("no replica id in an earlier epoch", replica_epoch=0, replica_id=-1)
        yield vote_step("a negative epoch", replica_epoch=-1)
        yield vote_step("a negative offset", last_offset=-1)
        yield vote_step("a negative last epoch", last_offset_epoch=-1)
        yield vote_step("the last epoch is this one", last_offset_epoch=1, last_offset=99)
        yield vote_step("the last epoch is a later one", last_offset_epoch=2, last_offset=99)
        yield vote_step("in this epoch", last_offset_epoch=0, last_offset=99)
        yield vote_step("for another voter", voter_id=3002)
        yield vote_step("for no voter", voter_id=-1)
        yield vote_step("for another directory", voter_directory_id=OTHER_DIRECTORY)
        yield vote_step("for any directory", voter_directory_id=Uuid.ZERO)
        yield vote_step("of itself", replica_id=place.node_id, replica_directory_id=place.directory_id)
        yield vote_step("unsound, for another voter", voter_id=3002, last_offset=-1)
        if version == 2:
            yield vote_step("a pre-vote", pre_vote=True, last_offset_epoch=1, last_offset=99)
            yield vote_step("a pre-vote of a later last epoch", pre_vote=True, last_offset_epoch=2, last_offset=99)
            yield vote_step("a pre-vote of an earlier epoch", pre_vote=True, replica_epoch=0)


def _epochs_of_others(place: Place) -> Iterator[Step]:
    me = place.node_id
    for version in (0, 1):

        def begun(name: str, *args: Any, version: int = version, **changes: Any) -> Step:
            return Step(f"begin v{version}, {name}", a_begin(place, *args, **changes), version)

        yield begun("another cluster", 3001, 0, cluster_id="another")
        yield begun("no cluster", 3001, 0, cluster_id=None)
        yield begun("another topic", 3001, 0, topic="other")
        yield begun("another partition", 3001, 0, partition=1)
        yield begun("a partition twice", 3001, 0, copies=2)
        yield begun("an earlier epoch", 3001, 0)
        yield begun("no replica id in an earlier epoch", -1, 0)
        yield begun("a negative epoch", 3001, -1)
        yield begun("no replica id", -1, 1)
        yield begun("its own", me, 1)
        yield begun("its own, for another voter", me, 1, voter_id=3002)
        yield begun("its own, for no voter", me, 1, voter_id=-1)
        yield begun("its own, for another directory", me, 1, directory=OTHER_DIRECTORY)
        yield begun("its own, for any directory", me, 1, directory=Uuid.ZERO)

        def ended(name: str, *args: Any, version: int = version, **changes: Any) -> Step:
            return Step(f"end v{version}, {name}", an_end(place, *args, **changes), version)

        yield ended("another cluster", 3001, 0, cluster_id="another")
        yield ended("no cluster", 3001, 0, cluster_id=None)
        yield ended("another topic", 3001, 0, topic="other")
        yield ended("another partition", 3001, 0, partition=1)
        yield ended("a partition twice", 3001, 0, copies=2)
        yield ended("an earlier epoch", 3001, 0)
        yield ended("a negative epoch", 3001, -1)
        yield ended("no replica id", -1, 1)
        yield ended("its own", me, 1)


def _fetches(place: Place) -> Generator[Step, Any, int]:
    def fetch_step(name: str, epoch: int, offset: int, version: int = 18, **changes: Any) -> Step:
        return Step(f"fetch v{version}, {name}", a_fetch(place, version, epoch, offset, **changes), version)

    first = yield fetch_step("from the beginning", 1, 0)
    end_offset: int = first.responses[0].partitions[0].high_watermark
    for version in range(4, 19):
        yield fetch_step("of every version", 1, 0, version)
        yield fetch_step("of every version, at the end", 1, end_offset, version, last_epoch=1)
        yield fetch_step("of every version, another topic", 1, 0, version, topic="other", topic_id=Uuid.from_int(77))
        yield fetch_step("of every version, an earlier epoch", 0, 0, version)
        yield fetch_step("of every version, a later epoch", 2, 0, version)
    for version in (12, 13, 16, 17, 18):
        yield fetch_step("another cluster", 1, 0, version, cluster_id="another")
        yield fetch_step("no cluster", 1, 0, version, cluster_id=None)
        yield fetch_step("another partition", 1, 0, version, partition=1)
        yield fetch_step("a partition twice", 1, 0, version, copies=2)
        yield fetch_step("a topic twice", 1, 0, version, topics=2)
        yield fetch_step("no topic", 1, 0, version, topics=0)
        yield fetch_step("no partition", 1, 0, version, copies=0)
        yield fetch_step("no epoch", -1, 0, version)
        yield fetch_step("a negative wait", 1, 0, version, max_wait_ms=-1)
        yield fetch_step("a negative wait in an earlier epoch", 0, 0, version, max_wait_ms=-1)
        yield fetch_step("a negative offset", 1, -1, version)
        yield fetch_step("a negative last epoch", 1, 0, version, last_epoch=-1)
        yield fetch_step("a later last epoch", 1, 0, version, last_epoch=2)
        yield fetch_step("beyond the end", 1, end_offset + 10, version, last_epoch=1)
        yield fetch_step("beyond the end with an unknown epoch", 1, end_offset + 10, version, last_epoch=0)
        yield fetch_step("in the middle", 1, 3, version, last_epoch=1)
        yield fetch_step("in the middle with an unknown epoch", 1, 3, version, last_epoch=0)
        yield fetch_step("the start with an epoch", 1, 0, version, last_epoch=1)
        yield fetch_step("one byte", 1, 0, version, max_bytes=1)
        yield fetch_step("no bytes", 1, 0, version, max_bytes=0)
        yield fetch_step("negative bytes", 1, 0, version, max_bytes=-1)
        yield fetch_step("no replica id", 1, 0, version, replica_id=-1)
        yield fetch_step("no replica id, at the end", 1, end_offset, version, replica_id=-1, last_epoch=1)
        yield fetch_step("a debugging replica", 1, 0, version, replica_id=-2)
        yield fetch_step("with a session", 1, 0, version, session_id=5, session_epoch=3)
        yield fetch_step("a session begins", 1, 0, version, session_id=0, session_epoch=0)
        yield fetch_step("with a directory", 1, 0, version, directory=OTHER_DIRECTORY)
        yield fetch_step("waits", 1, end_offset, version, last_epoch=1, max_wait_ms=50, high_watermark=end_offset)
        yield fetch_step("knows an old end", 1, end_offset, version, last_epoch=1, max_wait_ms=50, high_watermark=0)
    return end_offset


def _snapshot_fetches(place: Place, end_offset: int) -> Iterator[Step]:
    for version in (0, 1):

        def fetch_step(name: str, epoch: int = 1, version: int = version, **changes: Any) -> Step:
            snapshot, position = changes.pop("snapshot", (5, 1)), changes.pop("position", 0)
            request = a_snapshot_fetch(place, epoch, snapshot, position, **changes)
            return Step(f"fetch snapshot v{version}, {name}", request, version)

        yield fetch_step("unknown")
        yield fetch_step("of the voters", snapshot=(0, 0))
        yield fetch_step("of the end", snapshot=(end_offset, 1))
        yield fetch_step("unknown, at a negative position", position=-1)
        yield fetch_step("another cluster", cluster_id="another")
        yield fetch_step("no cluster", cluster_id=None)
        yield fetch_step("another topic", topic="other")
        yield fetch_step("another partition", partition=1)
        yield fetch_step("a partition twice", copies=2)
        yield fetch_step("a topic twice", topics=2)
        yield fetch_step("an earlier epoch", 0)
        yield fetch_step("a later epoch", 2)
        yield fetch_step("no epoch", -1)
        yield fetch_step("another topic in an earlier epoch", 0, topic="other")


def _descriptions() -> Iterator[Step]:
    for version in (0, 1, 2):

        def describe_step(name: str, *partitions: tuple[str, int], version: int = version) -> Step:
            return Step(f"describe v{version}, {name}", a_description(*partitions), version)

        yield describe_step("as usual", (TOPIC, 0))
        yield describe_step("another partition", (TOPIC, 1))
        yield describe_step("another topic", ("other", 0))
        yield describe_step("two partitions", (TOPIC, 0), (TOPIC, 1))
        yield describe_step("two topics", (TOPIC, 0), ("other", 3))
        yield describe_step("nothing")


def _changes_of_voters(place: Place) -> Iterator[Step]:
    me, mine = place.node_id, place.directory_id
    for version in (0, 1):

        def added(name: str, voter_id: int, directory: Uuid, version: int = version, **changes: Any) -> Step:
            return Step(f"add v{version}, {name}", an_add(place, voter_id, directory, **changes), version)

        yield added("another cluster", 9, OTHER_DIRECTORY, cluster_id="another")
        yield added("no cluster", 9, OTHER_DIRECTORY, cluster_id=None)
        yield added("no replica id", -1, OTHER_DIRECTORY)
        yield added("no directory", 9, Uuid.ZERO)
        yield added("no listener", 9, OTHER_DIRECTORY, listeners={})
        yield added("another listener", 9, OTHER_DIRECTORY, listeners={"OTHER": place.port})
        yield added("a voter", me, mine)
        yield added("a voter with another directory", me, OTHER_DIRECTORY)
        yield added("a voter without a directory", me, Uuid.ZERO)
        yield added("a replica that does not fetch", 9, OTHER_DIRECTORY)

    def removed(name: str, voter_id: int, directory: Uuid, **changes: Any) -> Step:
        return Step(f"remove, {name}", a_removal(place, voter_id, directory, **changes), 0)

    yield removed("another cluster", me, mine, cluster_id="another")
    yield removed("no replica id", -1, mine)
    yield removed("an unknown replica", 9, OTHER_DIRECTORY)
    yield removed("no directory", me, Uuid.ZERO)
    yield removed("another directory", me, OTHER_DIRECTORY)
    yield removed("the last one", me, mine)
    yield removed("the last one, no cluster", me, mine, cluster_id=None)

    def updated(name: str, epoch: int, voter_id: int, directory: Uuid, **changes: Any) -> Step:
        return Step(f"update, {name}", an_update(place, epoch, voter_id, directory, **changes), 0)

    yield updated("another cluster", 1, me, mine, cluster_id="another")
    yield updated("another cluster in an earlier epoch", 0, me, mine, cluster_id="another")
    yield updated("an earlier epoch", 0, me, mine)
    yield updated("a later epoch", 2, me, mine)
    yield updated("no epoch", -1, me, mine)
    yield updated("no replica id", 1, -1, mine)
    yield updated("an unknown replica", 1, 9, OTHER_DIRECTORY)
    yield updated("no directory", 1, me, Uuid.ZERO)
    yield updated("another directory", 1, me, OTHER_DIRECTORY)
    yield updated("no listener", 1, me, mine, listeners={})
    yield updated("another listener", 1, me, mine, listeners={"OTHER": 9})
    yield updated("levels too low", 1, me, mine, levels=(0, 0))
    yield updated("levels too high", 1, me, mine, levels=(2, 3))
    yield updated("minimum above maximum", 1, me, mine, levels=(1, 0))
    yield updated("negative levels", 1, me, mine, levels=(-1, 1))
    yield updated("an unknown replica with levels too low", 1, 9, OTHER_DIRECTORY, levels=(0, 0))


def _the_next_epoch(place: Place) -> Iterator[Step]:
    """A leader learns of a later epoch and, as the only voter, leads the epoch after that."""
    yield Step("vote, unsound in a later epoch", a_vote(place, replica_epoch=5, last_offset=-1), 2)
    yield Step("vote, a later epoch, behind", a_vote(place, replica_epoch=5), 2)


# --- a voter with static voters


def static_story(place: Place) -> Story:
    """The story of the only voter, kraft.version 0."""
    me, mine = place.node_id, place.directory_id
    yield Step("add, as usual", an_add(place, 9, OTHER_DIRECTORY), 1)
    yield Step("add, another cluster", an_add(place, 9, OTHER_DIRECTORY, cluster_id="another"), 1)
    yield Step("add, no directory", an_add(place, 9, Uuid.ZERO), 1)
    yield Step("add, no listener", an_add(place, 9, OTHER_DIRECTORY, listeners={}), 1)
    yield Step("add, a voter", an_add(place, me, mine), 1)
    yield Step("remove, an unknown replica", a_removal(place, 9, OTHER_DIRECTORY), 0)
    yield Step("remove, no directory", a_removal(place, me, Uuid.ZERO), 0)
    yield Step("remove, itself", a_removal(place, me, mine), 0)
    yield Step("update, no directory", an_update(place, 1, me, Uuid.ZERO), 0)
    yield Step("update, an unknown replica", an_update(place, 1, 9, OTHER_DIRECTORY), 0)
    yield Step("update, no listener", an_update(place, 1, me, mine, listeners={}), 0)
    yield Step("update, levels too high", an_update(place, 1, me, mine, levels=(1, 1)), 0)
    yield Step("update, minimum above maximum", an_update(place, 1, me, mine, levels=(1, 0)), 0)
    yield Step("update, an earlier epoch", an_update(place, 0, me, mine), 0)
    yield Step("describe", a_description((TOPIC, 0)), 2)
    yield Step("vote, for any directory", a_vote(place, voter_directory_id=Uuid.ZERO), 2)
    yield Step("vote, for another directory", a_vote(place, voter_directory_id=OTHER_DIRECTORY), 2)
    yield Step("begin, for another directory", a_begin(place, me, 1, directory=OTHER_DIRECTORY), 1)


# --- the only voter, with a snapshot


def snapshot_story(place: Place) -> Story:
    """The story of the only voter, which writes a snapshot of its whole log and then receives no more records."""
    snapshot, high_watermark = None, -1
    while snapshot is None or snapshot.end_offset < high_watermark:
        answer = yield Step("fetch, from the beginning", a_fetch(place, 18, 1, 0), 18)
        snapshot = answer.responses[0].partitions[0].snapshot_id
        high_watermark = answer.responses[0].partitions[0].high_watermark
    end_offset, epoch = snapshot.end_offset, snapshot.epoch

    def fetch_step(name: str, offset: int, last_epoch: int, version: int = 18, **changes: Any) -> Step:
        return Step(
            f"fetch v{version}, {name}", a_fetch(place, version, 1, offset, last_epoch=last_epoch, **changes), version
        )

    for version in (13, 18):
        yield fetch_step("the beginning", 0, 0, version)
        yield fetch_step("the beginning with an epoch", 0, 1, version)
        yield fetch_step("after the first record", 1, 1, version)
        yield fetch_step("after the first record, of no epoch", 1, 0, version)
        yield fetch_step("in a batch", 4, 1, version)
        yield fetch_step("the end", end_offset, 1, version)
        yield fetch_step("the end, of no epoch", end_offset, 0, version)
        yield fetch_step("beyond the end", end_offset + 1, 1, version)

    def chunk(name: str, position: int, version: int = 1, **changes: Any) -> Step:
        wanted = changes.pop("snapshot", (end_offset, epoch))
        return Step(f"chunk v{version}, {name}", a_snapshot_fetch(place, 1, wanted, position, **changes), version)

    for version in (0, 1):
        first = yield chunk("the first", 0, version)
        size = first.topics[0].partitions[0].size
        yield chunk("in between", 61, version)
        yield chunk("the last byte", size - 1, version)
        yield chunk("beyond the end", 0, version, max_bytes=10 * size)
        yield chunk("one byte", 0, version, max_bytes=1)
        yield chunk("no bytes", 0, version, max_bytes=0)
        yield chunk("without a replica id", 0, version, replica_id=-1)
        yield chunk("at the end", size, version)
        yield chunk("at a negative position", -1, version)
        yield chunk("of an earlier epoch", 0, version, snapshot=(end_offset, 0))
        yield chunk("of an earlier end", 0, version, snapshot=(end_offset - 1, 1))


# --- an authorizer, and a user without rights


def denied_story(place: Place) -> Story:
    """Requests reserved for nodes, sent by another client."""
    for key in (ApiKey.FETCH, ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH, ApiKey.FETCH_SNAPSHOT,
                ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER, ApiKey.UPDATE_RAFT_VOTER):  # fmt: skip
        for version in range(API_TABLE[key].lowest, API_TABLE[key].highest + 1):
            yield Step(f"{key.name} v{version}", outdated_quorum_request(key, version), version)
    for key, request in NODE_REQUESTS.items():
        for version in range(API_TABLE[key].lowest, API_TABLE[key].highest + 1):
            yield Step(f"{key.name} v{version}", request, version)
    for version in (0, 1, 2):
        request = a_description((TOPIC, 0), (TOPIC, 1), ("other", 0))
        yield Step(f"DESCRIBE_QUORUM v{version}", request, version)


# --- one of three voters, alone, whose timers never expire


def following_story(place: Place) -> Story:
    yield from _without_leader(place)
    yield from _votes(place)
    yield from _a_leader_that_follows(place)


def _only_for_leaders(place: Place, when: str, epoch: int) -> Iterator[Step]:
    for version in (12, 15, 16, 18):
        for name, request_epoch in (("this", epoch), ("an earlier", epoch - 1), ("a later", epoch + 1)):
            request = a_fetch(place, version, request_epoch, 0)
            yield Step(f"{when}: fetch v{version} in {name} epoch", request, version)
    for version in (0, 1):
        for name, request_epoch in (("this", epoch), ("an earlier", epoch - 1), ("a later", epoch + 1)):
            request = a_snapshot_fetch(place, request_epoch, (5, 1), 0)
            yield Step(f"{when}: fetch snapshot v{version} in {name} epoch", request, version)
    for version in (0, 1, 2):
        yield Step(f"{when}: describe v{version}", a_description((TOPIC, 0)), version)
    yield Step(f"{when}: describe another topic", a_description(("other", 0)), 2)
    yield Step(f"{when}: add", an_add(place, 9, OTHER_DIRECTORY), 1)
    yield Step(f"{when}: add without a directory", an_add(place, 9, Uuid.ZERO), 1)
    yield Step(f"{when}: add in another cluster", an_add(place, 9, Uuid.ZERO, cluster_id="another"), 1)
    yield Step(f"{when}: remove", a_removal(place, 3001, OTHER_DIRECTORY), 0)
    yield Step(f"{when}: remove without a directory", a_removal(place, 3001, Uuid.ZERO), 0)
    for name, request_epoch in (("this", epoch), ("an earlier", epoch - 1), ("a later", epoch + 1)):
        yield Step(f"{when}: update in {name} epoch", an_update(place, request_epoch, 3001, OTHER_DIRECTORY), 0)


def _without_leader(place: Place) -> Iterator[Step]:
    yield from _only_for_leaders(place, "no leader", 0)
    yield Step("no leader: pre-vote", a_vote(place, replica_epoch=0, pre_vote=True), 2)
    yield Step("no leader: pre-vote of another", a_vote(place, replica_epoch=0, replica_id=3002, pre_vote=True), 2)
    yield Step("no leader: end of no replica", an_end(place, -1, 0), 1)


def _votes(place: Place) -> Iterator[Step]:
    def vote_step(name: str, version: int = 2, **changes: Any) -> Step:
        return Step(f"election: {name}, v{version}", a_vote(place, **changes), version)

    second: dict[str, Any] = {"replica_id": 3002, "replica_directory_id": Uuid.from_int(0x3002)}
    yield vote_step("a pre-vote of a later epoch", replica_epoch=3, last_offset_epoch=0, pre_vote=True)
    yield vote_step("the earlier epoch", replica_epoch=2)
    yield vote_step("for another voter in a later epoch", replica_epoch=4, voter_id=3002)
    yield vote_step("the first of the epoch", replica_epoch=4)
    yield vote_step("the same again", replica_epoch=4)
    yield vote_step("the same with another directory", replica_epoch=4, replica_directory_id=OTHER_DIRECTORY)
    yield vote_step("the same without a directory", replica_epoch=4, replica_directory_id=Uuid.ZERO)
    yield vote_step("the same", 0, replica_epoch=4)
    yield vote_step("another", replica_epoch=4, **second)
    yield vote_step("a pre-vote of another", replica_epoch=4, pre_vote=True, **second)
    yield vote_step("an unknown replica in the next epoch", replica_epoch=5, replica_id=99)
    yield vote_step("without directory", 0, replica_epoch=6)
    yield vote_step("now with a directory", 2, replica_epoch=6)
    yield vote_step("of itself", replica_epoch=6, replica_id=place.node_id, replica_directory_id=place.directory_id)
    yield from _only_for_leaders(place, "voted", 6)


def _a_leader_that_follows(place: Place) -> Iterator[Step]:
    def begun(name: str, *args: Any, version: int = 1, **changes: Any) -> Step:
        return Step(f"following: begin v{version}, {name}", a_begin(place, *args, **changes), version)

    def vote_step(name: str, version: int = 2, **changes: Any) -> Step:
        return Step(f"following: vote v{version}, {name}", a_vote(place, **changes), version)

    elsewhere = {"CONTROLLER": 1}
    yield begun("of this epoch", 3002, 6, endpoints=elsewhere)
    yield begun("the same again", 3002, 6, endpoints=elsewhere)
    yield begun("the same", 3002, 6, version=0)
    yield begun("the same from elsewhere", 3002, 6, endpoints={"CONTROLLER": 2})
    yield begun("of an earlier epoch", 3001, 5, endpoints=elsewhere)
    yield vote_step("of this epoch", replica_epoch=6)
    yield vote_step("a pre-vote", replica_epoch=6, pre_vote=True, last_offset_epoch=6)
    yield vote_step("a pre-vote of a replica behind", replica_epoch=6, pre_vote=True)
    yield vote_step("of an earlier epoch", replica_epoch=5)
    yield vote_step("no replica id", replica_epoch=6, replica_id=-1)
    yield from _only_for_leaders(place, "following", 6)
    yield begun("of the next epoch, for another voter", 3001, 7, voter_id=3002, endpoints=elsewhere)
    yield begun("of the next epoch, for another directory", 3001, 8, directory=OTHER_DIRECTORY, endpoints=elsewhere)
    yield begun("of the next epoch, without endpoints", 3001, 9)
    yield begun("of the next epoch", 3002, 10, version=0)
    yield begun("of an unknown replica", 99, 11, endpoints=elsewhere)
    yield vote_step("in the epoch of an unknown replica", replica_epoch=11)
    yield Step("following: end v1, of an earlier epoch", an_end(place, 99, 10), 1)
    yield Step("following: end v1, of a later epoch", an_end(place, 3001, 14, candidates=[(3002, Uuid.ZERO)]), 1)
    yield Step("following: end v0, of a later epoch", an_end(place, 3002, 15, successors=[3001]), 0)
