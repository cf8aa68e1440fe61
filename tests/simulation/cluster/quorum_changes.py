"""Operations on a running quorum: adding and removing voters, replacing a disk, moving a controller to another port.

An operator must not destroy the quorum: a voter is removed, or a disk or an address changed, only if a majority of the
remaining voters is whole afterwards. All other faults may occur at any moment.
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


# --- permitted operations


def _is_whole(world: World, voter: tuple[int, str]) -> bool:
    """Return whether this voter can vote: it has the address that the quorum knows, and the disk that it voted with."""
    node = world.nodes[voter[0]]
    if world.checks.rot.may_recover(node):
        return False
    return voter[1] in ("", node.directory) and world.checks.voters.ports.get(node.id) == node.port


def _can_elect(world: World, voters: Voters, without: int | None = None) -> bool:
    whole = [voter for voter in voters if voter[0] != without and _is_whole(world, voter)]
    return len(whole) * 2 > len(voters)


def may_lose(world: World, node: SimulatedNode) -> bool:
    """Return whether this controller may lose its disk or address.

    All controllers must have the same voters, and the other voters must suffice for a majority.
    """
    committed = world.checks.voters.committed.newest
    if not all(controller.is_up for controller in world.controllers):
        return False
    if any(controller.voters.newest != committed for controller in world.controllers):
        return False
    if any(controller.driver.node.is_recovering for controller in world.controllers):
        return False
    return not world.quorum_calls and _can_elect(world, committed, without=node.id)


def unsettled_quorum(world: World) -> str | None:
    """Return a voter whose address in the quorum is outdated at the end, except a leader.

    A leader distributes its own address itself, as in Kafka.
    """
    for voter in world.checks.voters.committed.newest:
        node = world.nodes[voter[0]]
        if not node.is_leader and voter[1] == node.directory and world.checks.voters.ports.get(node.id) != node.port:
            return f"{node.name} has moved, but the quorum does not know its new address"
    return None


# --- requests to the active controller


def _request_leader(world: World, make: Callable[[SimulatedNode], Message | None], *, is_eager: bool = False) -> None:
    """Send a request to the leader, or with ``is_eager`` to the next leader immediately after its election."""

    def request(leader: SimulatedNode) -> None:
        leader.act(lambda: world.loop.create_task(_request(world, leader, make)))

    leader = next((node for node in world.controllers if node.is_leader), None)
    if is_eager:
        world.at_next_leader.append(request)
    elif leader is not None:
        request(leader)


async def _request(world: World, leader: SimulatedNode, make: Callable[[SimulatedNode], Message | None]) -> None:
    """Create the request and send it. It is created only now, because the node may have been suspended until now."""
    request = make(leader)
    if request is None:
        return
    name = type(request).__name__
    number = world.checks.begun(leader, name)
    world.quorum_calls.add(number)
    text, begun = "unanswered", world.checks.end_offset
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
    """Let the replica answer changes of the voters, and the controller all other requests."""
    key = ApiKey(request.API_KEY)
    version = API_TABLE[key].highest
    if isinstance(request, AddRaftVoterRequest | RemoveRaftVoterRequest):
        return await leader.driver.handle_request(request, version)
    if leader.in_process is None:
        raise NotLeaderException("the controller is not running")
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

    _request_leader(world, make, is_eager=is_eager)


def _remove(world: World, node_id: int, is_stale: bool, is_eager: bool) -> None:
    """Request the removal of a voter; ``is_stale`` names the directory that the node has lost."""
    node = world.nodes[node_id]

    def make(leader: SimulatedNode) -> Message | None:
        directory_id = node.directory_ids[0] if is_stale else node.directory_id
        left = frozenset(voter for voter in leader.voters.newest if voter != (node.id, str(directory_id)))
        if not left or not _can_elect(world, left):
            return None
        return RemoveRaftVoterRequest(cluster_id=CLUSTER_ID, voter_id=node.id, voter_directory_id=directory_id)

    _request_leader(world, make, is_eager=is_eager)


def _upgrade_quorum(world: World) -> None:
    """Upgrade from statically configured voters to voters in the log."""
    update = FeatureUpdateKey(feature=KRAFT_VERSION, max_version_level=1, upgrade_type=1)
    _request_leader(world, lambda leader: UpdateFeaturesRequest(timeout_ms=5000, feature_updates=[update]))


QUORUM_CALLS: dict[str, Callable[..., None]] = {
    "add_voter": _add,
    "remove_voter": _remove,
    "upgrade_quorum": _upgrade_quorum,
}
