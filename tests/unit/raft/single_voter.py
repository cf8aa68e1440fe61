"""A replica that is the only voter, on a log in memory."""

from __future__ import annotations

from barnabas.common.uuid import Uuid
from barnabas.raft.control_record_state_machine import BOOTSTRAP_OFFSET, ControlRecordStateMachine
from barnabas.raft.log_state import LogState
from barnabas.raft.raft_config import RaftConfig
from barnabas.raft.raft_node import RaftNode
from barnabas.raft.voter_set import Endpoint, VoterNode, VoterSet

__all__ = ["CONFIG", "TextSerde", "dynamic_quorum", "only_voter"]

CONFIG = RaftConfig(node_id=1, directory_id=Uuid.from_int(1001), cluster_id="cluster")


class TextSerde:
    """Records are strings."""

    def encode(self, record: str) -> bytes:
        return record.encode()

    def decode(self, value: bytes | memoryview) -> str:
        return bytes(value).decode()


def voter(node_id: int) -> VoterNode:
    return VoterNode(
        key=CONFIG.key._replace(id=node_id, directory_id=Uuid.from_int(1000 + node_id)),
        listeners={"CONTROLLER": Endpoint(f"host{node_id}", 9093)},
        kraft_version_max=1,
    )


def dynamic_quorum(*node_ids: int) -> ControlRecordStateMachine:
    """Return the state after reading the 0-0 checkpoint of a directory that was formatted with these voters."""
    control_records = ControlRecordStateMachine()
    control_records.replay_kraft_version(BOOTSTRAP_OFFSET, 1)
    control_records.replay_voters(BOOTSTRAP_OFFSET, VoterSet(voter(node_id) for node_id in node_ids))
    return control_records


def only_voter(
    log: LogState | None = None, control_records: ControlRecordStateMachine | None = None, config: RaftConfig = CONFIG
) -> RaftNode:
    return RaftNode(
        config=config,
        log=log or LogState(),
        control_records=control_records or dynamic_quorum(config.node_id),
        serde=TextSerde(),
        random_below=lambda bound: 0,
    )
