"""What an operator does to the quorum while it runs: voters come and go, a disk is replaced, a controller moves.

An operator knows that more than the faults of the world would be an end for good: nobody is taken away, and no disk or
address changed, unless a majority of what is left is whole afterwards. All else may happen at any moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.common.errors import ApiException
from barnabas.metadata.features import KRAFT_VERSION
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from barnabas.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from barnabas.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from barnabas.raft.errors import NotLeaderException
from barnabas.security.principal import parse_principal
from barnabas.security.request_context import RequestContext

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.protocol.schema import Message
    from tests.simulation.cluster.node import SimulatedNode
    from tests.simulation.cluster.voters import Voters
    from tests.simulation.cluster.world import World

__all__ = ["QUORUM_CALLS", "may_lose", "unsettled_quorum"]

CLUSTER_ID = "simulated-cluster-id00"
LISTENER = "CONTROLLER"
ADD_TIMEOUT_MS = 2000


# --- what may be done


def _is_whole(world: World, voter: tuple[int, str]) -> bool:
    """Whether others find this voter where the quorum thinks that it is, with the disk that it voted with, to vote."""
    node = world.nodes[voter[0]]
    if world.checks.rot.may_recover(node):
        return False
    return voter[1] in ("", node.directory) and world.checks.voters.ports.get(node.id) == node.port


def _can_elect(world: World, voters: Voters, without: int | None = None) -> bool:
    whole = [voter for voter in voters if voter[0] != without and _is_whole(world, voter)]
    return len(whole) * 2 > len(voters)


def may_lose(world: World, node: SimulatedNode) -> bool:
    """Whether this controller's disk or address may go: all know the same voters, and the others are enough."""
    committed = world.checks.voters.committed.newest
    if not all(each.is_up for each in world.controllers):
        return False
    if any(each.voters.newest != committed for each in world.controllers):
        return False
    if any(each.driver.node.is_recovering for each in world.controllers):
        return False
    return not world.quorum_calls and _can_elect(world, committed, without=node.id)


def unsettled_quorum(world: World) -> str | None:
    """At the end every voter is known by the address that it has. A leader tells its own itself, as Kafka's do."""
    for voter in world.checks.voters.committed.newest:
        node = world.nodes[voter[0]]
        if not node.is_leader and voter[1] == node.directory and world.checks.voters.ports.get(node.id) != node.port:
            return f"{node.name} has moved, and the quorum does not know where"
    return None


# --- what is asked of the active controller


def _ask_leader(world: World, make: Callable[[SimulatedNode], Message | None], *, is_eager: bool = False) -> None:
    """``is_eager``: not the leader of now, but the next one, as soon as there is one."""

    def ask(leader: SimulatedNode) -> None:
        leader.act(lambda: world.loop.create_task(_ask(world, leader, make)))

    leader = next((node for node in world.controllers if node.is_leader), None)
    if is_eager:
        world.at_next_leader.append(ask)
    elif leader is not None:
        ask(leader)


async def _ask(world: World, leader: SimulatedNode, make: Callable[[SimulatedNode], Message | None]) -> None:
    """Decided only now: the node may have stood still since."""
    request = make(leader)
    if request is None:
        return
    name = type(request).__name__
    number = world.checks.begun(leader, name)
    world.quorum_calls.add(number)
    text, begun = "is not answered", world.checks.end_offset
    try:
        response: Any = await _answer(leader, request)
        text = f"{response.error_code} {getattr(response, 'error_message', None) or ''}"
        problem = world.checks.voters.answer_problem(leader, begun, request, response)
        if problem is not None:
            world.checks.fail(f"{leader.name} answers {name}: {problem}")
    except (ApiException, NotLeaderException) as error:
        text = f"{type(error).__name__}: {error}"
    finally:
        world.quorum_calls.discard(number)
        world.checks.ended(number)
        world.say(f"{leader.name}: {name}: {text}")


async def _answer(leader: SimulatedNode, request: Message) -> Message:
    """Changes of the voters are the replica's to answer; the rest is the controller's."""
    key = ApiKey(request.API_KEY)
    version = API_TABLE[key].highest
    if isinstance(request, AddRaftVoterRequest | RemoveRaftVoterRequest):
        return await leader.driver.handle_request(request, version)
    if leader.in_process is None:
        raise NotLeaderException("no controller")
    context = RequestContext(
        api_key=key, api_version=version, principal=parse_principal("User:admin"), client_host="192.0.2.7"
    )
    return await leader.in_process.forward(request, context)


def _add(world: World, node_id: int, is_eager: bool) -> None:
    node = world.nodes[node_id]

    def make(leader: SimulatedNode) -> Message:
        return AddRaftVoterRequest(
            cluster_id=CLUSTER_ID,
            timeout_ms=ADD_TIMEOUT_MS,
            voter_id=node.id,
            voter_directory_id=node.directory_id,
            listeners=[Listener(name=LISTENER, host=node.endpoint.host, port=node.endpoint.port)],
        )

    _ask_leader(world, make, is_eager=is_eager)


def _remove(world: World, node_id: int, is_stale: bool, is_eager: bool) -> None:
    """``is_stale``: by the directory that the node has lost."""
    node = world.nodes[node_id]

    def make(leader: SimulatedNode) -> Message | None:
        directory_id = node.directory_ids[0] if is_stale else node.directory_id
        left = frozenset(voter for voter in leader.voters.newest if voter != (node.id, str(directory_id)))
        if not left or not _can_elect(world, left):
            return None
        return RemoveRaftVoterRequest(cluster_id=CLUSTER_ID, voter_id=node.id, voter_directory_id=directory_id)

    _ask_leader(world, make, is_eager=is_eager)


def _upgrade_quorum(world: World) -> None:
    """From voters in the settings to voters in the log."""
    update = FeatureUpdateKey(feature=KRAFT_VERSION, max_version_level=1, upgrade_type=1)
    _ask_leader(world, lambda leader: UpdateFeaturesRequest(timeout_ms=5000, feature_updates=[update]))


QUORUM_CALLS: dict[str, Callable[..., None]] = {
    "add_voter": _add,
    "remove_voter": _remove,
    "upgrade_quorum": _upgrade_quorum,
}
