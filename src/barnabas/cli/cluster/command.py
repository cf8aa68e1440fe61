"""``barnabas cluster describe|cluster-id|rebalance|drain|unregister|up``: the nodes of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.cli.arguments.cluster_app import cluster_app, main_of
from barnabas.cli.arguments.cluster_options import ChangeOptions, ClusterOptions, Flag, NodeId
from barnabas.cli.cluster.up import up
from barnabas.cli.moves.drain import drain
from barnabas.cli.moves.rebalance import rebalance
from barnabas.cli.output.answer import Answer, Change, Problem, change_answer
from barnabas.cli.output.table import Sheet

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient, ClusterDescription, Node

__all__ = ["app", "main"]

app = cluster_app(
    "cluster",
    "Describe the nodes of a cluster, balance the load of brokers, empty and unregister brokers, "
    "and start a cluster for development.",
)
main = main_of(app)
app.command(up)
app.command(rebalance)
app.command(drain)


@app.command(name=["describe", "list-endpoints"])
def describe(
    *,
    include_fenced_brokers: Flag = False,
    authorized_operations: Flag = False,
    options: ClusterOptions | None = None,
) -> int:
    """Show the brokers, or with --bootstrap-controller the controllers.

    For example:

        barnabas cluster describe
        barnabas cluster describe --include-fenced-brokers
        barnabas cluster describe --bootstrap-controller localhost:9093 --output yaml

    Parameters
    ----------
    include_fenced_brokers
        Also show brokers that are registered but not alive. Needs Kafka 4.0 or later.
    authorized_operations
        Also show the operations that you may perform on the cluster.
    """

    async def work(admin: AdminClient) -> Answer:
        from barnabas.cli.output.authorized_operations import add_operations

        found = await admin.describe_cluster(
            include_fenced_brokers=include_fenced_brokers, include_authorized_operations=authorized_operations
        )
        answer = _described(found)
        if not authorized_operations:
            return answer
        return add_operations(answer, [answer.document], [("Cluster:kafka-cluster", found.authorized_operations)])

    return (options or ClusterOptions()).run(work)


@app.command(name="cluster-id")
def cluster_id(*, options: ClusterOptions | None = None) -> int:
    """Print the id of the cluster.

    For example:

        barnabas cluster cluster-id --bootstrap-server localhost:9092
    """

    async def work(admin: AdminClient) -> Answer:
        found = (await admin.describe_cluster()).cluster_id
        sheet = Sheet()
        sheet.add(found or "")
        return Answer({"cluster_id": found}, [sheet])

    return (options or ClusterOptions()).run(work)


@app.command
def unregister(broker_id: NodeId, *, options: ChangeOptions | None = None) -> int:
    """Unregister a broker that has permanently stopped. A live broker would register itself again.

    For example:

        barnabas cluster unregister --broker-id 3 --dry-run

    Parameters
    ----------
    broker_id
        The id of the broker.
    """
    options = options or ChangeOptions()
    dry_run = options.dry_run

    async def work(admin: AdminClient) -> Answer:
        change = Change("broker", str(broker_id), "unregistered")
        if not dry_run:
            await admin.unregister_broker(broker_id)
            return change_answer([change], dry_run=False)
        found = await admin.describe_cluster(include_fenced_brokers=True)
        node = next((node for node in found.nodes if node.id == broker_id), None)
        if node is None:
            known = ", ".join(str(node.id) for node in found.nodes)
            problem = Problem(
                "no broker with this id is registered", str(broker_id), advice=f"registered brokers: {known}"
            )
            return change_answer([], [problem], dry_run=True)
        notes = [] if node.is_fenced else [f"broker {node} is alive and would register itself again"]
        return change_answer([change], dry_run=True, notes=notes)

    return options.run(work, right="ALTER on Cluster")


def _described(found: ClusterDescription) -> Answer:
    sheet = Sheet(f"cluster {found.cluster_id}", ("node", "host", "port", "rack", "state"))
    for node in found.nodes:
        state = "fenced" if node.is_fenced else ""
        sheet.add(str(node.id), node.host, str(node.port), node.rack or "", state, style="red" if state else "")
    sheet.drop_last_column_if_empty()
    if not any(node.rack for node in found.nodes) and len(sheet.columns) == 4:
        sheet.drop_last_column_if_empty()
    controller = None if found.controller is None else found.controller.id
    document = {
        "cluster_id": found.cluster_id,
        "controller": controller,
        "nodes": [_node(node) for node in found.nodes],
    }
    return Answer(document, [sheet])


def _node(node: Node) -> dict[str, object]:
    return {"id": node.id, "host": node.host, "port": node.port, "rack": node.rack, "fenced": node.is_fenced}
