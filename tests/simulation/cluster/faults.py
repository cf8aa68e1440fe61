"""The faults of a plan, each with its end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from barnabas.metadata.features import METADATA_VERSION
from barnabas.server.quorum.raft_recovery import DamagedAlone
from barnabas.storage.errors import StorageError
from tests.simulation.cluster.data_rot import rot_data
from tests.simulation.cluster.disk_errors import Armed
from tests.simulation.cluster.quorum_changes import may_lose
from tests.simulation.cluster.rot import rot
from tests.simulation.cluster.software import SOFTWARE

if TYPE_CHECKING:
    from tests.simulation.cluster.node import SimulatedNode
    from tests.simulation.cluster.plan import Step
    from tests.simulation.cluster.world import World

__all__ = ["carry_out_fault", "start"]


def carry_out_fault(world: World, step: Step) -> None:
    _FAULTS[step.kind](world, *step.args)


def _later(world: World, after_ms: float, action: Callable[[], Any]) -> None:
    world.faults_over_s = max(world.faults_over_s, world.loop.now_s + after_ms / 1000)
    world.loop.call_later(after_ms / 1000, action)


def _kill(world: World, node: SimulatedNode, down_ms: int, is_power_loss: bool, garbage: bool) -> None:
    if not node.is_up:
        return
    for line in node.crash(is_power_loss=is_power_loss, garbage=garbage):
        world.say(f"{node.name}: {line}")
    _later(world, down_ms, lambda: start(world, node))


def start(world: World, node: SimulatedNode) -> None:
    if node.is_up:
        return
    world.say(f"{node.name}: starts")
    try:
        node.start()
    except DamagedAlone as error:
        world.checks.rot.refused(node, error)
        node.give_up()
        _later(world, 50, lambda: start(world, node))
    except Exception as error:
        world.checks.fault(node, error)
        if node.errors.explains(error):
            world.checks.counts["starts refused for a disk error"] += 1
            world.say(f"{node.name}: refuses to start: {error}")
            node.give_up()
            _later(world, 300, lambda: start(world, node))


def renew_disks(world: World, node: SimulatedNode) -> None:
    """Restart a broker with a disabled log directory: it enables the directory at its next start."""
    if node.is_up and node.misses_directories:
        world.say(f"{node.name}: is stopped because a log directory was disabled")
        _kill(world, node, 50, False, False)


def _disk_error(world: World, node_id: int, scope: str, kind: str, skips: int, count: int, for_ms: int) -> None:
    node = world.nodes[node_id]
    if scope == "data" and len(node.data_directory_ids) > 1:
        scope = f"data {skips % 2}"
    node.errors.armed = Armed(scope, kind, skips, count)

    def over() -> None:
        node.errors.heal()
        renew_disks(world, node)
        start(world, node)

    _later(world, for_ms, over)


def _crash(world: World, node_id: int, down_ms: int, is_power_loss: bool, garbage: bool) -> None:
    _kill(world, world.nodes[node_id], down_ms, is_power_loss, garbage)


def _rot(world: World, node_id: int, what: str, spot: float, down_ms: int) -> None:
    if rot(world, node_id, what, spot):
        _later(world, down_ms, lambda: start(world, world.nodes[node_id]))


def _rot_data(world: World, node_id: int, what: str, spot: float, down_ms: int, is_running: bool) -> None:
    if rot_data(world, node_id, what, spot, is_running):
        _later(world, down_ms, lambda: start(world, world.nodes[node_id]))


def _crash_writing(world: World, node_id: int, down_ms: int, garbage: bool) -> None:
    """Let the power fail just after the node's next write, before the flush."""
    node = world.nodes[node_id]
    node.disk.dies_at_next_write = lambda: world.loop.call_later(
        0.0001, lambda: _kill(world, node, down_ms, True, garbage), context=world.no_process
    )


def _crash_appending(world: World, node_id: int, after_ms: float, down_ms: int, is_power_loss: bool) -> None:
    """Kill a broker just after its next append, when followers may have copied the records."""
    node = world.nodes[node_id]
    node.data_disk.dies_at_next_append = lambda: world.loop.call_later(
        after_ms / 1000, lambda: _kill(world, node, down_ms, is_power_loss, False), context=world.no_process
    )


def _crash_in_transaction(
    world: World, kind: str, skips: int, after_ms: float, down_ms: int, is_power_loss: bool
) -> None:
    """Kill the broker that writes a state of a transactional id, or a marker, after that many others."""

    def die(node: SimulatedNode) -> None:
        for other in world.nodes.values():
            other.data_disk.dies_in_transaction = None
        kill = partial(_kill, world, node, down_ms, is_power_loss, False)
        world.loop.call_later(after_ms / 1000, kill, context=world.no_process)

    for node in world.nodes.values():
        node.data_disk.dies_in_transaction = (kind, skips, partial(die, node))


def _leader(world: World) -> SimulatedNode | None:
    leading = [node for node in world.controllers if node.is_leader]
    return max(leading, key=lambda node: node.driver.node.epoch, default=None)


def _crash_leader(world: World, down_ms: int, is_power_loss: bool, garbage: bool) -> None:
    leader = _leader(world)
    if leader is not None:
        _kill(world, leader, down_ms, is_power_loss, garbage)


def _crash_all(world: World, down_ms: int, garbage: bool) -> None:
    for node in world.nodes.values():
        _kill(world, node, down_ms, True, garbage)


def _stop(world: World, node_id: int, down_ms: int) -> None:
    node = world.nodes[node_id]
    owner = node.owner
    if owner is None:
        return
    world.loop.start_as(owner, lambda: world.loop.create_task(node.stop()))
    _later(world, down_ms + 6000, lambda: start(world, node))


def _replace_disk(world: World, node_id: int, down_ms: int) -> None:
    node = world.nodes[node_id]
    if may_lose(world, node):
        node.crash(is_power_loss=True)
        node.replace_disk()
        world.checks.data.emptied(node.id)
        world.say(f"{node.name}: has an empty disk, {node.directory}")
        _later(world, down_ms, lambda: start(world, node))


def _move(world: World, node_id: int, down_ms: int) -> None:
    """Restart a controller on another port."""
    node = world.nodes[node_id]
    if may_lose(world, node):
        _kill(world, node, down_ms, False, False)
        node.port += 1


def _restart_as(world: World, node_id: int, software: str, down_ms: int) -> None:
    """Restart a node with other software on the same disk, if it supports the finalized features of the cluster."""
    node = world.nodes[node_id]
    level = world.checks.model.now["features"].get(METADATA_VERSION, 0)
    if SOFTWARE[software].metadata_version >= level:
        _kill(world, node, down_ms, False, False)
        node.software = SOFTWARE[software]


def _cut(world: World, node_ids: tuple[int, ...], way: str, for_ms: int) -> None:
    others = [id_ for id_ in (*world.nodes, -1) if id_ not in node_ids]
    pairs = set()
    for node_id in node_ids:
        for other in others:
            if way in ("both", "from"):
                pairs.add((node_id, other))
            if way in ("both", "to"):
                pairs.add((other, node_id))
    world.network.cut |= pairs
    _later(world, for_ms, lambda: world.network.cut.difference_update(pairs))


def _depose(world: World, for_ms: int, down_ms: int) -> None:
    """Cut the leader off, while it continues to write; when it is connected again, kill its successor."""
    leader = _leader(world)
    if leader is None:
        return
    _cut(world, (leader.id,), "both", for_ms)

    def back() -> None:
        successor = _leader(world)
        if successor is not None and successor is not leader:
            _kill(world, successor, down_ms, False, False)

    _later(world, for_ms, back)


def _leave_behind(world: World, node_id: int, for_ms: int) -> None:
    """Let a live node receive no messages until the others have only a snapshot of the records that it has missed."""
    _cut(world, (node_id,), "to", for_ms)
    others = [node for node in world.nodes.values() if node.id != node_id]

    def snapshots() -> None:
        for other in others:
            _snapshot(world, other.id)

    def clean() -> None:
        for other in others:
            other.act(lambda other=other: _start_after_snapshot(other))  # type: ignore[misc]

    _later(world, for_ms - 400, snapshots)
    _later(world, for_ms - 100, clean)


def _start_after_snapshot(node: SimulatedNode) -> None:
    """Delete the log before the latest snapshot, as the smallest possible retention would."""
    latest = node.driver.log.latest_snapshot_id
    if latest is not None and latest.offset > node.driver.log.start_offset:
        try:
            node.snapshots._delete_before(latest)
        except (OSError, StorageError) as error:  # As in ``MetadataSnapshots.clean``.
            node.driver.fail(error)


def _set(name: str, normal: Any) -> Callable[[World, Any, int], None]:
    def act(world: World, value: Any, for_ms: int) -> None:
        setattr(world.network, name, value)
        _later(world, for_ms, lambda: setattr(world.network, name, normal))

    return act


def _delay(world: World, delay_ms: float, for_ms: int) -> None:
    world.network.delay_ms = (0.2, delay_ms)
    _later(world, for_ms, lambda: setattr(world.network, "delay_ms", (0.2, 3.0)))


def _pause(world: World, node_id: int, for_ms: int) -> None:
    owner = world.nodes[node_id].owner
    if owner is not None:
        owner.paused_until_s = world.loop.now_s + for_ms / 1000


def _slow_disk(world: World, node_id: int, flush_ms: float, for_ms: int) -> None:
    node = world.nodes[node_id]
    node.flush_ms = (flush_ms / 4, flush_ms)
    _later(world, for_ms, lambda: setattr(node, "flush_ms", world.shape.flush_ms))


def _bad_disk(attribute: str) -> Callable[[World, int, int], None]:
    def act(world: World, node_id: int, for_ms: int) -> None:
        node = world.nodes[node_id]
        if not node.is_up:
            return
        setattr(node.disk, attribute, True)

        def over() -> None:
            setattr(node.disk, attribute, False)
            start(world, node)

        _later(world, for_ms, over)

    return act


def _clock(world: World, node_id: int, by_ms: int) -> None:
    world.nodes[node_id].wall_offset_ms += by_ms


def _resign(world: World) -> None:
    leader = _leader(world)
    if leader is not None:
        leader.act(lambda: leader.driver.resign(leader.driver.node.epoch))


def _snapshot(world: World, node_id: int) -> None:
    node = world.nodes[node_id]

    def save() -> None:
        if not node.loader.image.is_empty and node.loader.image.features.metadata_version is not None:
            world.loop.create_task(_save_snapshot(node))

    node.act(save)


async def _save_snapshot(node: SimulatedNode) -> None:
    """Save a snapshot as ``SnapshotGenerator`` does: after a disk error the node continues without this snapshot."""
    try:
        await node.snapshots.save(node.loader.image)
    except (OSError, StorageError) as error:
        if not node.errors.explains(error):
            raise


def _clean(world: World, node_id: int) -> None:
    node = world.nodes[node_id]
    node.act(lambda: world.say(f"{node.name}: log starts at {node.snapshots.clean()}"))


_FAULTS: dict[str, Callable[..., None]] = {
    "crash": _crash,
    "crash_leader": _crash_leader,
    "crash_all": _crash_all,
    "crash_writing": _crash_writing,
    "rot": _rot,
    "rot_data": _rot_data,
    "disk_error": _disk_error,
    "crash_appending": _crash_appending,
    "crash_in_transaction": _crash_in_transaction,
    "stop": _stop,
    "replace_disk": _replace_disk,
    "move": _move,
    "restart_as": _restart_as,
    "cut": _cut,
    "depose": _depose,
    "leave_behind": _leave_behind,
    "loss": _set("loss", 0.0),
    "doubles": _set("duplication", 0.0),
    "delay": _delay,
    "overtaking": _set("slow_share", 0.0),
    "pause": _pause,
    "slow_disk": _slow_disk,
    "full_disk": _bad_disk("is_full"),
    "failing_disk": _bad_disk("fails_to_flush"),
    "clock": _clock,
    "resign": _resign,
    "snapshot": _snapshot,
    "clean": _clean,
}
