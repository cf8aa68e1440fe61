"""Defects in what a node does while another node is suspended with its connections open."""

from __future__ import annotations

from typing import Any

from tests.simulation.cluster.defects import defect, replace_in


@defect(
    "heartbeats-wait-for-a-hung-controller",
    "a heartbeat waits for a hung controller as long as any other request",
    needs="standstill",
)
def _() -> None:
    replace_in("broker.attempt_limit", "AttemptLimit.of", lambda original: lambda self, attempts: 30_000)
    replace_in(
        "server.controller_channel.network", "_ConnectionPool.follow", lambda original: lambda self, leader: None
    )


@defect(
    "no-session-from-a-new-controller",
    "a new active controller fences brokers that have not contacted it yet",
    needs="standstill",
)
def _() -> None:
    def make(original: Any) -> Any:
        return lambda manager, broker_id, epoch, now_ms: original(manager, broker_id, epoch, now_ms - 1_000_000)

    replace_in("controller.broker_heartbeat_manager", "BrokerHeartbeatManager.grant_session", make)


@defect(
    "a-session-lasts-five-times-as-long",
    "a suspended broker is fenced only after five session time-outs",
    needs="standstill",
)
def _() -> None:
    def make(original: Any) -> Any:
        return lambda manager, session_timeout_ms: original(manager, 5 * session_timeout_ms)

    replace_in("controller.broker_heartbeat_manager", "BrokerHeartbeatManager.__init__", make)


@defect(
    "only-the-leader-is-contacted-for-its-successor",
    "a broker waits for the suspended leader of the metadata log, and contacts only it to find its successor",
    needs="standstill",
)
def _() -> None:
    def make(original: Any) -> Any:
        def send(replica: Any, now_ms: int) -> None:
            if replica.quorum.leader_id is None:
                original(replica, now_ms)

        return send

    replace_in("raft.replication", "send_fetch_to_bootstrap_server", make)
