"""``barnabas quorum describe``: show the leader of the controllers, and the lag of the others.

``add-controller`` and ``remove-controller`` are in ``voters``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.cli.arguments.cluster_app import cluster_app, main_of
from barnabas.cli.arguments.cluster_options import ClusterOptions, Flag
from barnabas.cli.output.answer import Answer
from barnabas.cli.output.moment import moment
from barnabas.cli.output.table import Sheet
from barnabas.cli.quorum.voters import add_controller, remove_controller

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient, QuorumInfo, ReplicaState

__all__ = ["app", "main"]

app = cluster_app("quorum", "Describe the controller quorum, and add and remove voters.")
main = main_of(app)
app.command(add_controller, name="add-controller")
app.command(remove_controller, name="remove-controller")


@app.command
def describe(
    *,
    status: Flag = False,
    replication: Flag = False,
    human_readable: Flag = False,
    options: ClusterOptions | None = None,
) -> int:
    """Show the leader, the voters and the observers of the metadata log.

    For example:

        barnabas quorum describe
        barnabas quorum describe --status --bootstrap-controller localhost:9093
        barnabas quorum describe --replication --output json

    Parameters
    ----------
    status
        Show only the leader and the log offsets.
    replication
        Show only the offset of each replica.
    human_readable
        Has no effect: tables always show times as dates. Kafka's tool needs this option.
    """
    both = status == replication
    del human_readable

    async def work(admin: AdminClient) -> Answer:
        found = await admin.describe_quorum()
        sheets = []
        if status or both:
            sheets.append(_status(found))
        if replication or both:
            sheets.append(_replication(found))
        return Answer(_document(found), sheets)

    return (options or ClusterOptions()).run(work, right="DESCRIBE on Cluster")


def _lag(found: QuorumInfo, replica: ReplicaState) -> int:
    leader = next((voter.log_end_offset for voter in found.voters if voter.replica_id == found.leader_id), 0)
    return max(0, leader - replica.log_end_offset)


def _status(found: QuorumInfo) -> Any:
    sheet = Sheet()
    followers = [_lag(found, voter) for voter in found.voters if voter.replica_id != found.leader_id]
    sheet.add("leader", str(found.leader_id))
    sheet.add("leader epoch", str(found.leader_epoch))
    sheet.add("high watermark", str(found.high_watermark))
    sheet.add("maximum voter lag", str(max(followers, default=0)))
    sheet.add("voters", ", ".join(str(voter.replica_id) for voter in found.voters))
    sheet.add("observers", ", ".join(str(observer.replica_id) for observer in found.observers) or "none")
    return sheet


def _replication(found: QuorumInfo) -> Any:
    sheet = Sheet(
        columns=("node", "role", "directory", "log end offset", "lag", "last fetch", "last caught up"),
        drop_first=("directory",),
    )
    for replicas, role in ((found.voters, "follower"), (found.observers, "observer")):
        for state in replicas:
            is_leader = role == "follower" and state.replica_id == found.leader_id
            sheet.add(
                str(state.replica_id), "leader" if is_leader else role, str(state.directory_id),
                str(state.log_end_offset), str(_lag(found, state)),
                moment(state.last_fetch_timestamp_ms, none="unknown"),
                moment(state.last_caught_up_timestamp_ms, none="unknown"),
            )  # fmt: skip
    return sheet


def _document(found: QuorumInfo) -> dict[str, Any]:
    def replica(state: ReplicaState) -> dict[str, Any]:
        return {
            "id": state.replica_id,
            "directory_id": str(state.directory_id),
            "log_end_offset": state.log_end_offset,
            "lag": _lag(found, state),
            "last_fetch_timestamp_ms": state.last_fetch_timestamp_ms,
            "last_caught_up_timestamp_ms": state.last_caught_up_timestamp_ms,
        }

    return {
        "leader": found.leader_id,
        "leader_epoch": found.leader_epoch,
        "high_watermark": found.high_watermark,
        "voters": [replica(voter) for voter in found.voters],
        "observers": [replica(observer) for observer in found.observers],
        "nodes": [
            {
                "id": node.id,
                "endpoints": [{"listener": e.listener, "host": e.host, "port": e.port} for e in node.endpoints],
            }
            for node in found.nodes
        ],
    }
